"""What a coordinator's decision gathers while it is being made, and the context of the request that asked for it.

A ``Decision`` is filled by plain functions and turned into a ``Result`` once; nothing in it has happened yet.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from log_service.common.result import CancelTimer, Reply, Result, SetTimer

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who asks: the request's version (behaviour differs by it), the client, and where its answer goes."""

    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable


@dataclass(slots=True)
class Decision(Generic[R]):
    """Records, replies and timers in the order they were decided, at ``now_ms`` (monotonic) = ``wall_ms`` (since the epoch)."""

    now_ms: int
    wall_ms: int
    records: list[R] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[SetTimer | CancelTimer] = field(default_factory=list)

    def append(self, record: R) -> None:
        """Have ``record`` appended to the log."""
        self.records.append(record)

    def reply(self, reply_to: Hashable, response: Any) -> None:
        """Answer once the high watermark has passed what was appended."""
        self.replies.append(Reply(reply_to=reply_to, response=response))

    def set_timer(self, key: Hashable, deadline_ms: int) -> None:
        """Set or replace the timer of ``key``."""
        self.timers.append(SetTimer(key=key, deadline_ms=deadline_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Forget the timer of ``key``."""
        self.timers.append(CancelTimer(key=key))

    def result(self) -> Result[R]:
        """Return what was decided."""
        return Result(records=self.records, replies=self.replies, timers=self.timers)
