"""Why a view's query failed, by type and code: what a task reports, and what Spark raises.

A task knows the exception that ended it and reports its code through the store, as Spark would pass on only
text, and only with the next record. What the JVM raises is classified by its class and error condition.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

from distributary.reducers.confluent_framing import unknown_ids
from distributary.reducers.topic_identity import LeaderChanged
from distributary.store.errors import NotOwner, Suspect

_RAISED_BY_SQL = "USER_RAISED_EXCEPTION"
"""Spark's condition for what ``raise_error`` raises in SQL."""
_TEXT_LENGTH = 300


class FailureCode(enum.StrEnum):
    """What a failure means to the driver."""

    LEADER_CHANGED = "leader-changed"
    """A partition had an election: start again from the marks (R8)."""
    NOT_OWNER = "not-owner"
    """Two partitions have records of one row."""
    SUSPECT = "suspect"
    """The keys of the build contradict each other: rebuild it."""
    UNKNOWN_SCHEMA = "unknown-schema"
    """Records name schemas that the query was not planned with: plan it again."""
    OTHER = "other"
    """Anything else: start again from the marks, which cures most failures."""


class Failure(NamedTuple):
    """Why a query failed; ``schemas`` are the ids that it did not know."""

    code: FailureCode
    message: str
    schemas: frozenset[int] = frozenset()


class TaskFailed(Exception):
    """A task reported why it ended, or must be taken for dead."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_CODES: dict[type[Exception], FailureCode] = {
    LeaderChanged: FailureCode.LEADER_CHANGED,
    NotOwner: FailureCode.NOT_OWNER,
    Suspect: FailureCode.SUSPECT,
}


def failure_of(error: BaseException) -> Failure:
    """Classify an exception of Python or, by what the JVM raised, of Spark."""
    if isinstance(error, TaskFailed):
        return error.failure
    for type, code in _CODES.items():
        if isinstance(error, type):
            return Failure(code, str(error))
    if schemas := _unknown_schemas(error):
        return Failure(FailureCode.UNKNOWN_SCHEMA, "records name schemas that are not known yet", schemas)
    return Failure(FailureCode.OTHER, summary(str(error)))


def write_report(generation: int, error: BaseException) -> str:
    """Return what a task stores about its end: the generation of its claim, the code and the message."""
    code = next((code for type, code in _CODES.items() if isinstance(error, type)), FailureCode.OTHER)
    message = str(error) if code is not FailureCode.OTHER else f"{type(error).__name__}: {error}"
    return f"{generation} {code} {message}"


def read_report(report: str, generation: int) -> Failure | None:
    """Return what a task of this generation reported; None when none did."""
    of, _, rest = report.partition(" ")
    if of != str(generation):
        return None
    code, _, message = rest.partition(" ")
    try:
        return Failure(FailureCode(code), message)
    except ValueError:  # a report of another version of the reducers
        return Failure(FailureCode.OTHER, rest)


def summary(text: str) -> str:
    """Return the line of an error's text that names the cause, not the stack trace or Spark's plan."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = next((line for line in lines if "Error:" in line or "Exception:" in line), "")
    return (cause or (lines[0] if lines else ""))[:_TEXT_LENGTH]


def _unknown_schemas(error: BaseException) -> frozenset[int]:
    """The ids of schemas that Spark's SQL did not know, from the condition that it raised."""
    found: set[int] = set()
    for condition, message in _conditions(error):
        if condition == _RAISED_BY_SQL:
            found |= unknown_ids(message)
    return frozenset(found)


def _conditions(error: BaseException) -> Iterator[tuple[str, str]]:
    """The error conditions, with their text, of what the JVM raised and of its causes."""
    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    depth = 0
    while java is not None and depth < 10:
        if _is_spark_throwable(java):
            yield str(java.getCondition()), str(java.getMessage())
        java, depth = java.getCause(), depth + 1


def _is_spark_throwable(java: Any) -> bool:
    """Whether it has a condition: by its class, as Py4J does not know interfaces."""
    name = str(java.getClass().getName())
    return name.startswith("org.apache.spark.Spark") or name.endswith("StreamingQueryException")
