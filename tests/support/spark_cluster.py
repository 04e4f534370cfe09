"""A Spark standalone cluster on this machine: a master and its workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import psutil

from distributary.setup import java
from tests.support.clock import LIMIT
from tests.support.servers import free_port

HOST = "127.0.0.1"


class SparkCluster:
    """Started from the jars that PySpark brings, so that driver and executors are of one version."""

    def __init__(self, folder: Path, *, workers: int, cores: int) -> None:
        self._folder = folder
        self._cores = cores
        self._count = workers
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        found = java.find()
        self._command = [str(found.path), "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/jars/*"]
        self._env = {**os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(found.home)}
        self._env["SPARK_SCALA_VERSION"] = "2.13"  # as Spark's own scripts tell it
        self.url = f"spark://{HOST}:{free_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the master, and when it listens the workers, which take their time."""
        port = int(self.url.rpartition(":")[2])
        args = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
        master = self._run("master", "master.Master", *args)
        deadline = time.monotonic() + 60 * LIMIT
        while not _listens(port):
            assert master.poll() is None, (self._folder / "master.log").read_text()
            assert time.monotonic() < deadline, "the master does not listen"
            time.sleep(0.05)
        for n in range(self._count):
            name = f"worker-{n}"
            args = ["--host", HOST, "--cores", str(self._cores), "--memory", "2g", "--webui-port", "0"]
            args += ["--work-dir", str(self._folder / name), self.url]
            self.workers.append(self._run(name, "worker.Worker", *args))

    def worker_of(self, pid: int) -> int:
        """Say under which worker a process runs."""
        above = {one.pid for one in psutil.Process(pid).parents()}
        return next(n for n, worker in enumerate(self.workers) if worker.pid in above)

    def kill(self, worker: int) -> None:
        """End a worker and its executors at once, as the loss of its machine would."""
        process = psutil.Process(self.workers[worker].pid)
        for one in [process, *process.children(recursive=True)]:
            one.kill()
        self.workers[worker].wait()

    def stop(self) -> None:
        """End all that was started, the executors with it."""
        for process in self._started:
            for one in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
                one.kill()
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    def _run(self, name: str, main: str, *args: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*self._command, f"org.apache.spark.deploy.{main}", *args],
                env=self._env,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        self._started.append(process)
        return process


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((HOST, port)) == 0
