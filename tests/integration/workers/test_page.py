"""docs/how-to/workers.md, done as it says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.clock import LIMIT
from tests.support.doc_blocks import blocks, missing
from tests.support.stack import RunningStack

from distributary.kafka.topics import delete_topic

PAGE = "docs/how-to/workers.md"
TOPICS = ("shop.orders", "shop.invoices", "shop.orders.dead-letters")


def test_shell_blocks_of_the_page_print_what_it_shows(stack: RunningStack, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DISTRIBUTARY_KAFKA_BOOTSTRAP_SERVERS": stack.config.kafka.bootstrap_servers,
        "DISTRIBUTARY_DATA_DIR": str(tmp_path / "data"),
    }
    started: list[subprocess.Popen[bytes]] = []
    printed = ""
    try:
        for block in blocks(PAGE):
            if block.mark.startswith("file:"):
                (tmp_path / block.mark.removeprefix("file:").strip()).write_text(block.text)
            elif block.mark == "run: in the background":
                started.append(subprocess.Popen(["bash", "-c", f"exec {block.text}"], env=env, cwd=tmp_path))
                deadline = time.monotonic() + 30 * LIMIT
                while not list(tmp_path.glob("data/workers/*.json")):
                    assert time.monotonic() < deadline, "it did not start"
                    time.sleep(0.05)
            elif block.mark == "run":
                done = subprocess.run(
                    ["bash", "-ec", block.text],
                    env=env,
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=90 * LIMIT,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                printed = done.stdout + done.stderr
            elif block.mark.startswith("shows"):
                assert not missing(block.text, printed, ordered=False), printed
            else:
                assert block.language != "sh", f"{block.place} is not run"
        assert [one.wait(20 * LIMIT) for one in started] == [0]
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
                one.wait()
        for name in TOPICS:
            delete_topic(stack.admin(), name)
