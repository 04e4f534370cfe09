"""Small files written whole, the ends of logs."""

from __future__ import annotations

from pathlib import Path

from distributary.stack.atomic_files import replace, rotate, tail


def test_replace_leaves_nothing_else_behind(tmp_path: Path) -> None:
    replace(tmp_path / "a", "one")
    replace(tmp_path / "a", "two")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "two")]


def test_tail_gives_the_last_lines_since_a_place(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{n}\n" for n in range(100)))
    assert tail(log, 3) == ["97", "98", "99"]
    mark = log.stat().st_size
    with log.open("a") as file:
        file.write("new\n")
    assert tail(log, 3, since=mark) == ["new"]


def test_tail_of_a_log_rotated_meanwhile_or_missing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == []
    log.write_text("short\n")
    assert tail(log, since=10_000) == ["short"]


def test_tail_reads_the_end_of_a_huge_log_only(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" * 1_000_000 + b"\nlast\n")
    assert tail(log, 1) == ["last"]


def test_rotate_sets_a_large_log_aside(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("12345")
    rotate(log, 5)
    assert log.exists()
    rotate(log, 4)
    assert not log.exists()
    assert (tmp_path / "log.1").read_text() == "12345"
