"""A state machine's decision: records for its log, replies, timers, announcements, and undo steps.

A machine's methods fill a ``Decision``, and the runtime performs it. Announcements are objects for
the owner of the machine. Nothing in a decision has
happened yet, except for changes of soft state. Soft state is in no log, such as the members of a
group between two generations, and sessions. It changes while the decision is made, and the decision
remembers the old state. Invariant: after ``take_back`` the soft state is what it was before the
decision, so that a refused decision has changed nothing.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

R = TypeVar("R")


class ReplayContext(NamedTuple):
    """The offset of a replayed record, and the producer if the record is in a transaction.

    The producer id is -1 outside of transactions.
    """

    offset: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class InTransaction(NamedTuple):
    """The producer's transaction that the records of a decision belong to.

    ``shown`` is the producer's ``Verification``, which the log checks before it appends.
    """

    producer_id: int
    producer_epoch: int
    shown: Any


class Reply(NamedTuple):
    """A response, and the id of the request that it answers (``reply_to``)."""

    reply_to: Hashable
    response: Any


class SetTimer(NamedTuple):
    """Sets a timer: ``on_timer`` of the machine is called with ``key`` at ``deadline_ms``.

    The deadline is monotonic. This replaces an earlier timer with the same key.
    """

    key: Hashable
    deadline_ms: int


class CancelTimer(NamedTuple):
    """Cancels the timer with ``key``, if there is one."""

    key: Hashable


@dataclass(slots=True)
class Decision(Generic[R]):
    """Records, replies, timers and announcements in the order of the decision.

    ``now_ms`` is monotonic. ``wall_ms`` is the same moment in ms since the Unix epoch. All records
    are appended together or not at all, unless the runtime splits them into independent batches.
    """

    now_ms: int
    wall_ms: int
    records: list[R] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[SetTimer | CancelTimer] = field(default_factory=list)
    announcements: list[object] = field(default_factory=list)
    transaction: InTransaction | None = None
    """The producer's transaction that the records belong to.

    Such records need a ``TransactionalLog``.
    """
    _undo: list[Callable[[], None]] = field(default_factory=list)

    def append(self, record: R) -> None:
        """Add a record that will be appended to the log."""
        self.records.append(record)

    def reply(self, reply_to: Hashable, response: Any) -> None:
        """Add a response, which is sent once the high watermark has passed the appended records."""
        self.replies.append(Reply(reply_to, response))

    def set_timer(self, key: Hashable, deadline_ms: int) -> None:
        """Set or replace the timer of ``key``."""
        self.timers.append(SetTimer(key, deadline_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Cancel the timer of ``key``."""
        self.timers.append(CancelTimer(key))

    def announce(self, announcement: object) -> None:
        """Pass an object to the machine's owner once the appended records are committed."""
        self.announcements.append(announcement)

    # Soft state

    def on_refused(self, undo: Callable[[], None]) -> None:
        """Call ``undo`` if the decision is refused. The latest ``undo`` is called first."""
        self._undo.append(undo)

    def stage(self, *objects: object) -> None:
        """Remember the attributes of slotted objects, and restore them if the decision is refused.

        Call this before the first change. For a dictionary or a set the content is remembered. For
        any other value only the reference is remembered, so an object inside has to be staged by
        itself.
        """
        for each in objects:
            self._undo.append(_restore(each))

    def stage_attribute(self, staged: object, name: str) -> None:
        """Remember one attribute of an object instead of the whole object.

        The decision must stage every other attribute of the object that it changes.
        """
        self._undo.append(partial(setattr, staged, name, getattr(staged, name)))

    def take_back(self) -> None:
        """Undo all changes of soft state."""
        while self._undo:
            self._undo.pop()()


def _restore(staged: Any) -> Callable[[], None]:
    values = [(name, getattr(staged, name)) for name in type(staged).__slots__]
    contents = [
        (name, value.copy() if isinstance(value, dict | set) else value) for name, value in values
    ]

    def restore() -> None:
        for name, value in contents:
            setattr(staged, name, value)

    return restore
