"""The commands, in the order of ``--help``. Modules are imported only when their command is used."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import Protocol, cast

from distributary.errors import CommandMissing


class CommandModule(Protocol):
    """What a command's module has. ``run`` gives the exit status; its errors are DistributaryError."""

    NAME: str
    HELP: str
    EXAMPLES: tuple[str, ...]

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it. ``args.config`` is a Path or None, ``args.json`` a bool."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its line in ``--help`` and its module.

    ``main`` is true where the module is a program of its own with ``main(argv) -> int`` and does its
    own parsing.
    """

    name: str
    help: str
    module: str
    main: bool = False


COMMANDS: tuple[Command, ...] = (
    Command(
        "up", "run the whole stack on this machine, or connect it to yours", "distributary.cli.up_command"
    ),
    Command("demo", "run the stack with a live example feed and page", "distributary.cli.demo_command"),
    Command(
        "gateway", "serve Kafka over HTTP and a schema registry, beside any Kafka", "distributary.cli.gateway"
    ),
    Command(
        "status", "show what runs, how far behind it is, and what is wrong", "distributary.cli.status_command"
    ),
    Command("view", "list, show, apply and remove views", "distributary.cli.view_command"),
    Command("subscribe", "follow a view's rows in the terminal", "distributary.cli.subscribe_command"),
    Command("token", "make, explain and revoke tokens, and make API keys", "distributary.cli.token_command"),
    Command("tls", "make a CA and certificates for development", "distributary.cli.tls_command"),
    Command("topics", "make, list, describe, change and delete topics", "distributary.cli.topics_command"),
    Command("produce", "write lines as records to a topic", "distributary.cli.produce_command"),
    Command("consume", "print the records of a topic", "distributary.cli.consume_command"),
    Command(
        "groups", "list, describe, set back and delete consumer groups", "distributary.cli.groups_command"
    ),
    Command(
        "quotas", "list, set and delete quotas of users and client ids", "distributary.cli.quotas_command"
    ),
    Command(
        "configs",
        "show and change settings of topics, brokers and groups",
        "distributary.cli.configs_command",
    ),
    Command("acls", "list, add and remove access control lists", "distributary.cli.acls_command"),
    Command(
        "users",
        "list, add and delete users that log in with a password (SCRAM)",
        "distributary.cli.users_command",
    ),
    Command("records", "delete the oldest records of a topic", "distributary.cli.records_command"),
    Command("reassign", "move replicas between brokers", "distributary.cli.reassign_command"),
    Command(
        "worker",
        "run a function for every record of a topic, scale it, stop it",
        "distributary.cli.worker_command",
    ),
    Command("plan", "reckon how many partitions and brokers a topic needs", "distributary.cli.plan_command"),
    Command(
        "socketio",
        "run the socket.io gateway before a stack's publishers",
        "distributary.cli.server_commands",
    ),
    Command("config", "check the configuration and print the settings in force", "distributary.cli.config"),
    Command("setup", "fetch what the embedded stack needs", "distributary.setup.__main__", main=True),
    Command(
        "completion",
        "print what bash, zsh or fish needs to complete commands",
        "distributary.cli.setup_commands",
    ),
    Command("help", "explain a command, a section or a setting", "distributary.cli.settings_commands"),
)

BY_NAME = {command.name: command for command in COMMANDS}


def load(command: Command) -> CommandModule:
    """Import the command's module, else raise CommandMissing."""
    try:
        return cast(CommandModule, importlib.import_module(command.module))
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if command.module == missing or command.module.startswith(missing + "."):
            raise CommandMissing(f'the command "{command.name}" is not part of this installation') from None
        raise CommandMissing(
            f'the command "{command.name}" needs the package "{missing}", which is not installed',
            hint="Install Distributary again: pip install --upgrade distributary",
        ) from None
