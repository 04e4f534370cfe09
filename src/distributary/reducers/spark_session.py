"""Spark's session: its settings, each with its reason, its Python daemon, and its slots."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from distributary.config import Config
from distributary.config.private_files import private_folder
from distributary.config.secrets import mask_property
from distributary.errors import SparkUnavailable
from distributary.model.build import Build, Engine
from distributary.reducers.engine import set_batches
from distributary.setup import class_archive
from distributary.setup.java import find as find_java

log = logging.getLogger(__name__)

LOCAL_SLOTS = 128
"""Threads, not cores: a task that waits for records costs next to nothing."""
AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in (("string", 1 << 25), ("bytes", 1 << 25), ("collectionItems", 1 << 22))
)
"""Broken Avro may announce gigabytes: without limits Java would try to allocate them and end."""
LATE_C2 = " ".join(
    f"-XX:Tier4{what}={count}"
    for what, count in (
        ("InvocationThreshold", 50_000),
        ("MinInvocationThreshold", 6_000),
        ("CompileThreshold", 150_000),
        ("BackEdgeThreshold", 400_000),
    )
)
"""Ten times Java's own thresholds: its optimising compiler took a quarter of what the start of the reducers
costs, for code that is hot only then. What runs for each record passes them under load (decision 8)."""
_SOCKET_PATH = 107
"""Maximum bytes in the path of a Unix domain socket; some systems allow less, none more."""
_SOCKET_NAME = 48
"""Bytes that Spark appends to its folder's path."""
_PID = re.compile("[1-9][0-9]{0,9}", re.ASCII)
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_COMMAND_LINE_SUFFIXES = ("JavaOptions", "ClassPath", "LibraryPath")
"""Suffixes of properties whose values are part of a command line, whichever way they are passed."""
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
SEALED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
}
"""On one machine Spark creates a secret that a process needs to talk to the driver. On a cluster its master
and workers need it as well, so that is configured in spark.properties."""


def spark_session(config: Config, jars: Path, java: str | None = None) -> Any:
    """Start Spark with the settings of every query of this process; ``jars`` is a folder.

    ``java`` are options of the JVM; None for those that make it start fastest here.
    """
    from pyspark.sql import SparkSession

    slots = config.spark.slots or LOCAL_SLOTS
    # Workers run this same Python with this same package; on other machines under the same path, unless a
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
        # Spark's TCP sockets to its Python workers sometimes wait 40 ms for the acknowledgement of the
        # previous record (Nagle's algorithm against delayed acknowledgements).
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
        # The end of a batch writes two checkpoint files that nothing reads again. Spark's usual way to write
        # one starts ten processes (chmod, readlink); this way starts one, and the pause is half as long.
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }
    files = sorted(map(str, jars.glob("*.jar")))
    if config.spark.master:
        settings["spark.jars"] = ",".join(files)
        if config.spark.slots and config.spark.master.startswith("spark://"):
            # A core is a slot there, and Spark would take all of them.
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
        # On a cluster the interface is not the loopback one.
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            if name not in config.spark.properties:
                del settings[name]
    builder = SparkSession.builder.master(config.spark.master or f"local[{slots}]").appName("distributary")
    _, secret = split_secrets(config.spark.properties)
    for name, value in settings.items():
        if name not in secret:
            builder = builder.config(name, value)
    try:
        with properties_file(secret):
            spark = builder.getOrCreate()
    except Exception as error:  # Py4J's, whose text is the JVM's whole trace
        raise SparkUnavailable(
            f"cannot start Spark at {config.spark.master or 'this machine'}: {_first_line(str(error))}",
            hint="Check spark.master, and the logs of Spark's master and workers",
        ) from None
    spark.sparkContext.setLogLevel("WARN")
    if not config.spark.master:
        keep_write_buffers(spark)
    return spark


def keep_write_buffers(spark: Any) -> None:
    """Let the garbage collector free the buffers through which this JVM's tasks write to Python.

    When a task is interrupted, because its query stops or another task failed, Spark closes that buffer and
    frees its memory at once, while the task's own thread may still write to it: the heap is corrupted, and
    the JVM dies sooner or later (decision 16). No setting of Spark 4.2 prevents that.
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
        log.warning("cannot keep Spark from freeing its buffers early: %s", error)


def start_daemon(spark: Any, config: Config) -> None:
    """Make Spark start the Python daemon of Real-Time Mode, which it does only when a task needs a worker.

    It has a daemon for each environment, so the task that is run for it must require the same environment as
    the reducers' tasks.
    """

    def nothing(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        return iter(())

    try:
        session = spark.newSession()
        set_batches(session, config, Engine.REAL_TIME)
        rows = session.range(0, 1, 1, 1).mapInArrow(nothing, "nothing int")
        rows.write.format("noop").mode("append").save()
    except Exception as error:
        log.warning("cannot start Spark's Python daemon: %s", _first_line(str(error)))


def socket_folder(data_dir: Path) -> Path | None:
    """Create a folder for the sockets of this process, and remove those of processes that were killed.

    If the path of the data folder is too long for a socket, it is in the folder of temporary files. None if
    that is too long as well, or belongs to another user: Spark then chooses.
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
    """Return the line of a JVM error that names the cause, without the stack trace."""
    lines = [line.strip(": ") for line in text.splitlines() if line.strip()] or [""]
    return next((line for line in lines if "Exception:" in line or "Error:" in line), lines[0])[:300]


def slot_count(config: Config, spark: Any) -> int:
    """Return how many tasks may run at once: as configured, or as many as the cluster has now."""
    if not config.spark.master:
        return config.spark.slots or LOCAL_SLOTS
    there = int(spark.sparkContext.defaultParallelism)
    return min(config.spark.slots, there) if config.spark.slots else there


class SlotPool:
    """Counts the slots that are taken for long; every method may be called from any thread.

    In Real-Time Mode each partition is a task that never ends, so a query that gets fewer slots than it has
    partitions would never read some of them. One slot is reserved for micro-batches, which all others use.

    ``count`` returns how many slots there are now: on a cluster they come and go with its workers.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._taken: dict[Build, int] = {}
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """How many slots there are, taken or not."""
        return self._count()

    def take(self, build: Build, count: int) -> bool:
        """Take slots instead of those a build had; False, with nothing taken, if too few are free."""
        with self._lock:
            self._taken.pop(build, None)
            if sum(self._taken.values()) + count > self.total - 1:
                return False
            self._taken[build] = count
            return True

    def release(self, build: Build) -> None:
        """Release the slots of a build, if it has any."""
        with self._lock:
            self._taken.pop(build, None)


def split_secrets(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split properties into public ones, and those that are or may contain secrets."""
    shown: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name, text in properties.items():
        plain = name.endswith(_COMMAND_LINE_SUFFIXES) or mask_property(name, text) == text
        (shown if plain else secret)[name] = text
    return shown, secret


@contextlib.contextmanager
def properties_file(properties: Mapping[str, str]) -> Iterator[None]:
    """Make a JVM that PySpark starts within this context read these properties from a file.

    PySpark writes every property of a session to the command line of the JVM that it starts, which every user
    of the machine can read. The file has mode 0600 and is removed afterwards. The user's spark-defaults.conf
    still applies. Spark strips values that it reads from a file.
    """
    if not properties:
        yield
        return
    before = os.environ.get(SUBMIT_ARGS)
    handle, name = tempfile.mkstemp(prefix="distributary-spark-", suffix=".conf")  # with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(text)}\n" for key, text in properties.items())
        options = f"--properties-file {shlex.quote(name)} --load-spark-defaults"
        os.environ[SUBMIT_ARGS] = f"{options} {before or 'pyspark-shell'}"
        yield
    finally:
        if before is None:
            os.environ.pop(SUBMIT_ARGS, None)
        else:
            os.environ[SUBMIT_ARGS] = before
        Path(name).unlink(missing_ok=True)


def _escaped(text: str) -> str:
    """Write a key or value as java.util.Properties reads it."""
    return "".join(
        _ESCAPES.get(char) or (f"\\{char}" if char in " =:#!" else char) if char.isascii() else _utf16(char)
        for char in text
    )


def _utf16(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
