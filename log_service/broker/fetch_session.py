"""Fetch sessions (KIP-227): later requests and responses carry only the partitions that changed.

A consumer names its partitions once. Decides which partitions a request asks for, which of them a
response must name, and which session is evicted for another. Knows neither logs nor sockets.
Offsets and sizes are passed in.

Followers' sessions are privileged, as in Apache Kafka. They may evict a consumer's at once, and a
consumer's never evicts theirs while it is in use.

Invariants:

- A session holds partitions by name or by id, never both.
- Its epoch increases by one with every request that it accepts. Its number of partitions changes
  only then, while the session is out of the cache.
- The number of sessions and the total of their partitions are bounded. A consumer that gets no
  session still gets responses, with all partitions.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from log_service.common.steps import Steps
from log_service.common.types import NO_LEADER_EPOCH
from log_service.config.views import FetchConfig
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NO_SESSION = 0
MAX_CACHED_PARTITION_COUNT = 500_000

_LAST_SESSION_ID = 2**31 - 1
_NEVER_SENT = -1

TARGETS_PER_STEP = 1_000

PartitionKey = tuple[str | UUID, int]


class FetchTarget:
    """One partition that a consumer fetches, and its state in the last response that named it.

    ``name`` is the topic's name. If the topic is given by id, it is set once the id was looked up.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "name",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, wanted: FetchPartition) -> None:
        self.topic = self.name = topic
        self.topic_id = topic_id
        self.partition = wanted.partition
        self.sent_high_watermark = _NEVER_SENT
        self.sent_log_start_offset = _NEVER_SENT
        self.log_start_offset = wanted.log_start_offset
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        epoch = wanted.current_leader_epoch
        self.current_leader_epoch = epoch if epoch >= 0 else NO_LEADER_EPOCH
        self.last_fetched_epoch = wanted.last_fetched_epoch

    def replace(self, known: "FetchTarget") -> None:
        """Replace the target of an earlier request: take over its topic and its last sent state.

        The earlier target is not changed, because a request that still waits uses it.
        """
        self.topic, self.topic_id, self.name = known.topic, known.topic_id, known.name
        self.sent_high_watermark = known.sent_high_watermark
        self.sent_log_start_offset = known.sent_log_start_offset

    def differs(
        self, error_code: int, record_bytes: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether an incremental response must name this partition.

        An error is always sent, and so is the first state after an error.
        """
        return (
            record_bytes > 0
            or error_code != 0
            or self.sent_high_watermark != high_watermark
            or self.sent_log_start_offset != log_start_offset
        )

    def is_changed(
        self, error_code: int, record_bytes: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether an incremental response must name this partition. Remember the state as sent."""
        is_included = self.differs(error_code, record_bytes, high_watermark, log_start_offset)
        self.sent_high_watermark = _NEVER_SENT if error_code else high_watermark
        self.sent_log_start_offset = log_start_offset
        return is_included


Targets = dict[PartitionKey, FetchTarget]


def targets_of(topics: Iterable[FetchTopic], *, is_by_id: bool) -> Steps[Targets]:
    """Return the targets of a request. For a partition named twice, the last one counts."""
    targets: Targets = {}
    left = TARGETS_PER_STEP
    for topic in topics:
        name, topic_id = topic.topic, topic.topic_id
        key = topic_id if is_by_id else name
        for wanted in topic.partitions:
            targets[key, wanted.partition] = FetchTarget(name, topic_id, wanted)
            left -= 1
            if left <= 0:
                yield
                left = TARGETS_PER_STEP
    return targets


class FetchSession:
    """The fetch session of one consumer.

    Partitions that returned records move to the end, for fairness.
    """

    __slots__ = (
        "created_ms",
        "epoch",
        "is_by_id",
        "is_privileged",
        "last_used_ms",
        "session_id",
        "targets",
    )

    def __init__(
        self,
        session_id: int,
        targets: dict[PartitionKey, FetchTarget],
        now_ms: int,
        *,
        is_by_id: bool,
        is_privileged: bool = False,
    ) -> None:
        self.is_privileged = is_privileged
        self.session_id = session_id
        self.targets = targets
        self.is_by_id = is_by_id
        self.epoch = INITIAL_EPOCH + 1
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    def __repr__(self) -> str:
        return f"<FetchSession {self.session_id} epoch={self.epoch} partitions={len(self.targets)}>"

    def accept(self, request: FetchRequest, wanted: Targets, now_ms: int) -> Steps[None]:
        """Apply the changes of an incremental request, and advance the epoch.

        ``wanted`` are the request's targets.
        """
        self.last_used_ms = now_ms
        self.epoch = next_epoch(self.epoch)
        left = TARGETS_PER_STEP
        for key, target in wanted.items():
            known = self.targets.get(key)
            if known is not None:
                target.replace(known)
            self.targets[key] = target
            left -= 1
            if left <= 0:
                yield
                left = TARGETS_PER_STEP
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.is_by_id else forgotten.topic
            for partition in forgotten.partitions:
                self.targets.pop((name, partition), None)
                left -= 1
                if left <= 0:
                    yield
                    left = TARGETS_PER_STEP

    def move_to_end(self, target: FetchTarget) -> None:
        """Move a partition to the end of the order for the next request."""
        key: PartitionKey = (target.topic_id if self.is_by_id else target.topic, target.partition)
        present = self.targets.pop(key, None)
        if present is not None:
            self.targets[key] = present


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """A fetch request with its session, partitions in reading order, and kind of response."""

    targets: tuple[FetchTarget, ...]
    session: FetchSession | None
    is_incremental: bool
    is_by_id: bool

    @property
    def session_id(self) -> int:
        """The session id of the response, 0 for no session."""
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessionCache:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, config: FetchConfig, rng: Random) -> None:
        self._config = config
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}
        self.eviction_count = 0
        self.partition_count = 0
        """Total number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def session_ids(self) -> Collection[int]:
        """The ids of all sessions, the least recently used first."""
        return self._sessions.keys()

    def open(
        self, request: FetchRequest, now_ms: int, *, is_by_id: bool, is_privileged: bool = False
    ) -> Steps[FetchContext]:
        """Return the partitions to read for a request. Start, advance or end its session.

        ``is_privileged`` is true if a broker sent it, for one of its followers. A request of very
        many partitions takes several steps. Meanwhile its session is not in the cache.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
                FETCH_SESSION_TOPIC_ID_ERROR; the consumer must start again.
        """
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return (yield from self._open_incremental(request, now_ms, is_by_id=is_by_id))
        if request.session_id in self._sessions:
            self._take(request.session_id)
        targets = yield from targets_of(request.topics, is_by_id=is_by_id)
        session = (
            self._maybe_start(targets, now_ms, is_by_id=is_by_id, is_privileged=is_privileged)
            if request.session_epoch == INITIAL_EPOCH
            else None
        )
        return FetchContext(
            targets=tuple(targets.values()),
            session=session,
            is_incremental=False,
            is_by_id=is_by_id,
        )

    def withdraw(self, session: FetchSession) -> None:
        """Drop a session whose id was not sent to its consumer."""
        if session.session_id in self._sessions:
            self._take(session.session_id)

    def _open_incremental(
        self, request: FetchRequest, now_ms: int, *, is_by_id: bool
    ) -> Steps[FetchContext]:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.is_by_id != is_by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self._take(session.session_id)
        targets = yield from targets_of(request.topics, is_by_id=is_by_id)
        yield from session.accept(request, targets, now_ms)
        if not session.targets:  # its last request is answered as one without a session
            return FetchContext(
                targets=tuple(targets.values()),
                session=None,
                is_incremental=False,
                is_by_id=is_by_id,
            )
        if (
            request.topics
            and self.partition_count + len(session.targets) > MAX_CACHED_PARTITION_COUNT
        ):
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._put_last(session)
        return FetchContext(
            targets=tuple(session.targets.values()),
            session=session,
            is_incremental=True,
            is_by_id=is_by_id,
        )

    def _put_last(self, session: FetchSession) -> None:
        self._sessions[session.session_id] = session
        self.partition_count += len(session.targets)

    def _take(self, session_id: int) -> None:
        self.partition_count -= len(self._sessions.pop(session_id).targets)

    def _maybe_start(
        self,
        targets: dict[PartitionKey, FetchTarget],
        now_ms: int,
        *,
        is_by_id: bool,
        is_privileged: bool,
    ) -> FetchSession | None:
        if not self._has_room(len(targets), now_ms, is_privileged=is_privileged):
            return None
        session = FetchSession(
            self._new_id(), targets, now_ms, is_by_id=is_by_id, is_privileged=is_privileged
        )
        self._put_last(session)
        return session

    def _has_room(self, size: int, now_ms: int, *, is_privileged: bool) -> bool:
        is_full = len(self._sessions) >= self._config.max_session_cache_slots
        if is_full and not self._maybe_evict(size, now_ms, is_privileged=is_privileged):
            return False
        return self.partition_count + size <= MAX_CACHED_PARTITION_COUNT

    def _maybe_evict(self, size: int, now_ms: int, *, is_privileged: bool) -> bool:
        """Evict a session for a new session of ``size`` partitions, if one may be evicted.

        The least recently used session is evicted if it was not used for
        ``min_session_eviction_ms``. Otherwise the lowest-ranked of the sessions that are older than
        this is evicted, if it ranks below the new one. A consumer's session ranks below a
        follower's, and of two alike the one with fewer partitions ranks lower. To make room for a
        follower, a consumer's session may have any age.
        """
        oldest_allowed_ms = now_ms - self._config.min_session_eviction_ms
        chosen = next(iter(self._sessions.values()), None)
        if chosen is None:
            return False
        if chosen.last_used_ms >= oldest_allowed_ms:
            evictable = (
                session
                for session in self._sessions.values()
                if session.created_ms < oldest_allowed_ms
                or (is_privileged and not session.is_privileged)
            )
            chosen = min(evictable, key=_rank, default=None)
            if chosen is None or _rank(chosen) >= (is_privileged, size):
                return False
        self._take(chosen.session_id)
        self.eviction_count += 1
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randint(1, _LAST_SESSION_ID)
            if session_id not in self._sessions:
                return session_id


def _rank(session: FetchSession) -> tuple[bool, int]:
    return session.is_privileged, len(session.targets)
