from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import LIMIT

from distributary.client.deduplication import Deduplicator
from distributary.client.record import Record
from distributary.errors import KafkaClientError


def record(offset: int, name: bytes | None = None) -> Record:
    return Record("t", 0, offset, None, b"", () if name is None else (("id", name),))


def test_record_is_handled_once_also_after_a_restart(tmp_path: Path) -> None:
    handled = []
    for _ in range(2):
        with Deduplicator(tmp_path / "seen") as seen:
            for offset in (1, 2, 1):
                with seen.once(record(offset)) as new:
                    if new:
                        handled.append(offset)
    assert handled == [1, 2]


def test_failed_record_is_not_remembered(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen") as seen:

        def fail() -> None:
            with seen.once(record(1)):
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert record(1) not in seen


def test_message_is_identified_by_its_header_wherever_it_is(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "seen", by="id") as seen:
        seen.add(record(1, b"a"))
        assert record(2, b"a") in seen
        assert record(1, b"b") not in seen
        assert record(1) not in seen  # without the header its position identifies it


def test_killed_process_leaves_what_it_remembered(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    code = (
        "import os, sys\n"
        "from distributary.client.record import Record\n"
        "from distributary.client.deduplication import Deduplicator\n"
        "seen = Deduplicator(sys.argv[1])\n"
        "seen.add(Record('t', 0, 7, None, b''))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], timeout=60 * LIMIT)
    assert done.returncode == -9
    with Deduplicator(path) as seen:
        assert record(7) in seen
        assert record(8) not in seen


def test_unusable_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, whatever it may be called " * 50)
    for path in (tmp_path, tmp_path / "text", tmp_path / "none" / "seen"):
        with pytest.raises(KafkaClientError, match="cannot store"):
            Deduplicator(path)
    with pytest.raises(ValueError, match="1 or more"):
        Deduplicator(tmp_path / "seen", size=0)


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 8))
def test_only_the_last_messages_are_remembered(offsets: list[int], size: int) -> None:
    with Deduplicator(":memory:", size=size) as seen:
        order: list[int] = []
        for offset in offsets:
            seen.add(record(offset))
            if offset not in order:
                order = [*order, offset][-size:]
            assert len(seen) == len(order)
        for offset in range(21):
            assert (record(offset) in seen) == (offset in order)
