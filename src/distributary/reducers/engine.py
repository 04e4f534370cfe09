"""How a view's query is started on Spark: Real-Time Mode, or micro-batches to catch up.

The settings are the measured recipe; each has its reason beside it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import psutil

from distributary.config import Config
from distributary.config.private_files import private_folder
from distributary.errors import SparkUnavailable
from distributary.model.partition_state import FILTERED_MARK_EVERY
from distributary.reducers.record_codec import FILTERED_SQL, rekey_sql
from distributary.reducers.spark_secrets import handed_over, split_secrets
from distributary.reducers.spark_task import Worker
from distributary.reducers.view_compiler import Plan
from distributary.setup import class_archive
from distributary.setup.java import find as find_java

log = logging.getLogger(__name__)

Engine = Literal["realtime", "catch-up", "microbatch"]

LOCAL_SLOTS = 128
"""Threads, not cores: a task that waits for records costs next to nothing."""
CHECKED = "spark.sql.streaming.unsupportedOperationCheck"
CATCH_UP_RECORDS = 400_000
ARROW_RECORDS = 5_000
AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in (("string", 1 << 25), ("bytes", 1 << 25), ("collectionItems", 1 << 22))
)
"""Broken Avro may say that gigabytes follow: without limits Java would try to make room for them and end."""
LATE_C2 = " ".join(
    f"-XX:Tier4{what}={count}"
    for what, count in (
        ("InvocationThreshold", 50_000),
        ("MinInvocationThreshold", 6_000),
        ("CompileThreshold", 150_000),
        ("BackEdgeThreshold", 400_000),
    )
)
"""Ten times Java's own thresholds: its optimising compiler took a quarter of all that a start of the reducers
costs, for code that is hot only then. What runs for each record passes them under load (decision 8)."""
_BUFFER, _LIVE_BUFFER = "spark.sql.execution.pandas.udf.buffer.size", "8"
"""What waits in the pipe to a worker, in bytes: in Real-Time Mode a row must not wait for later ones."""
_SOCKET_PATH = 107
"""Bytes of the path of a Unix domain socket, at most; it is less on some systems, and never more."""
_SOCKET_NAME = 48
"""Bytes that Spark adds to its folder's."""
_PID = re.compile("[1-9][0-9]{0,9}", re.ASCII)
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


SEALED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
}
"""On one machine Spark makes its own secret, and whoever does not know it cannot talk to the driver. On a
cluster its master and workers must have it as well, so that is for spark.properties."""


def spark_session(config: Config, jars: Path, java: str | None = None) -> Any:
    """Start Spark with what every query of this process needs: ``jars`` is a folder of them.

    ``java`` is for the JVM's command line; None for what makes it start fastest here.
    """
    from pyspark.sql import SparkSession

    slots = config.spark.slots or LOCAL_SLOTS
    # Workers run this same Python, with this same package: on other machines, at the same place unless a
    # property names another. PySpark reads only the variable.
    named = config.spark.properties.get("spark.pyspark.python") if config.spark.master else None
    if named or not config.spark.master or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = named or sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": config.spark.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": "distributary.reducers.pyspark_daemon",
        # Spark's TCP sockets to its Python workers wait, now and then 40 ms, for the acknowledgement of the
        # record before (Nagle's algorithm against delayed acknowledgements).
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "1",
        # mapInArrow and the noop sink are not on the list of what Real-Time Mode is documented for.
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        # A malformed number in a record must be null, not the end of the stream.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.variant.allowDuplicateKeys": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.cleaner.referenceTracking.blocking": "false",
        # A batch's end writes two checkpoint files that nobody reads again. Spark's usual way to write one
        # starts ten processes (chmod, readlink); this way starts one, and the pause is half as long.
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }
    files = sorted(map(str, jars.glob("*.jar")))
    if config.spark.master:
        settings["spark.jars"] = ",".join(files)
        if config.spark.slots and config.spark.master.startswith("spark://"):
            # A core is a slot there, and Spark would take all.
            settings["spark.cores.max"] = str(config.spark.slots)
    else:
        # On the class path they are part of the archive; jars that Spark hands out are not.
        settings["spark.driver.extraClassPath"] = ":".join(files)
        if folder := socket_folder(config.data_dir):
            settings["spark.python.unix.domain.socket.dir"] = str(folder)
        quick = f"{LATE_C2} {class_archive.options(find_java())}"
        settings["spark.driver.extraJavaOptions"] = quick if java is None else java
        settings.update(SEALED)
    settings.update(config.spark.properties)
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        settings[name] = f"{AVRO_LIMITS} {settings.get(name, '')}".strip()
    if config.spark.master:
        # On a cluster the interface is not this machine's own.
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            if name not in config.spark.properties:
                del settings[name]
    builder = SparkSession.builder.master(config.spark.master or f"local[{slots}]").appName("distributary")
    _, secret = split_secrets(config.spark.properties)
    for name, value in settings.items():
        if name not in secret:
            builder = builder.config(name, value)
    try:
        with handed_over(secret):
            spark = builder.getOrCreate()
    except Exception as error:  # Py4J's, with the JVM's whole trace for its text
        raise SparkUnavailable(
            f"Spark at {config.spark.master or 'this machine'} does not start: {_first_line(str(error))}",
            hint="Check spark.master, and the logs of Spark's master and workers",
        ) from None
    spark.sparkContext.setLogLevel("WARN")
    if not config.spark.master:
        keep_buffers(spark)
    return spark


def keep_buffers(spark: Any) -> None:
    """Have the garbage collector free the buffers in which this JVM's tasks write to Python.

    Whoever interrupts a task, because its query stops or another task of it failed, closes that buffer, and
    Spark frees its memory there and then, while the task's own thread may still be writing to it: the JVM's
    heap is corrupted, and it dies sooner or later (decision 16). No setting of Spark 4.2 prevents that.
    """
    from py4j.protocol import Py4JError

    jvm = spark._jvm
    try:
        class_of = jvm.java.lang.Class.forName
        the_unsafe = class_of("sun.misc.Unsafe").getDeclaredField("theUnsafe")
        the_unsafe.setAccessible(True)
        unsafe = the_unsafe.get(None)
        cleaner = class_of("org.apache.spark.storage.StorageUtils$").getDeclaredField("bufferCleaner")
        nothing = getattr(getattr(getattr(jvm.scala, "Predef$"), "MODULE$"), "$conforms")()
        unsafe.putObject(unsafe.staticFieldBase(cleaner), unsafe.staticFieldOffset(cleaner), nothing)
    except Py4JError as error:
        log.warning("Spark frees its buffers early, as it is not known how to keep it from it: %s", error)


def start_python(spark: Any) -> None:
    """Have Spark start the Python daemon of Real-Time Mode, which it does only when a task needs a worker.

    It has a daemon for each environment, so what runs for that must want the same as the reducers' tasks.
    """

    def nothing(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        return iter(())

    try:
        session = spark.newSession()
        session.conf.set(_BUFFER, _LIVE_BUFFER)
        rows = session.range(0, 1, 1, 1).mapInArrow(nothing, "nothing int")
        rows.write.format("noop").mode("append").save()
    except Exception as error:
        log.warning("Spark's Python did not start: %s", _first_line(str(error)))


def socket_folder(data_dir: Path) -> Path | None:
    """Make a folder for the sockets of this process, and clear those of processes that were killed.

    Where the data folder's path is too long for a socket's, it is among the temporary files; None where that
    is too long as well, or somebody else's (then they are where Spark puts them).
    """
    mine = data_dir / "sockets" / str(os.getpid())
    if len(os.fsencode(mine)) + _SOCKET_NAME > _SOCKET_PATH:
        mine = Path(tempfile.gettempdir()) / f"distributary-{os.getuid()}" / mine.name
        if len(os.fsencode(mine)) + _SOCKET_NAME > _SOCKET_PATH:
            return None
    mine.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not private_folder(mine.parent):
        return None
    for other in mine.parent.iterdir():
        if _PID.fullmatch(other.name) and not psutil.pid_exists(int(other.name)):
            shutil.rmtree(other, ignore_errors=True)  # which does not follow a link
    return mine if private_folder(mine) else None


def _first_line(text: str) -> str:
    """What the JVM says went wrong, without where."""
    lines = [line.strip(": ") for line in text.splitlines() if line.strip()] or [""]
    return next((line for line in lines if "Exception:" in line or "Error:" in line), lines[0])[:300]


def slots(config: Config, spark: Any) -> int:
    """How many tasks may run at once: as configured, or as many as there are now."""
    if not config.spark.master:
        return config.spark.slots or LOCAL_SLOTS
    there = int(spark.sparkContext.defaultParallelism)
    return min(config.spark.slots, there) if config.spark.slots else there


def read(spark: Any, config: Config, topic: str, starts: Mapping[int, int], engine: Engine) -> Any:
    """Read a topic from given offsets, committed records only (R10)."""
    reader = (
        spark.readStream.format("kafka")
        .options(**_kafka(config, {"isolation.level": "read_committed"}))
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("startingOffsets", json.dumps({topic: {str(p): at for p, at in starts.items()}}))
    )
    if engine != "realtime":
        reader = reader.option("maxOffsetsPerTrigger", CATCH_UP_RECORDS)
    return reader.load()


def _kafka(config: Config, ours: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's Kafka source and sink; ``ours`` stand over the configured properties."""
    chosen = {**config.kafka.properties, "bootstrap.servers": config.kafka.bootstrap_servers, **ours}
    return {f"kafka.{name}": value for name, value in chosen.items()}


def prepare(records: Any, plan: Plan, engine: Engine) -> Any:
    """Do in the JVM all that a view's plan asks; what is left is packed rows with their key.

    In Real-Time Mode the places of some records come that ``where`` dropped: a batch's end, which tells of
    all of them, is minutes away.
    """
    from pyspark.sql import functions as F

    for text in plan.decode:
        records = records.select("*", F.expr(text))
    records = records.select(*[F.expr(text) for text in plan.source])
    places: list[str] = []
    if plan.where is not None and engine == "realtime":
        places = ["record_passes"]
        records = records.select("*", F.expr(f"({plan.where}) AS record_passes"))
        records = records.where(f"record_passes OR pmod(record_offset, {FILTERED_MARK_EVERY}) = 0")
    elif plan.where is not None:
        records = records.where(plan.where)
    if plan.computed:
        records = records.select(*[F.expr(text) for text in plan.computed], *places)
    records = records.select(*[F.expr(text) for text in plan.select], *places)
    packed = f"IF(record_passes, {plan.packed}, {FILTERED_SQL})" if places else plan.packed
    return records.select("row_key", F.expr(f"{packed} AS packed"))


def hand_over(records: Any, packed: str, config: Config, engine: Engine) -> Any:
    """Make the one column that goes to Python; in Real-Time Mode with fillers behind each record."""
    from pyspark.sql import functions as F

    if engine == "realtime":
        fillers = ", null" * config.spark.fillers
        return records.select(F.expr(f"explode(array({packed}{fillers})) AS record"))
    return records.select(F.expr(f"{packed} AS record"))


def partitions_read(query: Any) -> list[int]:
    """Ask Spark which Kafka partition each task of a running query reads; empty while nothing is planned.

    The number of a task is not that of its partition: Spark plans them in the order of a hash map.
    """
    execution = query._jsq.streamingQuery().lastExecution()
    if execution is None:
        return []
    leaves = execution.executedPlan().collectLeaves()
    planned = leaves.apply(0).inputPartitions()
    return [int(planned.apply(at).offsetRange().topicPartition().partition()) for at in range(planned.size())]


class Running:
    """A started query and the checkpoint folder that ends with it."""

    def __init__(self, query: Any, folder: Path, engine: Engine) -> None:
        self.query = query
        self.engine: Engine = engine
        self._folder = folder

    def stop(self) -> None:
        """Stop the query; what its tasks had not written yet is read again by the next."""
        try:
            self.query.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def set_batches(session: Any, config: Config, engine: Engine) -> None:
    """Say how records go from the JVM to the Python workers of a session's queries."""
    realtime = engine == "realtime"
    # In Real-Time Mode a row must not wait for later rows. Spark's Arrow writer asks for the next row
    # before it sends a full batch, so a batch is as long as the fillers that follow each record.
    session.conf.set(
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        str(config.spark.fillers if realtime else ARROW_RECORDS),
    )
    session.conf.set(_BUFFER, _LIVE_BUFFER if realtime else "65536")


def reduce(spark: Any, config: Config, records: Any, worker: Worker, engine: Engine, name: str) -> Running:
    """Run a worker over records.

    The checkpoint is always a fresh folder: the store's marks are the commit.
    """
    set_batches(spark, config, engine)
    out = records.mapInArrow(worker, "nothing int")
    return start(config, out.writeStream.format("noop"), engine, name)


def rekey(config: Config, records: Any, attempt: int, topic: str, engine: Engine, name: str) -> Running:
    """Write prepared records to an internal topic, keyed by their row key, without leaving the JVM (R7)."""
    from pyspark.sql import functions as F

    session = records.sparkSession
    jvm = session._jvm
    # Spark refuses `monotonically_increasing_id` in streams, where its numbers begin again with every batch.
    # Here they need only tell the rows of one run of one task apart, so all but those is checked by hand.
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
        records._jdf.queryExecution().analyzed(), jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    )
    value = F.expr(f"{rekey_sql('packed', attempt)} AS value")
    writer = (
        records.select(F.expr("cast(row_key as binary) AS key"), value)
        .writeStream.format("kafka")
        .options(**_kafka(config, {"enable.idempotence": "true", "acks": "all", "linger.ms": "0"}))
        .option("topic", topic)
    )
    session.conf.set(CHECKED, "false")
    try:
        return start(config, writer, engine, name)
    finally:
        session.conf.set(CHECKED, "true")


def start(config: Config, writer: Any, engine: Engine, name: str) -> Running:
    """Start a query with a checkpoint of its own."""
    scratch = config.data_dir / "checkpoints"
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch))
    writer = writer.option("checkpointLocation", folder.as_uri()).queryName(name)
    if engine == "realtime":
        writer = writer.outputMode("update").trigger(realTime=f"{config.spark.batch_duration:.0f} seconds")
    elif engine == "catch-up":
        writer = writer.outputMode("append").trigger(availableNow=True)
    else:
        writer = writer.outputMode("append").option("asyncProgressTrackingEnabled", "true")
        writer = writer.trigger(processingTime="0 seconds")
    return Running(writer.start(), folder, engine)
