"""The process that Spark forks its Python workers from, with all that they need already imported.

PySpark's own daemon imports next to nothing, so that each of a view's tasks would spend most of a second
on the same imports, and keep its own copy of them in memory.
"""

from __future__ import annotations

import gc

import pyarrow  # noqa: F401
import pyspark.sql.conversion
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import distributary.reduce.worker  # noqa: F401

if __name__ == "__main__":
    # What is here now stays for good: workers must neither look through it nor write to its pages.
    gc.collect()
    gc.freeze()
    manager()
