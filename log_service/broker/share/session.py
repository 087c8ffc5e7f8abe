"""Share sessions (KIP-932): a member names its partitions once, and then only changes.

Decides which partitions a request fetches, which of them a response must name, and which sessions
end. It knows neither logs nor sockets. A connection is an id that is passed in. The caller releases
the records that the member of an ended session holds.

A member has one session at each leader. Its key is the group and the member. Its epoch starts at 0,
and each accepted request advances it by one, acknowledgements too. After 2147483647 comes 1. The
final epoch, -1, ends the session with that request. A session ends with its connection too, because
its member is gone and other members should get the records at once.

Invariants: a refused request changes nothing. The number of sessions is bounded. No session is
evicted for another, because its member holds records.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, next_epoch

MAX_MEMBER_ID_LENGTH = 36
"""The largest length of a member's id, in characters. It is the length of a UUID."""
MAX_PARTITION_COUNT = 10_000
"""The most partitions of one session, because a member may name any number, even of missing ones.
"""

SharedPartition = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """The group and the member of a session."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions that one member fetches from this leader, in the order in which they are read.

    The order changes with each fetch, and not with the epoch. A member that acknowledges between
    its fetches advances the epoch by two, and half of its partitions would never be first.
    """

    __slots__ = ("_partitions", "connection_id", "epoch", "key")

    def __init__(
        self, key: SessionKey, partitions: Iterable[SharedPartition], connection_id: int
    ) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = INITIAL_EPOCH + 1
        self._partitions = dict.fromkeys(partitions, False)

    def __repr__(self) -> str:
        return (
            f"<ShareSession {self.key.group_id}/{self.key.member_id} epoch={self.epoch}"
            f" partitions={len(self._partitions)}>"
        )

    @property
    def partitions(self) -> tuple[SharedPartition, ...]:
        """The fetched partitions, in the order in which they are read."""
        return tuple(self._partitions)

    @property
    def partition_count(self) -> int:
        """Number of fetched partitions."""
        return len(self._partitions)

    def advance(self) -> None:
        """Increase the epoch, after a request was accepted."""
        self.epoch = next_epoch(self.epoch)

    def change(
        self, added: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]
    ) -> None:
        """Add partitions, which the next response names, and remove others."""
        for partition in added:
            self._partitions.setdefault(partition, True)
        for partition in forgotten:
            self._partitions.pop(partition, None)

    def must_name(self, partition: SharedPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether an incremental response must name a partition.

        It names a new partition, one with records or an error, and the first state after an error.
        """
        is_awaited = self._partitions.get(partition)
        if is_awaited is None:
            return False
        self._partitions[partition] = has_error
        return has_records or has_error or is_awaited

    def end_turn(self, first: SharedPartition, given: Sequence[SharedPartition]) -> None:
        """Move partitions to the end of the order after a fetch that read ``first`` first.

        ``given`` are the partitions that gave records, in their order. The one that gave records
        first goes to the very end. If ``first`` gave no records, it is moved before all that did.
        Otherwise an idle partition would stay first, and the others would never change their order.
        """
        for partition in (first, *given[1:], *given[:1]):
            has_error = self._partitions.pop(partition, None)
            if has_error is not None:
                self._partitions[partition] = has_error


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchContext:
    """The session and the partitions of one ShareFetch request, in the order to read them.

    If the request ends the session, ``session`` is None and ``ending`` is that session. Otherwise
    ``ending`` is None.
    """

    key: SessionKey
    partitions: tuple[SharedPartition, ...]
    session: ShareSession | None
    is_first: bool
    ending: ShareSession | None = None

    @property
    def is_final(self) -> bool:
        """Whether the session ends with this request.

        Such a request fetches nothing, and all records of its member are released.
        """
        return self.ending is not None


class ShareSessionCache:
    """All share sessions of a broker, at most ``max_count``."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connection: dict[int, dict[SessionKey, ShareSession]] = {}
        self._of_group: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Number of partitions of all sessions together."""
        return sum(session.partition_count for session in self._sessions.values())

    def has_group(self, group_id: str) -> bool:
        """Whether a member of a group has a session here."""
        return group_id in self._of_group

    def is_open(self, session: ShareSession) -> bool:
        """Whether a session is still the current one of its member."""
        return self._sessions.get(session.key) is session

    def is_current(self, session: ShareSession, epoch: int) -> bool:
        """Whether a session is still current and expects ``epoch`` next.

        Otherwise another request has come since.
        """
        return self.is_open(session) and session.epoch == epoch

    def open_fetch(
        self,
        key: SessionKey,
        epoch: int,
        *,
        added: Iterable[SharedPartition],
        forgotten: Iterable[SharedPartition] = (),
        connection_id: int,
        has_acknowledgements: bool,
    ) -> ShareFetchContext:
        """Find, start or advance the session of a ShareFetch request.

        A final session ends with ``close``, after its request was handled.

        Raises:
            KafkaError: INVALID_REQUEST, acknowledgements in the first request of a session;
                SHARE_SESSION_NOT_FOUND; INVALID_SHARE_SESSION_EPOCH; SHARE_SESSION_LIMIT_REACHED.
                INVALID_REQUEST, too many partitions.
        """
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                text = (
                    "the first request of a share session acknowledges records: acknowledge only"
                    " what was acquired in this session"
                )
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            session = self._start(key, added, connection_id)
            return ShareFetchContext(
                key=key, partitions=session.partitions, session=session, is_first=True
            )
        session = self._accepted(key, epoch)
        added = tuple(added)
        if epoch == FINAL_EPOCH:
            return ShareFetchContext(
                key=key, partitions=(), session=None, is_first=False, ending=session
            )
        self._check_size(session, added)
        session.change(added, forgotten)
        session.advance()
        return ShareFetchContext(
            key=key, partitions=session.partitions, session=session, is_first=False
        )

    def accept_acknowledgement(self, key: SessionKey, epoch: int) -> ShareSession:
        """Advance the session of a ShareAcknowledge request, and return it.

        If the request is final, the caller ends the session with ``close`` after handling it.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND. INVALID_SHARE_SESSION_EPOCH, also if the request
                would be the first of a session.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                "a share session starts with a ShareFetch request",
            )
        session = self._accepted(key, epoch)
        if epoch != FINAL_EPOCH:
            session.advance()
        return session

    def close(self, key: SessionKey) -> ShareSession | None:
        """End a session and return it, so that the caller can release its records.

        Returns None if there is no such session.
        """
        session = self._sessions.pop(key, None)
        if session is not None:
            of_connection = self._of_connection[session.connection_id]
            del of_connection[key]
            if not of_connection:
                del self._of_connection[session.connection_id]
            self._of_group[key.group_id] -= 1
            if not self._of_group[key.group_id]:
                del self._of_group[key.group_id]
        return session

    def close_connection(self, connection_id: int) -> list[ShareSession]:
        """End the sessions of a closed connection, and return them in the order of their start."""
        ended = list(self._of_connection.get(connection_id, {}).values())
        for session in ended:
            self.close(session.key)
        return ended

    def close_all(self) -> list[ShareSession]:
        """End all sessions and return them, for disabled share groups or a stopping node."""
        ended = list(self._sessions.values())
        self._sessions.clear()
        self._of_connection.clear()
        self._of_group.clear()
        return ended

    def _start(
        self, key: SessionKey, partitions: Iterable[SharedPartition], connection_id: int
    ) -> ShareSession:
        if key not in self._sessions and len(self._sessions) >= self._max_count:
            text = (
                f"{self._max_count} share sessions are open, as many as"
                " group.share.max.share.sessions allows"
            )
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, text)
        session = ShareSession(key, partitions, connection_id)
        self._check_size(session, ())
        self.close(key)
        self._sessions[key] = session
        self._of_connection.setdefault(connection_id, {})[key] = session
        self._of_group[key.group_id] = self._of_group.get(key.group_id, 0) + 1
        return session

    def _check_size(self, session: ShareSession, added: Sequence[SharedPartition]) -> None:
        if session.partition_count + len(added) <= MAX_PARTITION_COUNT:
            return
        if (
            session.partition_count + len(set(added).difference(session.partitions))
            > MAX_PARTITION_COUNT
        ):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a share session holds at most {MAX_PARTITION_COUNT} partitions",
            )

    def _accepted(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"member {key.member_id} has no share session here",
            )
        if epoch not in {FINAL_EPOCH, session.epoch}:
            text = (
                f"share session epoch {epoch} of member {key.member_id} where {session.epoch} was"
                " expected"
            )
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, text)
        return session
