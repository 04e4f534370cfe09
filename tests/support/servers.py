"""Real servers for tests, each stopped by the pid it was started with."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import redis

from distributary.stack.ports import Ports
from tests.support.clock import LIMIT

_PORTS = Ports(Path(os.devnull))
atexit.register(_PORTS.close)


def free_port() -> int:
    """A port that nobody uses, nor gets while this process lives: no other test, no outgoing connection."""
    return _PORTS.any_free()


class StoreServer:
    """A Valkey or Redis server of the tests' own, with AOF as in production."""

    def __init__(
        self, binary: Path, folder: Path, *, fsync: str = "everysec", acl: Sequence[str] = ()
    ) -> None:
        """With ``fsync`` everysec, as in production, a kill may lose what was written last.

        ``acl`` are the words of a further user's rule, its name and password first: NAME on >PASSWORD …
        """
        self.binary = binary
        self.fsync = fsync
        self.folder = folder
        self.port = free_port()
        self.acl = list(acl)
        login = f"{acl[0]}:{acl[2].removeprefix('>')}@" if acl else ""
        self.url = f"redis://{login}127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None
        self._started = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers."""
        argv = [str(self.binary), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        argv += ["--appendonly", "yes", "--appendfsync", self.fsync, "--save", "", "--maxmemory-policy"]
        argv += ["noeviction", "--logfile", str(self.folder / "server.log")]
        argv += ["--user", *self.acl] if self.acl else []
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20 * LIMIT
        client = redis.Redis(port=self.port)
        while True:
            try:
                client.ping()
                break
            except redis.exceptions.RedisError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        if self._started and client.info("server").get("server_name") != "valkey":
            # As the embedded server does after a restart of Redis (R13).
            client.bgrewriteaof()
            while client.info("persistence")["aof_rewrite_in_progress"]:
                time.sleep(0.01)
        self._started = True
        client.close()

    def flush(self) -> None:
        """Forget everything."""
        client = redis.Redis(port=self.port)
        client.flushall()
        client.close()

    def set(self, name: str, value: str) -> None:
        """Change a setting of the server."""
        with redis.Redis(port=self.port) as client:
            client.config_set(name, value)

    def names(self) -> list[str]:
        """Name all keys."""
        with redis.Redis(port=self.port) as client:
            return [key.decode() for key in client.scan_iter("*", 1_000)]

    def kill(self) -> None:
        """As a crash would: SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def lose_tail(self, size: int) -> None:
        """Cut so many bytes off the end of the append-only file, while the server is down."""
        newest = max(self.folder.glob("appendonlydir/*.incr.aof"), key=lambda f: f.stat().st_mtime_ns)
        with newest.open("r+b") as file:
            file.truncate(max(0, newest.stat().st_size - size))

    def stop(self) -> None:
        """Stop cleanly."""
        assert self._process is not None
        while self._process.poll() is None:
            self._process.terminate()
            # A server that is writing its first file after a synchronisation does not listen.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
