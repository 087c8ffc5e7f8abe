"""The decisions of a follower, without I/O: the content of a fetch and the meaning of a response.

This file decides

- the version of Fetch for a metadata version;
- the first fetch offset of a new follower, and the offset at which it truncates a diverged log
  (KIP-101, KIP-279);
- the reaction to an error code;
- the partitions that a request of a fetch session has to name (KIP-227).

``fetcher`` performs the decisions. This module knows no logs, connections or time.

Invariant: a session's request names every partition whose parameters have changed since the leader
last received them. It also lists the partitions that are no longer fetched. After any failure, the
next request names all partitions.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.session_epochs import INITIAL_EPOCH, next_epoch
from log_service.common.types import NO_LEADER_EPOCH

FIRST_BACKOFF_MS = 20
"""The pause after the first refusal that newer metadata will end, here or at the leader.

The pause doubles with each further refusal.
"""

PartitionKey = tuple[UUID, int]
"""The topic id and the partition index."""

_FETCH_VERSIONS = ((27, 18), (21, 17), (19, 16), (14, 15))
FIRST_VERSION_WITH_REPLICA_STATE = 15
_FIRST_VERSION_BY_ID = 13


def fetch_version(metadata_version: int) -> int:
    """Return the version of Fetch between brokers at a level of ``metadata.version``."""
    return next(
        (version for level, version in _FETCH_VERSIONS if metadata_version >= level),
        _FIRST_VERSION_BY_ID,
    )


# Offsets


def first_fetch_offset(log_end_offset: int, latest_epoch: int, high_watermark: int) -> int:
    """Return the first fetch offset of a new follower.

    If leader epochs can show where the log diverged, this is the log end. Otherwise it is the high
    watermark.
    """
    return log_end_offset if latest_epoch != NO_LEADER_EPOCH else high_watermark


def truncation_offset(
    leader_epoch_end: tuple[int, int], own_epoch_end: tuple[int, int], log_end_offset: int
) -> int:
    """Return the offset at which a follower truncates a log that diverged from the leader's log.

    Each argument pair is an epoch and its end offset. ``leader_epoch_end`` is the leader's largest
    epoch that is not above the follower's last epoch. ``own_epoch_end`` is the follower's largest
    epoch that is not above the leader's epoch, or (-1, -1) if there is none. If the two epochs
    differ, the follower fetches again from the returned offset and compares again.
    """
    leader_epoch, leader_end = leader_epoch_end
    own_epoch, own_end = own_epoch_end
    if own_epoch == NO_LEADER_EPOCH:
        return min(leader_end, log_end_offset)
    if own_epoch == leader_epoch:
        return min(own_end, leader_end, log_end_offset)
    return min(own_end, log_end_offset)


def has_more_than_leader(log_end_offset: int, leader_end_offset: int) -> bool:
    """Return whether a follower whose offset is out of range is ahead of its leader.

    Its log is then truncated to the leader's log end.
    """
    return leader_end_offset < log_end_offset


def must_restart(log_end_offset: int, leader_start_offset: int) -> bool:
    """Return whether the leader has deleted the next records that a follower needs.

    The follower then drops its log and restarts at the leader's log start.
    """
    return leader_start_offset > log_end_offset


def is_beyond_comparison(
    own_offsets: tuple[int, int], own_epoch: int, leader_start_offset: int, leader_epoch: int
) -> bool:
    """Return whether the leader can no longer tell where a follower's log diverged.

    This is the case if the follower has records, and all of them lie below the leader's log start
    and have earlier epochs. ``own_offsets`` are the follower's log start and log end. ``own_epoch``
    is the last epoch in its log. A follower that has a record of the leader's epoch was already
    compared.
    """
    own_start, own_end = own_offsets
    return own_start < own_end <= leader_start_offset and own_epoch != leader_epoch


# Reactions to errors


class Step(Enum):
    """The reactions of a follower to an error that its leader returns for a partition."""

    PAUSE = auto()
    PAUSE_SHORTLY = auto()
    """Pause for a short time. Newer metadata, here or at the leader, will soon end the error."""
    FIND_OFFSET = auto()
    """Request the leader's log start and log end."""
    STOP = auto()
    """Stop until newer metadata arrives."""


_UNTIL_METADATA_COMES = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def step_after(code: int) -> Step:
    """Return the reaction to a partition's error code."""
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step.FIND_OFFSET
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        return Step.STOP
    return Step.PAUSE_SHORTLY if code in _UNTIL_METADATA_COMES else Step.PAUSE


def pause_ms(step: Step, failure_count: int, backoff_ms: int) -> int:
    """Return the pause of a partition after ``failure_count`` failures in a row."""
    if step is not Step.PAUSE_SHORTLY:
        return backoff_ms
    return min(FIRST_BACKOFF_MS << min(failure_count - 1, 16), backoff_ms)


# Sessions


class FetchParameters(NamedTuple):
    """The fetch parameters of one partition."""

    fetch_offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int


class SessionRequest(NamedTuple):
    """The session part of a fetch request: the partitions that it names and forgets."""

    session_id: int
    session_epoch: int
    named: list[tuple[PartitionKey, FetchParameters]]
    forgotten: list[PartitionKey]


class FollowerSession:
    """The fetch session of one connection, from the follower's side."""

    __slots__ = ("_epoch", "_session_id", "known")

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = INITIAL_EPOCH
        self.known: dict[PartitionKey, FetchParameters] = {}
        """The parameters that the leader last received for each partition."""

    def __repr__(self) -> str:
        return (
            f"<FollowerSession {self._session_id} epoch={self._epoch} partitions={len(self.known)}>"
        )

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self._epoch == INITIAL_EPOCH

    def next(
        self, wanted: Iterable[tuple[PartitionKey, FetchParameters]], gone: Iterable[PartitionKey]
    ) -> SessionRequest:
        """Return the session part of the next request.

        If ``is_full``, ``wanted`` must hold all partitions. Otherwise it holds those that may have
        changed.
        """
        known = self.known
        if self._epoch == INITIAL_EPOCH:
            known.clear()
            known.update(wanted)
            return SessionRequest(self._session_id, INITIAL_EPOCH, list(known.items()), [])
        forgotten = [key for key in gone if known.pop(key, None) is not None]
        named = [(key, parameters) for key, parameters in wanted if known.get(key) != parameters]
        known.update(named)
        return SessionRequest(self._session_id, self._epoch, named, forgotten)

    def accept(self, session_id: int) -> None:
        """Advance the session after a response without an error.

        Session id 0 means that the leader had no room for a session.
        """
        if session_id == 0:
            self._session_id, self._epoch = 0, INITIAL_EPOCH
            return
        self._session_id = session_id
        self._epoch = next_epoch(self._epoch)

    def fail(self, code: int = ErrorCode.NONE) -> None:
        """Begin a new session with the next request.

        If the leader still has the old session, the request also ends it.
        """
        self._epoch = INITIAL_EPOCH
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = 0


SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def by_topic(keys: Iterable[PartitionKey]) -> Mapping[UUID, list[int]]:
    """Return partition indexes by topic id."""
    found: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(topic_id, []).append(index)
    return found
