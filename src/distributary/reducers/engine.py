"""How a view's records flow through Spark to its reducers, in Real-Time Mode or in micro-batches.

The settings are the measured recipe; each has its reason beside it. Those of the session are in
``spark_session.py``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributary.config import Config
from distributary.errors import BadView
from distributary.model.build import Engine
from distributary.model.partition_state import FILTERED_MARK_EVERY
from distributary.reducers.record_codec import FILTERED_SQL, rekey_sql
from distributary.reducers.spark_task import Worker
from distributary.reducers.view_compiler import Plan

CATCH_UP_RECORDS = 400_000
"""Records that one batch of a backlog reads at most."""
ARROW_RECORDS = 5_000
_OPERATION_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_PIPE_BUFFER = "spark.sql.execution.pandas.udf.buffer.size"
"""What waits in the pipe to a worker, in bytes: in Real-Time Mode a row must not wait for later ones."""
_REAL_TIME_PIPE_BUFFER = "8"


def read(spark: Any, config: Config, topic: str, starts: Mapping[int, int], engine: Engine) -> Any:
    """Read a topic from given offsets, committed records only (R10)."""
    reader = (
        spark.readStream.format("kafka")
        .options(**_kafka_options(config, {"isolation.level": "read_committed"}))
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("startingOffsets", json.dumps({topic: {str(p): at for p, at in starts.items()}}))
    )
    if engine is not Engine.REAL_TIME:
        reader = reader.option("maxOffsetsPerTrigger", CATCH_UP_RECORDS)
    return reader.load()


def _kafka_options(config: Config, required: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink; ``required`` override configured properties."""
    chosen = {**config.kafka.properties, "bootstrap.servers": config.kafka.bootstrap_servers, **required}
    return {f"kafka.{name}": value for name, value in chosen.items()}


def prepare(records: Any, plan: Plan, engine: Engine) -> Any:
    """Run a view's plan in the JVM; the result is packed rows with their key.

    In Real-Time Mode it includes the offsets of some records that ``where`` dropped: the end of the batch,
    which moves the mark past all of them, is minutes away.
    """
    from pyspark.sql import functions as F

    for text in plan.decode:
        records = records.select("*", F.expr(text))
    records = records.select(*[F.expr(text) for text in plan.source])
    filtered: list[str] = []
    if plan.where is not None and engine is Engine.REAL_TIME:
        filtered = ["record_passes"]
        records = records.select("*", F.expr(f"({plan.where}) AS record_passes"))
        records = records.where(f"record_passes OR pmod(record_offset, {FILTERED_MARK_EVERY}) = 0")
    elif plan.where is not None:
        records = records.where(plan.where)
    if plan.computed:
        records = records.select(*[F.expr(text) for text in plan.computed], *filtered)
    records = records.select(*[F.expr(text) for text in plan.select], *filtered)
    packed = f"IF(record_passes, {plan.packed}, {FILTERED_SQL})" if filtered else plan.packed
    return records.select("row_key", F.expr(f"{packed} AS packed"))


def analyse(spark: Any, config: Config, plan: Plan, topic: str, starts: Mapping[int, int], view: str) -> None:
    """Have Spark analyse a plan's SQL without running it; raises BadView with Spark's message."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        prepare(read(spark, config, topic, starts, Engine.CATCH_UP), plan, Engine.CATCH_UP)
    except PySparkException as error:
        message = str(error).split("\n'", 1)[0].split(";\n", 1)[0].strip()
        raise BadView(f"view {view}: {message}") from None
    except Py4JJavaError as error:  # for an Avro schema
        message = " ".join(str(error.java_exception.getMessage()).split())
        raise BadView(f"view {view}: {message[:300]}") from None


def to_python(records: Any, packed: str, config: Config, engine: Engine) -> Any:
    """Select the one column that goes to Python; in Real-Time Mode fillers follow each record."""
    from pyspark.sql import functions as F

    if engine is Engine.REAL_TIME:
        fillers = ", null" * config.spark.fillers
        return records.select(F.expr(f"explode(array({packed}{fillers})) AS record"))
    return records.select(F.expr(f"{packed} AS record"))


def partitions_read(query: Any) -> list[int]:
    """Return which Kafka partition each task of a running query reads; empty while nothing is planned.

    The number of a task is not that of its partition: Spark plans them in the order of a hash map.
    """
    execution = query._jsq.streamingQuery().lastExecution()
    if execution is None:
        return []
    leaves = execution.executedPlan().collectLeaves()
    planned = leaves.apply(0).inputPartitions()
    return [int(planned.apply(at).offsetRange().topicPartition().partition()) for at in range(planned.size())]


class RunningQuery:
    """A started query and the checkpoint folder that is removed with it."""

    def __init__(self, query: Any, folder: Path) -> None:
        self.query = query
        self._folder = folder

    def stop(self) -> None:
        """Stop the query; what its tasks had not written yet is read again by the next."""
        try:
            self.query.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def set_batches(session: Any, config: Config, engine: Engine) -> None:
    """Configure how records go from the JVM to the Python workers of a session's queries."""
    realtime = engine is Engine.REAL_TIME
    # In Real-Time Mode a row must not wait for later rows. Spark's Arrow writer requests the next row
    # before it sends a full batch, so a batch is as long as the fillers that follow each record.
    session.conf.set(
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        str(config.spark.fillers if realtime else ARROW_RECORDS),
    )
    session.conf.set(_PIPE_BUFFER, _REAL_TIME_PIPE_BUFFER if realtime else "65536")


def reduce(
    spark: Any, config: Config, records: Any, worker: Worker, engine: Engine, name: str
) -> RunningQuery:
    """Start a query that runs a worker over records.

    The checkpoint is always a new folder: the store's marks are the commit.
    """
    set_batches(spark, config, engine)
    out = records.mapInArrow(worker, "nothing int")
    return start(config, out.writeStream.format("noop"), engine, name)


def rekey(config: Config, records: Any, attempt: int, topic: str, engine: Engine, name: str) -> RunningQuery:
    """Start a query that writes prepared records to an internal topic by row key, all in the JVM (R7)."""
    from pyspark.sql import functions as F

    session = records.sparkSession
    jvm = session._jvm
    # Spark refuses `monotonically_increasing_id` in streams, where its numbers restart with every batch.
    # Here they only distinguish the rows of one run of one task. So the check is switched off for it, and
    # everything else is checked here.
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
        records._jdf.queryExecution().analyzed(), jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    )
    value = F.expr(f"{rekey_sql('packed', attempt)} AS value")
    writer = (
        records.select(F.expr("cast(row_key as binary) AS key"), value)
        .writeStream.format("kafka")
        .options(**_kafka_options(config, {"enable.idempotence": "true", "acks": "all", "linger.ms": "0"}))
        .option("topic", topic)
    )
    session.conf.set(_OPERATION_CHECK, "false")
    try:
        return start(config, writer, engine, name)
    finally:
        session.conf.set(_OPERATION_CHECK, "true")


def start(config: Config, writer: Any, engine: Engine, name: str) -> RunningQuery:
    """Start a query with a checkpoint of its own."""
    scratch = config.data_dir / "checkpoints"
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch))
    writer = writer.option("checkpointLocation", folder.as_uri()).queryName(name)
    if engine is Engine.REAL_TIME:
        writer = writer.outputMode("update").trigger(realTime=f"{config.spark.batch_duration:.0f} seconds")
    elif engine is Engine.CATCH_UP:
        writer = writer.outputMode("append").trigger(availableNow=True)
    else:
        writer = writer.outputMode("append").option("asyncProgressTrackingEnabled", "true")
        writer = writer.trigger(processingTime="0 seconds")
    return RunningQuery(writer.start(), folder)
