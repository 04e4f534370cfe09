"""Ports: the configured one or a free one, and the same again at the next start.

Seconds pass between the choice of a port and its server listening, in which another stack would find it
free. So each choice is also locked, in a folder that all stacks of a user share, for as long as the
choosing process lives. A lock does not stop other programs, so a free port is chosen outside the range that
the system assigns to outgoing connections: a connection of any program would occupy the port as long as it
lasts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import random
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

from distributary.config import Config
from distributary.config.private_files import private_folder
from distributary.config.server_sections import Listening
from distributary.stack import stack_file
from distributary.stack.data_dir import replace_file


class ListeningPort(NamedTuple):
    """A port on which a Python service listens: ``[section] field``."""

    section: str
    field: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """Its name in ``ports.json``: ``control``, ``publisher-http``."""
        return "-".join(filter(None, (self.section, self.field.removesuffix("port").rstrip("_"))))


def listening_ports(config: Config) -> list[ListeningPort]:
    """The ports of all services, 0 for those that are not started."""
    return [
        ListeningPort(section, field.name, server.host, getattr(server, field.name))
        for section, server in listening_sections(config).items()
        for field in dataclasses.fields(server)
        if field.name.endswith("port")
    ]


def listening_sections(config: Config) -> dict[str, Listening]:
    """The settings of all services that listen, by section."""
    sections = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: section for name, section in sections.items() if isinstance(section, Listening)}


_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_EPHEMERAL = (32_768, 60_999)
_LOWEST = 10_240
"""Below it are the well-known ports of servers."""
_TRIES = 200


class Ports:
    """Chooses ports for one stack and remembers them in ``file``; none is chosen twice until `close`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._chosen = _read(file)
        """By name: the port, and the configured one that it was chosen for."""
        self._locks: list[IO[bytes]] = []
        """Lock files of the ports of this stack, until `close`."""

    def choose(self, name: str, usual: int, host: str = "127.0.0.1") -> int:
        """The port that ``name`` had before, else the usual one, else a free one: the first not in use.

        ``usual`` 0 means any. The port of an earlier start is used only while ``usual`` is still the same, so
        that a change of the configuration takes effect.
        """
        before = self._chosen.get(name, {})
        preferred = [before.get("port", 0)] if before.get("usual") == usual else []
        for port in (*preferred, usual):
            if port and is_free(host, port) and self._lock(port):
                return self._remember(name, usual, port)
        return self._remember(name, usual, self.any_free(host))

    def choose_for_services(self, config: Config) -> Config:
        """The configuration with ports that are free, for all services that it starts."""
        for one in listening_ports(config):
            if one.port:
                section = getattr(config, one.section)
                port = self.choose(one.name, one.port, one.host)
                config = dataclasses.replace(
                    config, **{one.section: dataclasses.replace(section, **{one.field: port})}
                )
        return config

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
        """Release the ports for other stacks."""
        while self._locks:
            with self._locks.pop() as lock, contextlib.suppress(OSError):
                os.unlink(lock.name)

    def _lock(self, port: int) -> bool:
        """Lock the port for this stack; False when another has it."""
        lock = _open_lock(port)
        if lock is None:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed it just now: then the locked file is no longer the port's lock.
            locked = os.stat(lock.name).st_ino == os.fstat(lock.fileno()).st_ino
        except OSError:
            locked = False
        if locked:
            self._locks.append(lock)
        else:
            lock.close()
        return locked

    def _remember(self, name: str, usual: int, port: int) -> int:
        self._chosen[name] = {"usual": usual, "port": port}
        replace_file(self._file, json.dumps(self._chosen, indent=2) + "\n")
        return port


def chosen(file: Path) -> dict[str, int]:
    """The ports that a stack has chosen, by name; none where there is no such file."""
    return {name: row["port"] for name, row in _read(file).items()}


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. Connections that linger after a close are ignored."""
    try:
        _bound(host, port).close()
    except OSError:
        return False
    return True


def ephemeral() -> range:
    """The ports that the system assigns to outgoing connections."""
    try:
        first, last = map(int, _EPHEMERAL.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        first, last = _USUAL_EPHEMERAL
    return range(first, last + 1)


def _not_ephemeral() -> range:
    """Ports that no outgoing connection is assigned: below the ephemeral ones, or above if those are more."""
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
    """The lock file of a port; None where none can be created, which must not make a start fail."""
    try:
        if private_folder(stack_file.registry_folder()):
            return (stack_file.registry_folder() / f"port-{port}.lock").open("ab")
    except OSError:
        pass
    return None


def _read(file: Path) -> dict[str, Mapping[str, int]]:
    """The ports of earlier starts; none when the file is missing or damaged: others can always be chosen."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return {name: {"usual": int(row["usual"]), "port": int(row["port"])} for name, row in rows.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
