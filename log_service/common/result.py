"""What a core returns instead of acting: records for its log, replies to whoever asked, timers to set.

Controller and coordinators share this shape. The runtime appends the records, replays them at once, and sends the replies when the
high watermark has passed everything that was appended when the result was made; replies of reads wait in the same way.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """``response`` for the request that was handed in with ``reply_to``; an exception instead of a response is raised there."""

    reply_to: Hashable
    response: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Call the core's ``on_timer(key, now_ms)`` at ``deadline_ms`` (monotonic); replaces an earlier timer of that key."""

    key: Hashable
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Forget the timer of that key, if there is one."""

    key: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[R]):
    """One decision: all its records are appended together or not at all."""

    records: Sequence[R] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[SetTimer | CancelTimer] = field(default=())
