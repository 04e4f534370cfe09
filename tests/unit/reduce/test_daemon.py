"""What the workers' process puts in the place of PySpark's own."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
from pyspark.sql.conversion import ArrowBatchTransformer

THEIRS = ArrowBatchTransformer.flatten_struct


def test_a_batch_is_flattened_as_pyspark_does_it() -> None:
    records = pa.array([b"one", None, b"", None], pa.binary())
    numbers = pa.array([1, None, 3, None], pa.int32())
    batch = pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays([records, numbers], ["record", "n"])], ["_0"]
    )

    from distributary.reduce.daemon import flatten_struct

    for sliced in (batch, batch.slice(1, 2), batch.slice(0, 0)):
        ours = flatten_struct(sliced)
        assert ours.equals(THEIRS(sliced))
        assert ours.schema.equals(THEIRS(sliced).schema)


def test_workers_use_it() -> None:
    """In a process of its own, as they have it."""
    code = (
        "import distributary.reduce.daemon as ours, pyspark.worker as worker;"
        "assert worker.ArrowBatchTransformer.flatten_struct is ours.flatten_struct"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
