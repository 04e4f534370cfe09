"""What the commands for Kafka share: which cluster, the habits of Kafka's own tools, names and settings."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.cli.command_line import add_common
from distributary.cli.output import config_of
from distributary.errors import StackNotRunning, UsageError

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.config.sections import Kafka
    from distributary.kafka.admin import Cluster

TIMEOUT = 10.0


def add_kafka(parser: argparse.ArgumentParser, *, action: bool = True) -> None:
    """Add the options that say which cluster; to the parser of an action, the common ones too."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--bootstrap-server",
        "--bootstrap-servers",
        dest="bootstrap_server",
        metavar="HOST:PORT",
        help="a broker (default: kafka.bootstrap_servers, else the stack that runs here)",
    )
    group.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="client properties, as Kafka's tools take them (default: kafka.properties)",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"how long to wait for a broker (default: {TIMEOUT:g})",
    )
    if action:
        add_common(parser)


def habits(
    words: Sequence[str], actions: Iterable[str], others: Mapping[str, str] | None = None
) -> list[str]:
    """Understand ``--create --topic t`` as ``create --topic t``; ``others`` maps further flags to actions."""
    known = {f"--{action}": action for action in actions} | dict(others or {})
    words = settings_understood(words)
    if any(word in known.values() for word in words[:1]):
        return list(words)
    for at, word in enumerate(words):
        if word in known:
            return [known[word], *words[:at], *words[at + 1 :]]
    return list(words)


def settings_understood(words: Sequence[str]) -> list[str]:
    """Understand ``--config NAME=VALUE`` as ``--set NAME=VALUE``: ours is ``--config FILE``."""
    found = list(words)
    for at, word in enumerate(found):
        follows = found[at + 1] if at + 1 < len(found) else ""
        if word == "--add-config" or (word == "--config" and "=" in follows):
            found[at] = "--set"
        elif word.startswith("--config=") and word.count("=") > 1:
            found[at] = word.replace("--config=", "--set=", 1)
    return found


def kafka_of(args: argparse.Namespace, config: Config | None = None) -> Kafka:
    """Which cluster a command line means; raises StackNotRunning when it means none."""
    config = config or config_of(args, required=False)
    kafka = config.kafka
    if args.command_config is not None:
        kafka = replace(kafka, properties={**kafka.properties, **read_properties(args.command_config)})
    if args.bootstrap_server:
        return replace(kafka, bootstrap_servers=_servers(args.bootstrap_server))
    if kafka.bootstrap_servers:
        return kafka
    from distributary.config.embedded_defaults import embedded_kafka
    from distributary.stack.stack_file import running

    state = running(config.data_dir)
    if state is None or "kafka" not in state.addresses:
        raise StackNotRunning(
            f"no Kafka is named, and no stack runs in {config.data_dir}",
            hint="Give --bootstrap-server HOST:PORT, set kafka.bootstrap_servers, or start: distributary up",
        )
    # The properties are for the cluster of a user; the embedded one has its own, or none.
    return embedded_kafka(replace(kafka, properties={}), state.addresses["kafka"], config.data_dir)


def cluster_of(args: argparse.Namespace, config: Config | None = None) -> Cluster:
    """The cluster, once a broker of it answers; raises KafkaUnavailable."""
    from distributary.kafka.admin import connect

    return connect(kafka_of(args, config), args.timeout)


def names_of(args: argparse.Namespace, what: str) -> list[str]:
    """The names that were given, as words or by Kafka's option; raises UsageError when there is none."""
    found = [*getattr(args, "names", ()), *(one for text in args.option or () for one in text.split(","))]
    if not found:
        raise UsageError(f"which {what}?", hint=f"Name it: distributary {args.command} {args.action} NAME")
    return list(dict.fromkeys(found))


def settings_of(texts: Iterable[str] | None) -> dict[str, str]:
    """Read NAME=VALUE, also several joined by commas as Kafka's tools have them (lists in [brackets])."""
    found: dict[str, str] = {}
    for text in texts or ():
        for part in _parts(text):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"{part!r} is not NAME=VALUE", hint="As in: --set retention.ms=3600000")
            found[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found


def read_properties(path: Path) -> dict[str, str]:
    """Read a Java properties file: NAME=VALUE lines, comments with # or !."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and text[0] not in "#!":
            name, equals, value = text.partition("=")
            if not equals:
                raise UsageError(f"{path}:{number}: not NAME=VALUE")
            found[name.strip()] = value.strip()
    return found


def _parts(text: str) -> list[str]:
    """Split at commas, but not within brackets, nor where what follows is no NAME=."""
    parts: list[str] = []
    depth = 0
    for piece in text.split(","):
        if parts and (depth > 0 or "=" not in piece):
            parts[-1] += "," + piece
        else:
            parts.append(piece)
        depth += piece.count("[") - piece.count("]")
    return parts


def _servers(text: str) -> str:
    from distributary.config.validators import servers

    try:
        return servers(text)
    except ValueError as error:
        raise UsageError(f"--bootstrap-server {text!r}: {error}") from None
