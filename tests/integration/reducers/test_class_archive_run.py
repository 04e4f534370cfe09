"""The class archive that set-up makes is the one that Spark starts from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from distributary.setup import class_archive, java


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to see what the JVM has mapped")
def test_spark_runs_from_the_archive(spark: Any) -> None:
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert str(class_archive.archive_file(java.find())) in Path(f"/proc/{pid}/maps").read_text()
