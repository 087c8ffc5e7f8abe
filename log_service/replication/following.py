"""What a follower asks its leader for, and what a response means to it: the decisions, without input and output.

Decides the version of Fetch that goes with a metadata version, where a follower begins, how far it cuts its log where it parted from the
leader's (KIP-101, KIP-279), what an error code asks for, and what of a fetch session a request has to name (KIP-227). ``fetcher`` performs
it. Knows neither logs nor connections nor the time.

Invariant: a session's request names every partition whose wish changed since the leader last heard of it, and forgets those that are
fetched no more; after any failure the next request names all.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.session_epochs import INITIAL_EPOCH, next_epoch
from log_service.common.types import NO_LEADER_EPOCH

FIRST_BACKOFF_MS = 20
"""The pause after the first refusal that newer metadata ends, here or at the leader: it is on its way. It doubles from there."""

PartitionKey = tuple[UUID, int]
"""A partition by its topic's id."""

_FETCH_VERSIONS = ((27, 18), (21, 17), (19, 16), (14, 15))
FIRST_VERSION_WITH_REPLICA_STATE = 15
_FIRST_VERSION_BY_ID = 13


def fetch_version(metadata_version: int) -> int:
    """Return the version of Fetch that brokers speak among each other at a level of ``metadata.version``."""
    return next((version for level, version in _FETCH_VERSIONS if metadata_version >= level), _FIRST_VERSION_BY_ID)


# Where


def first_fetch_offset(log_end_offset: int, latest_epoch: int, high_watermark: int) -> int:
    """Return where a new follower begins: at its log's end, if epochs tell where it parted from the leader; else at what is safe."""
    return log_end_offset if latest_epoch != NO_LEADER_EPOCH else high_watermark


def truncation_offset(leader_epoch_end: tuple[int, int], own_epoch_end: tuple[int, int], log_end_offset: int) -> int:
    """Return where a follower cuts its log off, which parted from the leader's.

    ``leader_epoch_end`` is the largest epoch up to the follower's that the leader knows, and where it ends there; ``own_epoch_end`` the
    largest epoch up to that one that the follower knows, and where it ends here, (-1, -1) where it knows none. Where the two epochs differ
    the follower asks again from there.
    """
    leader_epoch, leader_end = leader_epoch_end
    own_epoch, own_end = own_epoch_end
    if own_epoch == NO_LEADER_EPOCH:
        return min(leader_end, log_end_offset)
    if own_epoch == leader_epoch:
        return min(own_end, leader_end, log_end_offset)
    return min(own_end, log_end_offset)


def has_more_than_leader(log_end_offset: int, leader_end_offset: int) -> bool:
    """Whether a follower whose offset is out of range has more than its leader, so that it is cut to the leader's end."""
    return leader_end_offset < log_end_offset


def must_restart(log_end_offset: int, leader_start_offset: int) -> bool:
    """Whether the leader has nothing any more of what a follower lacks next, so that it drops everything and begins anew."""
    return leader_start_offset > log_end_offset


def is_beyond_comparison(own_offsets: tuple[int, int], own_epoch: int, leader_start_offset: int, leader_epoch: int) -> bool:
    """Whether a follower has records, all of them below the leader's start and of earlier epochs: the leader cannot tell where logs parted.

    ``own_offsets`` are where the follower's log starts and ends, ``own_epoch`` is the last epoch in it. Who has a record of the leader's
    epoch has been compared before.
    """
    own_start, own_end = own_offsets
    return own_start < own_end <= leader_start_offset and own_epoch != leader_epoch


# What an error asks for


class Step(Enum):
    """What a follower does with a partition after an error of its leader."""

    PAUSE = auto()
    PAUSE_SHORTLY = auto()
    """Newer metadata, here or there, settles it soon."""
    FIND_OFFSET = auto()
    """Ask the leader where its log begins and ends."""
    STOP = auto()
    """Until newer metadata comes."""


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
    """Return what a partition's error code asks for."""
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step.FIND_OFFSET
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        return Step.STOP
    return Step.PAUSE_SHORTLY if code in _UNTIL_METADATA_COMES else Step.PAUSE


def pause_ms(step: Step, failure_count: int, backoff_ms: int) -> int:
    """Return how long a partition is left alone after its ``failure_count``-th failure in a row."""
    if step is not Step.PAUSE_SHORTLY:
        return backoff_ms
    return min(FIRST_BACKOFF_MS << min(failure_count - 1, 16), backoff_ms)


# Sessions


class Wish(NamedTuple):
    """What a follower asks for of one partition."""

    fetch_offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int


class SessionRequest(NamedTuple):
    """What a request says of its session: the partitions that it names, and those that the leader is to forget."""

    session_id: int
    session_epoch: int
    named: list[tuple[PartitionKey, Wish]]
    forgotten: list[PartitionKey]


class FollowerSession:
    """The fetch session of one connection, as the follower keeps it."""

    __slots__ = ("_epoch", "_session_id", "known")

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = INITIAL_EPOCH
        self.known: dict[PartitionKey, Wish] = {}
        """What the leader was last told of each partition."""

    def __repr__(self) -> str:
        return f"<FollowerSession {self._session_id} epoch={self._epoch} partitions={len(self.known)}>"

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self._epoch == INITIAL_EPOCH

    def next(self, wishes: Iterable[tuple[PartitionKey, Wish]], gone: Iterable[PartitionKey]) -> SessionRequest:
        """Return what the next request says. ``wishes`` are all partitions where ``is_full``, else those that may have changed."""
        known = self.known
        if self._epoch == INITIAL_EPOCH:
            known.clear()
            known.update(wishes)
            return SessionRequest(self._session_id, INITIAL_EPOCH, list(known.items()), [])
        forgotten = [key for key in gone if known.pop(key, None) is not None]
        named = [(key, wish) for key, wish in wishes if known.get(key) != wish]
        known.update(named)
        return SessionRequest(self._session_id, self._epoch, named, forgotten)

    def accept(self, session_id: int) -> None:
        """Take over a response without an error; the leader may have had no room for a session (id 0)."""
        if session_id == 0:
            self._session_id, self._epoch = 0, INITIAL_EPOCH
            return
        self._session_id = session_id
        self._epoch = next_epoch(self._epoch)

    def fail(self, code: int = ErrorCode.NONE) -> None:
        """Begin another session with the next request, which ends this one, if the leader still has it."""
        self._epoch = INITIAL_EPOCH
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = 0


SESSION_ERRORS = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR}
)


def by_topic(keys: Iterable[PartitionKey]) -> Mapping[UUID, list[int]]:
    """Return partition indexes by topic id."""
    found: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(topic_id, []).append(index)
    return found
