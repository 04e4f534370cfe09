"""``python -m distributary.reducers.class_archive_run FILE``: run Spark and archive its classes.

Kafka is not needed: records come from a generator, and of the Kafka source only what works without it is run.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.config import Config, load
from distributary.model.build import Engine
from distributary.reducers import engine
from distributary.reducers.spark_session import spark_session
from distributary.reducers.view_compiler import Compiler
from distributary.setup.jars import ensure

if TYPE_CHECKING:
    import pyarrow as pa

_CONFIG = """
data_dir = "data"
[kafka]
bootstrap_servers = "127.0.0.1:1"
properties = {"default.api.timeout.ms" = "200", "request.timeout.ms" = "100"}
[[feeds]]
name = "warm"
topic = "warm"
[[views]]
name = "warm"
feed = "warm"
key = "id"
select = "id, price * 2 as double, lower(name) as name"
where = "price > 1.0 and name = 'a'"
"""

_RECORDS = (
    "cast(value as binary) AS key",
    """cast(concat('{"id":', value, ',"name":"a","price":2.5}') as binary) AS value""",
    "'warm' AS topic",
    "0 AS partition",
    "value AS offset",
    "timestamp",
    "0 AS timestampType",
    "array(struct('a' AS key, cast('b' as binary) AS value)) AS headers",
)


def main(file: str) -> int:
    """Write the archive; return 0 if it exists afterwards."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "distributary.toml")
        path.write_text(_CONFIG)
        config = load(path, {}, {})
        spark = spark_session(config, ensure("spark"), java=f"-XX:ArchiveClassesAtExit={file}")
        gateway = spark.sparkContext._gateway
        try:
            _run(spark, config)
        finally:
            spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    return 0 if Path(file).exists() else 1


def _run(spark: Any, config: Config) -> None:
    plan = Compiler(spark).compile(config.view("warm"), config.feed("warm"))
    for source in (
        spark.range(0, 1000, 1, 2).selectExpr("id AS value", "current_timestamp() AS timestamp"),
        spark.readStream.format("rate").load(),
    ):
        records = engine.prepare(source.selectExpr(*_RECORDS), plan, Engine.REAL_TIME)
        records = engine.to_python(records, "packed", config, Engine.REAL_TIME).mapInArrow(
            _drain, "nothing int"
        )
        if records.isStreaming:
            engine.start(
                config, records.writeStream.format("noop"), Engine.CATCH_UP, "warm"
            ).query.awaitTermination(30)
        else:
            records.write.format("noop").mode("append").save()
    # No broker responds; by then the source and its clients are loaded.
    with contextlib.suppress(Exception):
        batch = spark.read.format("kafka").option("subscribe", "warm").option("fetchOffset.numRetries", "1")
        for name, value in {
            "bootstrap.servers": config.kafka.bootstrap_servers,
            **config.kafka.properties,
        }.items():
            batch = batch.option(f"kafka.{name}", value)
        batch.load().count()


def _drain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
