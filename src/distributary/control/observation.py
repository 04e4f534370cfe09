"""What the control API sees when it looks: the store, Kafka, the supervisor's file, at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.control.stack_overview import Overview
from distributary.stack.stack_file import StackState
from distributary.store.store_types import ServerState

Ends = Mapping[int, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True)
class KafkaSight:
    """The cluster, and the topics that views are made of.

    ``leaderless`` and ``under_replicated`` name partitions (``topic-0``); ``first`` is where the topics begin
    that some partition has no mark in.
    """

    answers: bool = True
    error: str = ""
    leaderless: tuple[str, ...] = ()
    under_replicated: tuple[str, ...] = ()
    ends: Mapping[str, Ends] = field(default_factory=dict)
    first: Mapping[str, Ends] = field(default_factory=dict)


class Oldest(NamedTuple):
    """The record that a build is to fold next: when it was written (ms)."""

    partition: int
    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class Sight:
    """All of it.

    ``at`` is a monotonic time in seconds, ``time`` the wall clock in ms. ``kafka`` is None where none is
    configured, ``overview`` where no store answers. ``watched`` says that the supervisor of ``stack`` gives
    signs of life. ``oldest`` is known of partitions of builds that seemed to stand still: None when nothing
    waits there.
    ``free`` is what the disks of the data folder have left, by folder.
    """

    at: float
    time: int
    stores: tuple[ServerState, ...] = ()
    kafka: KafkaSight | None = None
    overview: Overview | None = None
    stack: StackState | None = None
    watched: bool = True
    oldest: Mapping[tuple[str, str], Mapping[int, Oldest | None]] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)
