"""What Spark raises for a failed query is classified by its class and condition."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.clock import LIMIT

from distributary.reducers.failures import Failure, FailureCode, failure_of


def fail(spark: Any, records: Any) -> Failure:
    """Run a streaming query until it fails."""
    with tempfile.TemporaryDirectory() as folder:
        writer = records.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.start()
        try:
            with pytest.raises(Exception, match=r".") as raised:
                query.awaitTermination(60 * LIMIT)
        finally:
            query.stop()
    return failure_of(raised.value)


def test_unknown_schemas_are_read_from_a_query_that_raised_them(spark: Any) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    found = fail(spark, rate.selectExpr("raise_error(concat('SchemaUnknown:', 17, ':')) AS x"))
    assert (found.code, found.schemas) == (FailureCode.UNKNOWN_SCHEMA, frozenset({17}))


def test_exception_of_a_worker_is_some_failure_with_its_text(spark: Any) -> None:
    def raises(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            raise ValueError("SchemaUnknown:17: NotOwner: are only words here")
        yield from ()

    rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    found = fail(spark, rate.mapInArrow(raises, "x int"))
    assert found.code is FailureCode.OTHER
    assert found.schemas == frozenset()
    assert "ValueError: SchemaUnknown:17" in found.message
