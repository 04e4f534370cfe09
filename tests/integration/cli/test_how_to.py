"""docs/how-to/operate-kafka.md, done as it says: its commands in this process, the rest by bash."""

from __future__ import annotations

import shlex
import subprocess

from tests.integration.cli.conftest import Run
from tests.support.clock import LIMIT
from tests.support.doc_blocks import blocks, missing

PAGE = "docs/how-to/operate-kafka.md"


def test_commands_of_the_page_print_what_it_shows(run: Run) -> None:
    run("topics", "delete", "sportsbook.odds", "--if-exists").good()
    printed = ""
    for block in blocks(PAGE):
        if block.mark == "run":
            printed = ""
            for line in block.text.splitlines():
                left, pipe, right = line.partition(" | ")
                given = (
                    subprocess.run(["bash", "-c", left], capture_output=True, timeout=10 * LIMIT).stdout
                    if pipe
                    else b""
                )
                program, *words = shlex.split(right or left)
                assert program == "distributary", line
                done = run(*words, stdin=given).good()
                printed += done.out + done.err
        elif block.mark.startswith("shows"):
            assert not missing(block.text, printed, ordered=False), printed
        else:
            assert block.language != "sh", f"{block.place} is not run"
