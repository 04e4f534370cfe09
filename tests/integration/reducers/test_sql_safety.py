"""SQL of a view that would reach beyond its record is refused before Spark runs any of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from distributary.errors import BadView
from distributary.model.feed import Feed
from distributary.model.view import View
from distributary.reducers.view_compiler import REFUSED, Compiler

JSON = Feed("f", "t")

FORBIDDEN = [
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "JAVA_METHOD('java.lang.System', 'exit', 1)",
    "try_reflect('java.lang.Runtime', 'getRuntime')",
    "upper(concat('a', reflect('java.lang.System', 'getProperty', 'user.home')))",
    "case when price > 1 then reflect('a', 'b') end",
    "transform(tags, x -> reflect('a', 'b', x))",
    "call_function('reflect', 'java.lang.System', 'getenv', 'HOME')",
    "from_protobuf(value_bytes, 'M', '/etc/passwd')",
    "from_avro(value_bytes, '\"int\"', map('avroSchemaUrl', 'file:///etc/passwd'))",
    "from_xml(name, 'a int', map('rowValidationXSDPath', '/etc/passwd'))",
    "input_file_name()",
    "spark_catalog.default.f(price)",
    "(select max(value) from text.`/etc/passwd`)",
    "exists (select 1 from text.`/etc/passwd`)",
    "price in (select value from text.`/etc/passwd`)",
]


@pytest.mark.parametrize("feed", [JSON, Feed("f", "t", format="text")], ids=["json", "text"])
@pytest.mark.parametrize("sql", FORBIDDEN)
def test_sql_that_reaches_beyond_the_record_is_refused(spark: Any, sql: str, feed: Feed) -> None:
    for settings in (
        {"where": f"({sql}) is not null"},
        {"select": f"record_key, {sql} as x"},
        {"key": sql},
        {"time": sql},
        {"reduce": "aggregate", "aggregates": {"n": f"max({sql})"}},
    ):
        with pytest.raises(BadView, match=r"not allowed|reads its feed alone"):
            Compiler(spark).compile(View("v", "f", **settings), feed)


def test_select_from_another_table_is_refused(spark: Any) -> None:
    for select in ("value from text.`/etc/passwd`", "a from (select 1 as a)", "a, b from x join y"):
        with pytest.raises(BadView, match="FROM is not allowed"):
            Compiler(spark).compile(View("v", "f", select=select), JSON)


def test_every_function_of_spark_was_reviewed(spark: Any) -> None:
    """A new Spark brings new functions: look for those that read files or call classes, then update it."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    names = set(registry.functionSet().mkString("\n").split("\n"))
    short = {name.rpartition(".")[2].strip("`") for name in names}
    assert REFUSED - {"call_function"} <= short
    assert len(short) == 564


def test_xml_in_a_record_reads_no_file(spark: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    xml = f"<!DOCTYPE a [<!ENTITY x SYSTEM 'file://{secret}'>]><a>&x;</a>"
    frame = spark.createDataFrame([(xml,)], "x string")
    for function in ("xpath_string(x, 'a')", "cast(xpath(x, 'a/text()') as string)"):
        try:
            found = str(frame.selectExpr(f"{function} as found").collect())
        except PySparkException as error:
            found = str(error)
        assert "hunter2" not in found
