"""Ports: the usual one or a free one, and the same again at the next start.

Between the choice of a port and the moment its server listens there are seconds, in which another stack
would find it free. So each choice is also locked, in a folder that all stacks of a user share, for as long
as the choosing process lives. A lock keeps no stranger away, so a free port is one that the system does not
itself give to outgoing connections: one of those, of any program, would hold the port as long as it lasts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from distributary.config.private_files import private_folder
from distributary.stack import running_stacks
from distributary.stack.atomic_files import replace

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_EPHEMERAL = (32_768, 60_999)
_LOWEST = 10_240
"""Below it are the ports of servers that people know by number."""
_TRIES = 200


class Ports:
    """Chooses ports for one stack and remembers them in ``file``; none is given out twice until `close`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept = _read(file)
        self._locks: list[IO[bytes]] = []

    def choose(self, name: str, usual: int, host: str = "127.0.0.1") -> int:
        """The port that ``name`` had before, else the usual one, else a free one: the first not in use.

        ``usual`` 0 means any. A port of before counts only while the usual one is still the same, so
        that a change of the configuration is obeyed.
        """
        before = self._kept.get(name, {})
        wanted = [before.get("port", 0)] if before.get("usual") == usual else []
        for port in (*wanted, usual):
            if port and is_free(host, port) and self._lock(port):
                return self._keep(name, usual, port)
        return self._keep(name, usual, self.any_free(host))

    def any_free(self, host: str = "127.0.0.1") -> int:
        """A free port, which is not remembered; an ephemeral one only where there is no other."""
        ports = _not_ephemeral()
        for port in random.sample(ports, min(_TRIES, len(ports))):
            if is_free(host, port) and self._lock(port):
                return port
        while True:
            with _bound(host, 0) as probe:
                port = int(probe.getsockname()[1])
            if self._lock(port):
                return port

    def close(self) -> None:
        """Let other stacks have the ports."""
        while self._locks:
            with self._locks.pop() as lock, contextlib.suppress(OSError):
                os.unlink(lock.name)

    def _lock(self, port: int) -> bool:
        """Make the port ours; False when it is somebody's already."""
        lock = _open_lock(port)
        if lock is None:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed it just now: then what we locked is no longer the port's lock.
            ours = os.stat(lock.name).st_ino == os.fstat(lock.fileno()).st_ino
        except OSError:
            ours = False
        if ours:
            self._locks.append(lock)
        else:
            lock.close()
        return ours

    def _keep(self, name: str, usual: int, port: int) -> int:
        self._kept[name] = {"usual": usual, "port": port}
        replace(self._file, json.dumps(self._kept, indent=2) + "\n")
        return port


def chosen(file: Path) -> dict[str, int]:
    """The ports that a stack has chosen, by name; none where there is no such file."""
    return {name: row["port"] for name, row in _read(file).items()}


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. Connections that linger after a close do not count."""
    try:
        _bound(host, port).close()
    except OSError:
        return False
    return True


def ephemeral() -> range:
    """The ports that the system gives to outgoing connections."""
    try:
        first, last = map(int, _EPHEMERAL.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        first, last = _USUAL_EPHEMERAL
    return range(first, last + 1)


def _not_ephemeral() -> range:
    """Ports that no outgoing connection gets: below the ephemeral ones, or above where there are more."""
    outgoing = ephemeral()
    return max(range(_LOWEST, outgoing.start), range(outgoing.stop, 65_536), key=len)


def _bound(host: str, port: int) -> socket.socket:
    family, kind, number, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    probe = socket.socket(family, kind, number)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
    except OSError:
        probe.close()
        raise
    return probe


def _open_lock(port: int) -> IO[bytes] | None:
    """The lock file of a port; None where there can be none, since a start must not fail for its sake."""
    try:
        if private_folder(running_stacks.folder()):
            return (running_stacks.folder() / f"port-{port}.lock").open("ab")
    except OSError:
        pass
    return None


def _read(file: Path) -> dict[str, Mapping[str, int]]:
    """What was kept; nothing when the file is missing or damaged: ports can always be chosen anew."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {name: {"usual": int(row["usual"]), "port": int(row["port"])} for name, row in kept.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
