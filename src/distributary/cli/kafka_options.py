"""What the commands for Kafka share: which cluster, the options of Kafka's own tools, names and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.cli.command_line import Args, Decorated, Group, Option, combine, load_config
from distributary.errors import StackNotRunning, UsageError

if TYPE_CHECKING:
    from distributary.config import Config
    from distributary.config.sections import Kafka
    from distributary.kafka.admin import Cluster

TIMEOUT = 10.0

FILE = click.Path(path_type=Path)


_CLUSTER: dict[str, Any] = {"cls": Option, "section": "Cluster"}

cluster_options = combine(
    click.option(
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap_server",
        metavar="HOST:PORT",
        help="a broker (default: kafka.bootstrap_servers, else the stack that runs here)",
        **_CLUSTER,
    ),
    click.option(
        "--command-config",
        type=FILE,
        metavar="FILE",
        help="client properties, as in Kafka's own tools (default: kafka.properties)",
        **_CLUSTER,
    ),
    click.option(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"how long to wait for a broker (default: {TIMEOUT:g})",
        **_CLUSTER,
    ),
)
"""The options that say which cluster."""


def names_argument(metavar: str, option: str) -> Callable[[Decorated], Decorated]:
    """Names as words, or by the option that Kafka's own tool has for them."""
    return combine(
        click.argument("names", nargs=-1, metavar=f"[{metavar}]…", help="one or more names"),
        click.option(option, "option", multiple=True, hidden=True),
    )


class KafkaGroup(Group):
    """A group that also accepts what users of Kafka's own tools type: ``--create --topic t``."""

    def __init__(self, *names: Any, flags: dict[str, str] | None = None, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.flags = flags or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the action first, then parse."""
        flags = {f"--{action}": action for action in self.commands} | self.flags
        return super().parse_args(ctx, normalize_kafka_args(args, flags))


def normalize_kafka_args(words: Sequence[str], flags: dict[str, str]) -> list[str]:
    """Turn ``--create --topic t`` into ``create --topic t``; ``flags`` has the action of each flag."""
    words = rewrite_config_flag(words)
    if not words or words[0] in flags.values():
        return words
    for at, word in enumerate(words):
        if word in flags:
            return [flags[word], *words[:at], *words[at + 1 :]]
    return words


def rewrite_config_flag(words: Sequence[str]) -> list[str]:
    """Turn ``--config NAME=VALUE`` into ``--set NAME=VALUE``: ours is ``--config FILE``."""
    found = list(words)
    for at, word in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else ""
        if word == "--add-config" or (word == "--config" and "=" in following):
            found[at] = "--set"
        elif word.startswith("--config=") and word.count("=") > 1:
            found[at] = word.replace("--config=", "--set=", 1)
    return found


def kafka_of(args: Args, config: Config | None = None) -> Kafka:
    """Return the cluster that a command line means; raises StackNotRunning when there is none."""
    config = config or load_config(args, required=False)
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
            f"no Kafka cluster is given, and no stack runs in {config.data_dir}",
            hint="Give --bootstrap-server HOST:PORT, set kafka.bootstrap_servers, or start: distributary up",
        )
    # The properties are for the user's cluster; the embedded one has its own, or none.
    return embedded_kafka(replace(kafka, properties={}), state.addresses["kafka"], config.data_dir)


def cluster_of(args: Args, config: Config | None = None) -> Cluster:
    """Connect to the cluster of a command line; raises KafkaUnavailable."""
    from distributary.kafka.admin import connect

    return connect(kafka_of(args, config), args.timeout)


def names_of(args: Args, what: str) -> list[str]:
    """The names that were given, as words or by Kafka's option; raises UsageError when there is none."""
    found = [*args.names, *(name for text in args.option for name in text.split(","))]
    if not found:
        path = click.get_current_context().command_path
        raise UsageError(f"which {what}?", hint=f"Name it: {path} NAME")
    return list(dict.fromkeys(found))


def settings_of(texts: Iterable[str]) -> dict[str, str]:
    """Read NAME=VALUE pairs, also several joined by commas as in Kafka's tools (lists in [brackets])."""
    found: dict[str, str] = {}
    for text in texts:
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
    """Split at commas, but not within brackets, nor where no NAME= follows."""
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
