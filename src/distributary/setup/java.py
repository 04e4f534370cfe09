"""Find Java 17 or newer: ``JAVA_HOME`` first, then ``PATH``; as root on Debian, install one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from distributary.errors import JavaMissing

MINIMUM = 17
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
HINT = (
    f"Install Java {MINIMUM} or newer: on Debian `sudo apt-get install {PACKAGES[0]}`, "
    "on macOS `brew install openjdk@17`; or point JAVA_HOME at one"
)


@dataclass(frozen=True)
class Java:
    """A Java that is new enough: the ``java`` program and its version, such as ``17.0.15``."""

    path: Path
    version: str

    @property
    def home(self) -> Path:
        """The folder to give as ``JAVA_HOME`` to programs that look only there, such as Spark."""
        return self.path.resolve().parent.parent


def find() -> Java:
    """Return the first Java that is new enough; raise `JavaMissing` with those that are too old."""
    refused = []
    for path in _candidates():
        version = _version(path)
        if version is None:
            refused.append(f"{path} does not run")
        elif _major(version) < MINIMUM:
            refused.append(f"{path} is {version}")
        else:
            return Java(path, version)
    found = "; ".join(refused) if refused else "not found in JAVA_HOME or on PATH"
    raise JavaMissing(f"Java {MINIMUM} or newer is required: {found}", hint=HINT)


def ensure(report: Callable[[str], None] = print) -> Java:
    """Return a Java as `find` does; if there is none, install one as root on Debian."""
    try:
        return find()
    except JavaMissing:
        if not can_apt():
            raise
    for package in PACKAGES:
        report(f"java: installing {package} with apt-get")
        error = _apt_install(package)
        if error is None:
            return find()
    raise JavaMissing(f"apt-get could not install Java: {error}", hint=HINT)


def can_apt() -> bool:
    """Whether this process can install Debian packages: as root, on Debian or a derivative."""
    try:
        release = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return False
    debian = re.search(r"^ID(_LIKE)?=.*debian", release, re.MULTILINE) is not None
    return debian and os.geteuid() == 0 and shutil.which("apt-get") is not None


def _candidates() -> Iterator[Path]:
    """The ``java`` programs to try, best first."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def _version(java: Path) -> str | None:
    """The version from the ``release`` file beside it (no process), else by running it; None if neither."""
    try:
        text = (java.resolve().parent.parent / "release").read_text(encoding="utf-8")
        found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
        if found:
            return found[1]
    except OSError:
        pass
    try:
        done = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if done.returncode == 0 and found else None


def _major(version: str) -> int:
    """17 for ``17.0.15``; 8 for the old style ``1.8.0_402``; 0 for what cannot be read."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _apt_install(package: str) -> str | None:
    """Install one Debian package; return None, or the last line that apt-get printed when it failed."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wait = ["-o", "DPkg::Lock::Timeout=300"]
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        try:
            done = subprocess.run(
                ["apt-get", *wait, *command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment,
                timeout=900,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0 and command[0] == "install":
            lines = (done.stderr or done.stdout).strip().splitlines()
            return lines[-1] if lines else f"exit code {done.returncode}"
    return None
