"""Failures are classified by type, by the code a task reports, and by the condition Spark raises."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.reducers.failures import (
    Failure,
    FailureCode,
    TaskFailed,
    failure_of,
    read_report,
    summary,
    write_report,
)
from distributary.reducers.reducer import StoreWentBack
from distributary.reducers.topic_identity import LeaderChanged
from distributary.store.errors import NotOwner, Suspect


class JavaClass:
    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        return self._name


class JavaThrowable:
    """As Py4J shows one."""

    def __init__(self, name: str, condition: str, message: str, cause: JavaThrowable | None = None) -> None:
        self._class = JavaClass(name)
        self._condition, self._message, self._cause = condition, message, cause

    def getClass(self) -> JavaClass:
        return self._class

    def getCondition(self) -> str:
        assert "spark" in self._class.getName(), "only Spark's have it"
        return self._condition

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> JavaThrowable | None:
        return self._cause


class Captured(Exception):
    """As PySpark raises what it gets from the JVM."""

    def __init__(self, text: str, origin: Any) -> None:
        super().__init__(text)
        self._origin = origin


def streaming_failure(cause: JavaThrowable, text: str = "") -> Captured:
    top = JavaThrowable(
        "org.apache.spark.sql.streaming.StreamingQueryException",
        "STREAM_FAILED",
        text,
        JavaThrowable("org.apache.spark.SparkException", "null", text, cause),
    )
    return Captured(text, top)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LeaderChanged("partition 0 has a new leader"), FailureCode.LEADER_CHANGED),
        (NotOwner("k", 1), FailureCode.NOT_OWNER),
        (Suspect("torn"), FailureCode.SUSPECT),
        (StoreWentBack("the store is at 3"), FailureCode.OTHER),
        (ValueError("NotOwner and LeaderChanged are only words here"), FailureCode.OTHER),
    ],
)
def test_failure_is_classified_by_type_and_reported_by_code(error: Exception, code: FailureCode) -> None:
    assert failure_of(error).code is code
    report = read_report(write_report(7, error), 7)
    assert report is not None
    assert report.code is code
    assert str(error) in report.message
    assert failure_of(TaskFailed(report)) == report


def test_report_of_another_generation_is_ignored() -> None:
    report = write_report(7, Suspect("torn"))
    assert read_report(report, 77) is None
    assert read_report("", 7) is None


def test_report_with_unknown_code_is_some_failure() -> None:
    assert read_report("7 of-the-future text", 7) == Failure(FailureCode.OTHER, "of-the-future text")


def test_schema_that_a_query_did_not_know_is_read_from_sparks_condition() -> None:
    raised = JavaThrowable(
        "org.apache.spark.SparkRuntimeException",
        "USER_RAISED_EXCEPTION",
        "[USER_RAISED_EXCEPTION] SchemaUnknown:12: SQLSTATE: P0001",
    )
    failure = failure_of(streaming_failure(raised))
    assert (failure.code, failure.schemas) == (FailureCode.UNKNOWN_SCHEMA, frozenset({12}))


@pytest.mark.parametrize(
    "cause",
    [
        JavaThrowable("org.apache.spark.SparkRuntimeException", "DIVIDE_BY_ZERO", "SchemaUnknown:12:"),
        JavaThrowable("java.lang.IllegalStateException", "", "SchemaUnknown:12:"),
    ],
)
def test_text_of_another_error_names_no_schema(cause: JavaThrowable) -> None:
    assert failure_of(streaming_failure(cause, "SchemaUnknown:12:")).code is FailureCode.OTHER


def test_summary_is_the_line_that_names_the_cause() -> None:
    text = "[STREAM_FAILED] Query terminated\n\n  java.io.IOException: disk full\n\tat org.apache.spark\n"
    assert summary(text) == "java.io.IOException: disk full"
    assert summary("one\ntwo") == "one"
    assert summary("") == ""
