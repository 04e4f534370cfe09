"""What runs inside Spark: one task, one partition, one call of ``Worker``.

The loop over Arrow batches only puts records into a queue; one writer thread folds and writes them
(``partition_loop.py``).
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from distributary.kafka.commands_topic import CommandsReader
from distributary.reducers.partition_loop import PartitionLoop
from distributary.reducers.record_queue import RecordQueue
from distributary.reducers.task_contract import Task

if TYPE_CHECKING:
    import pyarrow as pa


class Worker:
    """The function that Spark runs over a partition's batches."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold every record of this partition; return only after the last write succeeded."""
        # The writer must have its turn soon after the loop has something for it.
        sys.setswitchinterval(0.0005)
        # Nearly all that is created here goes with its group; looking for cycles in the rest costs a quarter.
        gc.set_threshold(100_000, 20, 20)
        writer = WriterThread(self._task, _task_number())
        # The loop waits for records; a writer that failed must not wait with it.
        signal.signal(signal.SIGUSR1, writer.interrupted)
        writer.start()
        try:
            for batch in batches:
                column = batch.column(0)
                if column.null_count == len(column):
                    continue
                writer.put([one for one in column.to_pylist() if one is not None])
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        finally:
            # A signal that comes too late must not end the process, which runs other tasks after this one.
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        return iter(())


class WriterThread:
    """The thread that folds and writes; create it in the thread of the loop that gives it records.

    ``number`` is that of Spark's task, which is not that of its Kafka partition.
    """

    def __init__(self, task: Task, number: int) -> None:
        self._task = task
        self._queue = RecordQueue()
        self._loop = PartitionLoop(task, number, self._queue)
        self._ended = threading.Event()
        self._caller = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to fold."""
        self._thread.start()

    def put(self, records: list[bytes]) -> None:
        """Give it records; waits while too many are pending. Raises what the writer raised."""
        self._queue.put(records)

    def finish(self) -> None:
        """Wait for the last write; raise what the writer raised."""
        self._queue.finish()
        self._ended.wait()
        if self._queue.failure is not None:
            raise self._queue.failure

    def abandon(self) -> None:
        """Stop without writing more."""
        self._queue.abandon()

    def interrupted(self, *_: object) -> None:
        """Raise in the loop what the writer raised: a signal handler."""
        if self._queue.failure is not None:
            raise self._queue.failure

    def _run(self) -> None:
        close_commands = _watch_commands(self._task, self._queue.refresh)
        try:
            self._loop.run()
        except BaseException as error:
            # The report comes first: the driver reads it when Spark tells it that the query has failed.
            if not self._queue.abandoned:
                self._loop.report(error)
            self._queue.fail(error)
            if not self._queue.abandoned:
                signal.pthread_kill(self._caller, signal.SIGUSR1)
        finally:
            # The batch must not wait until a consumer has closed: that is the pause between two batches.
            self._ended.set()
            self._loop.close()
            close_commands()


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _watch_commands(task: Task, refresh: Callable[[], None]) -> Callable[[], None]:
    name = task.view.name
    reader = CommandsReader(task.kafka, lambda command: refresh() if command.view == name else None)
    reader.start()
    return reader.close
