from __future__ import annotations

import click
import pytest

from distributary.cli.commands import COMMANDS, CommandEntry
from distributary.cli.main import load


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_command_of_the_table_has_its_help_and_examples(entry: CommandEntry) -> None:
    command = load(entry)
    assert (command.help or "").startswith(f"{entry.help}.")
    examples = getattr(command, "examples", ())
    assert examples
    assert all("distributary" in line for line in examples)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_option_and_argument_is_explained(entry: CommandEntry) -> None:
    command = load(entry)
    for one in [command, *(command.commands.values() if isinstance(command, click.Group) else ())]:
        for param in one.params:
            shown = isinstance(param, click.Argument) or not getattr(param, "hidden", False)
            assert not shown or param.help, f"{one.name} {param.name}"
