"""The table of commands, in the order of ``--help``. A module is imported only when its command is used."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command: its name, its line in ``--help``, and the module with the click command of that name."""

    name: str
    help: str
    module: str


def _entry(name: str, help: str, module: str = "") -> CommandEntry:
    return CommandEntry(name, help, f"distributary.cli.{module or name + '_command'}")


COMMANDS = (
    _entry("up", "Run the whole stack on this machine, or connect it to yours"),
    _entry("demo", "Run the stack with a live example feed and page"),
    _entry("gateway", "Serve Kafka over HTTP and a schema registry, for any Kafka", "server_commands"),
    _entry("status", "Show what runs, how far behind it is, and what is wrong"),
    _entry("view", "List, describe, apply and delete views"),
    _entry("subscribe", "Follow a view's rows in the terminal"),
    _entry("token", "Create, inspect and revoke tokens, and create API keys"),
    _entry("tls", "Create a CA and certificates for development"),
    _entry("topics", "Create, list, describe, change and delete topics"),
    _entry("produce", "Write lines as records to a topic"),
    _entry("consume", "Print the records of a topic"),
    _entry("groups", "List, describe, reset and delete consumer groups"),
    _entry("quotas", "List, set and delete quotas of users and client ids"),
    _entry("configs", "Show and change settings of topics, brokers and groups"),
    _entry("acls", "List, add and remove access control lists", "access_commands"),
    _entry("users", "List, add and delete users that log in with a password", "access_commands"),
    _entry("records", "Delete the oldest records of a topic", "partition_commands"),
    _entry("reassign", "Move replicas between brokers", "partition_commands"),
    _entry("worker", "Run a function for every record of a topic; scale it, stop it"),
    _entry("plan", "Estimate partitions and brokers for a topic"),
    _entry("socketio", "Run the socket.io gateway in front of the publishers", "server_commands"),
    _entry("config", "Check the configuration and print the settings", "settings_commands"),
    _entry("setup", "Download what the embedded stack needs", "setup_commands"),
    _entry("completion", "Print the completion script for bash, zsh or fish", "setup_commands"),
    _entry("help", "Explain a command, a section or a setting", "settings_commands"),
)

BY_NAME = {command.name: command for command in COMMANDS}
