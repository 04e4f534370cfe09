"""Run the Ivy that pyspark ships, with its built-in settings (Maven Central).

Ivy gets caches of its own, so that no jar comes from ``~/.ivy2`` or ``~/.m2``.
``DISTRIBUTARY_IVY_SETTINGS`` may name an Ivy settings file, for a site with a mirror.
"""

from __future__ import annotations

import importlib.util
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import quoteattr

from distributary.errors import JarFetchFailed
from distributary.setup import java
from distributary.setup.lockfile import Jar

SETTINGS = "DISTRIBUTARY_IVY_SETTINGS"
ATTEMPTS = 3
IDLE_SECONDS = 90.0
HINT = (
    "Check the network and try again; behind a proxy set JAVA_TOOL_OPTIONS to "
    "`-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT`, with a mirror set "
    f"{SETTINGS} to an Ivy settings file"
)


class DownloadProgress:
    """Counts the jars of one set as they arrive, and prints it to ``stream`` (standard error by default).

    On a terminal it updates one line; elsewhere it prints a few.
    """

    def __init__(self, label: str, count: int, size: int, stream: TextIO | None = None) -> None:
        self._label, self._count, self._size = label, count, size
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._looked_up = self._arrived = self._bytes = 0
        self._quarter = 0

    def start(self) -> None:
        """Print what is about to be fetched."""
        self._line(f"{self._label}: fetching {self._count} jars, {_mb(self._size)} MB")

    def looked_up(self) -> None:
        """Count a jar that was looked up, and has not arrived yet."""
        self._looked_up += 1
        if self._is_terminal:
            self._update(f"{self._label}: looked up {self._looked_up}/{self._count}")

    def arrived(self, size: int) -> None:
        """Count a jar of ``size`` bytes that has arrived."""
        self._arrived += 1
        self._bytes += size
        text = f"{self._label}: {self._arrived}/{self._count} jars, {_mb(self._bytes)}/{_mb(self._size)} MB"
        if self._is_terminal:
            self._update(text)
        elif self._arrived * 4 // max(self._count, 1) > self._quarter:
            self._quarter = self._arrived * 4 // max(self._count, 1)
            self._line(text)

    def note(self, text: str) -> None:
        """Print something else, on a line of its own."""
        self.close()
        self._line(f"{self._label}: {text}")

    def close(self) -> None:
        """Clear the line that is updated, if there is one."""
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def restart(self) -> None:
        """Start counting again, for a new attempt."""
        self._looked_up = self._arrived = self._bytes = self._quarter = 0

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def _update(self, text: str) -> None:
        self._stream.write("\r\x1b[K" + text)
        self._stream.flush()


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}"


def resolve(jars: Sequence[Jar], into: Path, work: Path, progress: DownloadProgress) -> None:
    """Download exactly these jars, without their dependencies, into the existing folder ``into``.

    ``work`` is an existing scratch folder. Tries `ATTEMPTS` times, without downloading a jar twice, then
    raises `JarFetchFailed`. The caller verifies the bytes.
    """
    module = work / "ivy.xml"
    module.write_text(_module(jars), encoding="utf-8")
    sizes = {jar.coordinate: jar.size for jar in jars}

    def take_line(line: str) -> None:
        if line.startswith("found "):
            progress.looked_up()
        elif arrived := re.match(r"\[SUCCESSFUL ] ([^#]+)#([^;]+);([^!]+)!", line):
            progress.arrived(sizes.get(":".join(arrived.groups()), 0))

    for attempt in range(1, ATTEMPTS + 1):
        try:
            run(["-ivy", str(module)], f"{into}/[artifact]-[revision].[ext]", work, take_line)
            return
        except JarFetchFailed as error:
            if attempt == ATTEMPTS:
                raise
            progress.note(f"{error.message}; retrying")
            progress.restart()
            time.sleep(attempt)


def run(what: Sequence[str], pattern: str, work: Path, take_line: Callable[[str], None]) -> None:
    """Run Ivy once for ``what``, retrieving by ``pattern``; ``take_line`` gets each line it prints, stripped.

    Raises `JarFetchFailed` when Ivy fails or prints nothing for `IDLE_SECONDS`; never leaves Ivy running.
    """
    settings = os.environ.get(SETTINGS)
    command = [
        str(java.find().path),
        "-Xmx256m",
        f"-Divy.default.ivy.user.dir={work / 'user'}",
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *(["-settings", settings] if settings else []),
        *("-cache", str(work / "cache")),
        *what,
        *("-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", pattern),
    ]
    problems: list[str] = []

    def listen(line: str) -> None:
        if found := re.match(r":: (\S+#\S+: .+)|\[FAILED +] (\S+)", line):
            problems.append(found[1] or f"{found[2]} failed to download")
        take_line(line)

    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    )
    try:
        tail = _read_all(process, listen)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
    if code != 0 or problems:
        why = problems[0] if problems else f"{tail or 'no output'} (exit code {code})"
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise JarFetchFailed(f"Ivy could not fetch the jars: {why}{more}", hint=HINT)


def _read_all(process: subprocess.Popen[bytes], take_line: Callable[[str], None]) -> str:
    """Pass every line to ``take_line`` until the output ends; return the last line that was not blank."""
    assert process.stdout is not None
    pipe, rest, last = process.stdout.fileno(), b"", ""
    while True:
        if not select.select([pipe], [], [], IDLE_SECONDS)[0]:
            raise JarFetchFailed(f"Ivy received nothing for {IDLE_SECONDS:.0f} s", hint=HINT)
        chunk = os.read(pipe, 65536)
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            lines = [rest]
        for line in lines:
            text = line.decode("utf-8", "replace").strip()
            last = text or last
            take_line(text)
        if not chunk:
            return last


def _module(jars: Sequence[Jar]) -> str:
    """An Ivy module that depends on each jar and on nothing behind it."""
    rows = []
    for jar in jars:
        org, name, revision = (quoteattr(part) for part in jar.coordinate.split(":"))
        rows.append(
            f'<dependency org={org} name={name} rev={revision} transitive="false" conf="default->default"/>'
        )
    return (
        '<ivy-module version="2.0"><info organisation="distributary" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(rows)}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    """The Ivy jar inside pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        for jar in sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")):
            return jar
    raise JarFetchFailed("pyspark, which ships Ivy, is not installed whole", hint="Run `make setup` again")
