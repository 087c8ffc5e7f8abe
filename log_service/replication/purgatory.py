"""Delayed operations: requests that wait until a partition changes or a deadline passes.

Each operation watches keys, which are partitions. This file decides only which operations are
checked again, and when. The operation itself knows whether it is ready. A wait costs one entry for
each watched key and one timer. While no key is checked, a wait costs no time.

Invariants: an operation gets exactly one call of ``on_ready`` or ``on_expired``, or none if its
watch was cancelled. At this call it no longer watches any key, so that it may watch again or check
its own keys.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from log_service.common.timers import Timer, TimerQueue

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class DelayedOperation(Protocol[K_contra]):
    """A request that waits. Its methods must not block or raise."""

    def is_ready(self, key: K_contra) -> bool:
        """Whether the operation can be finished now that ``key`` has changed."""

    def on_ready(self) -> None:
        """Finish the operation, because a change of a key made it ready."""

    def on_expired(self) -> None:
        """Finish the operation, because its deadline passed first."""


class Watch(Generic[K]):
    """The wait of one operation in the purgatory."""

    __slots__ = ("_keys", "_purgatory", "_timer", "operation")

    def __init__(
        self, purgatory: "Purgatory[K]", operation: DelayedOperation[K], keys: tuple[K, ...]
    ) -> None:
        self.operation = operation
        self._purgatory = purgatory
        self._keys = keys
        self._timer: Timer | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the watch is neither finished nor cancelled."""
        return self._timer is not None

    def cancel(self) -> None:
        """End the wait without a call to the operation. A second call has no effect."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._purgatory.forget(self, self._keys)

    def start(self, timer: Timer) -> None:
        """Store the timer that bounds the wait."""
        self._timer = timer

    def expire(self) -> None:
        """End the watch and call ``on_expired`` of the operation."""
        self.cancel()
        self.operation.on_expired()


class Purgatory(Generic[K]):
    """All delayed operations of one request type.

    The requests in flight on all connections bound its size.

    ``waiting_count`` is the number of waiting operations. Hot paths read it, because ``len`` would
    cost a call.
    """

    def __init__(self, timers: TimerQueue) -> None:
        self._timers = timers
        self._watches: dict[K, dict[Watch[K], None]] = {}
        self.waiting_count = 0

    @property
    def watches(self) -> Mapping[K, Collection[Watch[K]]]:
        """The pending watches of each key."""
        return self._watches

    def __len__(self) -> int:
        return self.waiting_count

    def watch(
        self, operation: DelayedOperation[K], keys: Iterable[K], deadline_ms: int
    ) -> Watch[K]:
        """Let ``operation`` wait for any of ``keys``, at most until ``deadline_ms`` (monotonic).

        Return the wait, which can be cancelled. The caller must have checked just before that the
        operation is not ready. Neither this check nor ``watch`` awaits, so nothing can change in
        between.
        """
        watch = Watch(self, operation, tuple(keys))
        watch.start(self._timers.schedule(deadline_ms, watch.expire))
        for key in watch._keys:  # noqa: SLF001 - a watch is the purgatory's own other half
            self._watches.setdefault(key, {})[watch] = None
        self.waiting_count += 1
        return watch

    def check(self, key: K) -> int:
        """Check all operations that watch ``key``, in order of their registration.

        Return the number of finished operations.
        """
        watches = self._watches.get(key)
        if watches is None:
            return 0
        finished_count = 0
        for watch in tuple(watches):
            if watch.is_pending and watch.operation.is_ready(key):
                watch.cancel()
                watch.operation.on_ready()
                finished_count += 1
        return finished_count

    def expire_all(self) -> int:
        """Finish all operations as if their deadline had passed, because the broker stops.

        Return the number of operations.
        """
        watches = {watch: None for watched in self._watches.values() for watch in watched}
        for watch in watches:
            if watch.is_pending:
                watch.expire()
        return len(watches)

    def forget(self, watch: Watch[K], keys: tuple[K, ...]) -> None:
        """Drop a watch from its keys."""
        self.waiting_count -= 1
        for key in keys:
            watches = self._watches.get(key)
            if watches is not None:
                watches.pop(watch, None)
                if not watches:
                    del self._watches[key]
