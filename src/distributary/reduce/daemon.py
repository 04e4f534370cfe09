"""The process that Spark forks its Python workers from, with all that they need already imported.

PySpark's own daemon imports next to nothing, so that each of a view's tasks would spend most of a second
on the same imports, and keep its own copy of them in memory.
"""

from __future__ import annotations

import gc

import pyarrow as pa
import pyspark.sql.conversion
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.worker
from pyspark.daemon import manager

import distributary.reduce.worker  # noqa: F401


def flatten_struct(batch: pa.RecordBatch, column_index: int = 0) -> pa.RecordBatch:
    """Do what PySpark's function of this name does, in one call.

    PySpark makes a schema anew for every batch; a batch is one record here, and that was a tenth of a
    worker's time.
    """
    return pa.RecordBatch.from_struct_array(batch.column(column_index))


setattr(pyspark.sql.conversion.ArrowBatchTransformer, "flatten_struct", staticmethod(flatten_struct))  # noqa: B010

if __name__ == "__main__":
    # What is here now stays for good: workers must neither look through it nor write to its pages.
    gc.collect()
    gc.freeze()
    manager()
