import io

from distributary.setup.download_progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_a_line_each_quarter() -> None:
    out = io.StringIO()
    progress = Progress("kafka", 40, 40_000_000, out)
    for _ in range(40):
        progress.seen()
        progress.add(1_000_000)
    progress.close()
    assert out.getvalue().splitlines() == [
        f"kafka: {done}/40 jars, {done}.0/40.0 MB" for done in (10, 20, 30, 40)
    ]


def test_a_terminal_gets_one_line_that_renews_itself() -> None:
    out = Terminal()
    progress = Progress("kafka", 2, 2_000_000, out)
    progress.seen()
    progress.add(1_000_000)
    progress.close()
    wipe = "\r\x1b[K"
    assert out.getvalue() == f"{wipe}kafka: looked up 1/2{wipe}kafka: 1/2 jars, 1.0/2.0 MB{wipe}"
