"""Acquires share group records that any process may acknowledge later (KIP-932).

A lease is a set of records that were acquired together. It need not be given back. Each lease has a
member id and a share session of its own. A record's ``LeaseToken`` names both, so any process can
acknowledge the record. A connection is used by one lease at a time. The reason is that a leader
releases all records that were acquired over a connection when the connection ends.

Decides when to close a session. Other processes may renew locks with requests in the session, which
raise its epoch. So after the time of the locks this process asks the leader whether the epoch has
changed, and closes the session if it has not.

Invariant: an acquired record is settled, or becomes available again when its lock expires, when its
session is closed, or when the process that acquired it ends.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from types import TracebackType
from typing import Any, Final, Self

import trio

from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.env import real_env
from log_service.client.share.acknowledgements import batches_of
from log_service.client.share.acquired import AcquiredReader
from log_service.client.share.fetcher import DEFAULT_LOCK_TIMEOUT_MS
from log_service.client.share.membership import ShareMembership, new_member_id
from log_service.client.share.metrics import ShareConsumerMeter
from log_service.client.share.records import GAP, AcknowledgeType, ShareRecord
from log_service.client.share.silent_nodes import SilentNodes
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from log_service.common.types import TopicId, TopicPartition
from log_service.config.client import ShareConsumerConfig
from log_service.protocol.messages import share_acknowledge, share_fetch
from log_service.rpc.connection import RpcConnection
from log_service.security.outgoing import outgoing_security

logger = logging.getLogger(__name__)

MAX_GROUPS: Final = 100
MAX_LEASES: Final = 100
"""Leases of one client at the same time. Each holds a connection to a leader."""
IDLE_S: Final = 300.0
"""Time in seconds without an acquire after which the client leaves a group."""
SLICE_MS: Final = 500
"""How long one of several leaders is asked to wait for records."""
ACQUIRE_GRACE_MS: Final = 5_000
"""How much longer than its wait an acquire may take, for example if a leader hangs."""
RETRY_S: Final = 0.1
SLACK_S: Final = 1.0
CLOSE_S: Final = 5.0
MAX_MOVED: Final = 256
"""The most epochs that are tried, from the last known one on."""
MAX_REMEMBERED: Final = 1_000
RECORD_LIMIT_MODE: Final = 1
OF_ONE_RECORD: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""Errors that may come from one record of a request: its lock expired, or its offset is wrong.

The other records are not settled either, so each is then sent in a request of its own.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseToken:
    """Identifies one leased record.

    ``epoch`` is an earlier epoch of the session. The current one is found by trying the next ones.
    """

    member_id: str
    epoch: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Records that were acquired together. Their locks last ``lock_ms``.

    Records that are neither settled nor renewed by then become available again.
    """

    records: Sequence[tuple[ShareRecord, LeaseToken]]
    lock_ms: int
    ended: trio.Event = field(default_factory=trio.Event)
    """Set once all records are settled or their session is closed."""


@dataclass(slots=True, eq=False)
class _Session:
    """A share session with a leader.

    ``left`` are its records, as (partition, offset), that were not settled in this process.
    """

    group_id: str
    member_id: str
    slot: int
    node_id: int
    epoch: int = INITIAL_EPOCH
    lock_ms: int = DEFAULT_LOCK_TIMEOUT_MS
    left: set[tuple[int, int]] = field(default_factory=set)
    settled: trio.Event = field(default_factory=trio.Event)


@dataclass(slots=True, eq=False)
class _Member:
    """This client's membership in one group, which keeps the group alive.

    It acquires no records. Each lease of the group does this with a member id of its own.
    """

    membership: ShareMembership
    topics: set[str] = field(default_factory=set)
    assigned: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    used_s: float = -inf
    lease_count: int = 0


class ShareLeases:
    """Acquires and settles leases of one client. ``async with`` opens and closes it.

    Settings are those of ``ShareConsumerConfig``, without a group.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], *, env: Env | None = None, **settings: Any
    ) -> None:
        self._config = ShareConsumerConfig.of(bootstrap_servers, {**settings, "group_id": "leases"})
        self._env = env or real_env()
        self._security = outgoing_security(self._config.security(), self._env.rng)
        self._members: dict[str, _Member] = {}
        self._free_slots = list(range(MAX_LEASES))
        self._sessions: dict[str, _Session] = {}
        self._epochs: dict[str, int] = {}
        self._silent_nodes = SilentNodes()
        self._stack = AsyncExitStack()
        self._calls: set[trio.CancelScope] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<ShareLeases groups={len(self._members)} sessions={len(self._sessions)}>"

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._cluster = ClusterMetadata(
            self._env, self._config, self._nursery, security=self._security
        )
        self._nursery.start_soon(self._cluster.keep_fresh)
        self._nursery.start_soon(self._leave_idle_groups)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        for call in self._calls:
            call.cancel()
        with trio.move_on_after(CLOSE_S, shield=True):
            for session in list(self._sessions.values()):
                await self._close(session)
            for member in self._members.values():
                await member.membership.leave()
        self._nursery.cancel_scope.cancel()
        await self._stack.aclose()

    async def acquire(
        self, group_id: str, topic: str, *, max_records: int, wait_ms: int
    ) -> Lease | None:
        """Acquire up to ``max_records`` records of a topic for a group.

        Return None if there are none within ``wait_ms``, or at the latest ``ACQUIRE_GRACE_MS``
        after that. If the group is not joined by then, joining continues in the background.

        Raises:
            KafkaError: this user may not use the group or the topic, or it does not exist.
                THROTTLING_QUOTA_EXCEEDED, too many leases or groups are open here.
                REQUEST_TIMED_OUT, no broker describes the topic in time. INVALID_REQUEST, the
                client is closed.
        """
        deadline_s = trio.current_time() + wait_ms / 1_000
        longest_ms = min(wait_ms + ACQUIRE_GRACE_MS, self._config.default_api_timeout_ms)
        with self._while_open():
            await self._cluster.topic(topic, longest_ms)
            with trio.move_on_at(deadline_s + ACQUIRE_GRACE_MS / 1_000):
                return await self._acquire(group_id, topic, max_records, deadline_s)
        return None

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Cancel the block if the client is closed, and raise INVALID_REQUEST then."""
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            if self._is_closed:
                scope.cancel()
            try:
                yield
            finally:
                self._calls.remove(scope)
        if scope.cancelled_caught:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the leases are closed: use 'async with'")

    async def _acquire(
        self, group_id: str, topic: str, max_records: int, deadline_s: float
    ) -> Lease | None:
        member = self._member(group_id)
        member.used_s = trio.current_time()
        member.lease_count += 1
        try:
            await self._join(group_id, member, topic)
            session = await self._first_records(group_id, topic, max_records, deadline_s)
        finally:
            member.lease_count -= 1
            member.used_s = trio.current_time()
        if session is None:
            return None
        found, records = session
        tokens = [
            LeaseToken(
                member_id=found.member_id,
                epoch=found.epoch,
                partition=each.partition,
                offset=each.offset,
            )
            for each in records
        ]
        lease = Lease(records=list(zip(records, tokens, strict=True)), lock_ms=found.lock_ms)
        self._nursery.start_soon(self._hold, found, member, lease)
        return lease

    async def settle(
        self, group_id: str, topic: str, tokens: Iterable[LeaseToken], kind: AcknowledgeType
    ) -> dict[LeaseToken, KafkaError]:
        """Acknowledge leased records, also those of other processes. Return those that failed.

        Their errors INVALID_RECORD_STATE and SHARE_SESSION_NOT_FOUND mean that the record is no
        longer locked. It is then delivered to another member, or settled already.

        Raises:
            KafkaError: the topic does not exist, or a leader cannot be reached.
        """
        await self._cluster.topic(topic, self._config.default_api_timeout_ms)
        by_member: dict[tuple[str, int], list[LeaseToken]] = {}
        for each in tokens:
            by_member.setdefault((each.member_id, each.partition), []).append(each)
        failed: dict[LeaseToken, KafkaError] = {}
        for several in by_member.values():
            error = await self._settle_some(group_id, topic, several, kind)
            if error is None:
                continue
            if len(several) == 1 or error.code not in OF_ONE_RECORD:
                failed |= dict.fromkeys(several, error)
                continue
            for each in several:  # those of a partition are settled together or not at all
                error = await self._settle_some(group_id, topic, [each], kind)
                if error is not None:
                    failed[each] = error
        return failed

    # Groups

    def _member(self, group_id: str) -> _Member:
        member = self._members.get(group_id)
        if member is not None:
            return member
        if len(self._members) >= MAX_GROUPS:
            text = f"{MAX_GROUPS} groups are in use here: try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

        def note_change() -> None:
            made.assigned.set()

        membership = ShareMembership(
            self._cluster,
            replace(self._config, group_id=group_id),
            on_assigned=lambda assigned: note_change() if assigned else None,
            on_change=note_change,
            meter=ShareConsumerMeter(self._env.clock.monotonic_ms, is_on=False),
        )
        made = self._members[group_id] = _Member(membership)
        membership.note_poll(is_polling=True)
        self._nursery.start_soon(self._run_member, made)
        return made

    async def _run_member(self, member: _Member) -> None:
        with member.scope:
            await member.membership.run()

    async def _join(self, group_id: str, member: _Member, topic: str) -> None:
        """Subscribe to a topic in the group, and wait for an assignment.

        The coordinator initializes the group's state of the topic before that. If the group refuses
        the member, it is removed here at once, so that it does not count towards ``MAX_GROUPS``.

        Raises:
            KafkaError: the group refuses this member.
        """
        if topic not in member.topics:
            member.topics.add(topic)
            if member.assigned.is_set():  # else others wait for it
                member.assigned = trio.Event()
            member.membership.subscribe(member.topics)
        with trio.move_on_after(self._config.request_timeout_ms / 1_000):
            await member.assigned.wait()
        try:
            member.membership.raise_error()
        except KafkaError:
            if member.lease_count == 1:  # that of this acquire
                await self._leave(group_id, member)
            raise

    async def _leave(self, group_id: str, member: _Member) -> None:
        if self._members.get(group_id) is member:
            del self._members[group_id]
            try:
                await member.membership.leave()
            finally:
                member.scope.cancel()

    async def _leave_idle_groups(self) -> None:
        while True:
            await trio.sleep(IDLE_S / 10)
            now_s = trio.current_time()
            for group_id, member in list(self._members.items()):
                if not member.lease_count and now_s - member.used_s > IDLE_S:
                    await self._leave(group_id, member)

    # Acquiring

    async def _first_records(
        self, group_id: str, topic: str, max_records: int, deadline_s: float
    ) -> tuple[_Session, list[ShareRecord]] | None:
        """Fetch from the leaders of a topic one after the other, until one returns records.

        Return the session and the records, or None after ``deadline_s``.
        """
        sessions: dict[int, _Session] = {}
        chosen: _Session | None = None
        try:
            while True:
                nodes = self._leaders(topic)
                for node_id in nodes:
                    left_ms = max(0, round((deadline_s - trio.current_time()) * 1_000))
                    wait_ms = left_ms if len(nodes) == 1 else min(left_ms, SLICE_MS)
                    session = sessions.get(node_id)
                    if session is None:
                        session = sessions[node_id] = self._open(group_id, node_id)
                    try:
                        with self._silent_nodes.note(node_id, wait_ms):
                            records = await self._fetch(session, topic, max_records, wait_ms)
                    except KafkaError as error:
                        if not error.is_retriable or trio.current_time() >= deadline_s:
                            raise
                        await self._close(sessions.pop(node_id))
                        await trio.sleep(RETRY_S)
                        await self._cluster.refresh((topic,))
                        break  # another leader may have the partitions now
                    if records:
                        chosen = session
                        return session, records
                if trio.current_time() >= deadline_s:
                    return None
                if not nodes:
                    await trio.sleep(RETRY_S)
                    await self._cluster.refresh((topic,))
        finally:
            for each in sessions.values():
                if each is not chosen and not self._is_closed:  # a task, as the leader may hang
                    self._nursery.start_soon(self._close_in_time, each)

    async def _close_in_time(self, session: _Session) -> None:
        with trio.move_on_after(CLOSE_S, shield=True):
            await self._close(session)

    def _leaders(self, topic: str) -> list[int]:
        """Return the leaders of a topic in random order, but silent nodes last."""
        view = self._cluster.view
        if topic not in view.topics:
            text = f"topic {topic!r} is not there any more"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        nodes = {view.leader_of(each) for each in self._partitions(topic)} - {-1}
        return self._silent_nodes.come_last(self._env.rng.sample(sorted(nodes), len(nodes)))

    def _partitions(self, topic: str) -> list[TopicPartition]:
        count = self._cluster.view.topics[topic].partition_count
        return [TopicPartition(topic, number) for number in range(count)]

    def _open(self, group_id: str, node_id: int) -> _Session:
        if not self._free_slots:
            text = f"{MAX_LEASES} leases are open here: settle some, or try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
        member_id = new_member_id(self._env.rng)
        session = _Session(group_id, member_id, self._free_slots.pop(0), node_id)
        self._sessions[member_id] = session
        return session

    async def _fetch(
        self, session: _Session, topic: str, max_records: int, wait_ms: int
    ) -> list[ShareRecord]:
        view = self._cluster.view
        numbers = [
            each.partition
            for each in self._partitions(topic)
            if view.leader_of(each) == session.node_id
        ]
        topic_id = view.topic_id_of(topic)
        asked = [share_fetch.FetchPartition(partition_index=number) for number in numbers]
        named = [share_fetch.FetchTopic(topic_id=topic_id, partitions=asked)]
        request = share_fetch.ShareFetchRequest(
            group_id=session.group_id,
            member_id=session.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._config.fetch_max_bytes,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=RECORD_LIMIT_MODE,
            topics=named if session.epoch == INITIAL_EPOCH else [],
        )
        connection = await self._connection(session)
        response = await connection.request(
            request, share_fetch.ShareFetchResponse, waits_ms=wait_ms
        )
        _require(response.error_code, response.error_message, f"queue {topic!r}")
        session.epoch = next_epoch(session.epoch)
        session.lock_ms = response.acquisition_lock_timeout_ms or session.lock_ms
        return await self._taken(session, topic, response, max_records)

    async def _taken(
        self,
        session: _Session,
        topic: str,
        response: share_fetch.ShareFetchResponse,
        max_records: int,
    ) -> list[ShareRecord]:
        """Return the acquired records, and acknowledge offsets without a readable record."""
        taken: list[ShareRecord] = []
        for found in response.responses:
            for part in found.partitions:
                where = TopicPartition(topic, part.partition_index)
                code = ErrorCode.of(part.error_code)
                if code is not ErrorCode.NONE and not taken:
                    raise KafkaError(code, f"queue {where}: {part.error_message or code.name}")
                acquired = [
                    (each.first_offset, each.last_offset, each.delivery_count)
                    for each in part.acquired_records
                ]
                if acquired:
                    others = self._read(where, part.records, acquired, taken, max_records)
                    if others:
                        await self._acknowledge(
                            session, topic, TopicId(found.topic_id), where.partition, others
                        )
        session.left = {(each.partition, each.offset) for each in taken}
        return taken

    def _read(
        self,
        where: TopicPartition,
        content: Any,
        acquired: list[tuple[int, int, int]],
        taken: list[ShareRecord],
        max_records: int,
    ) -> dict[int, int]:
        """Append the acquired records of a partition to ``taken``.

        Return the acknowledgement types of the other acquired offsets: gaps, and releases of
        unreadable or surplus records.
        """
        reader = AcquiredReader(
            where,
            content,
            acquired,
            check_crcs=self._config.check_crcs,
            deserializers=(None, None),
        )
        is_empty = False
        while not is_empty and len(taken) < max_records:
            try:
                is_empty = reader.read_into(taken, max_records)
            except KafkaError as error:
                logger.warning("queue %s: %s", where, error)
        released = [*reader.unreadable, *reader.give_up()]
        types = dict.fromkeys(released, int(AcknowledgeType.RELEASE))
        return types | dict.fromkeys(reader.gaps, GAP)

    async def _acknowledge(
        self,
        session: _Session,
        topic: str,
        topic_id: TopicId,
        partition: int,
        types: Mapping[int, int],
    ) -> None:
        request = _request(
            group_id=session.group_id,
            member_id=session.member_id,
            epoch=session.epoch,
            topic_id=topic_id,
            partition=partition,
            types=types,
        )
        connection = await self._connection(session)
        response = await connection.request(request, share_acknowledge.ShareAcknowledgeResponse)
        _require(response.error_code, response.error_message, f"queue {topic!r}")
        session.epoch = next_epoch(session.epoch)

    async def _connection(self, session: _Session) -> RpcConnection:
        return await self._cluster.node(session.node_id, f"lease {session.slot}")

    # Holding

    async def _hold(self, session: _Session, member: _Member, lease: Lease) -> None:
        """Close a session when its records are settled, or when their locks have expired."""
        member.lease_count += 1
        try:
            while not session.settled.is_set():
                known = session.epoch
                with trio.move_on_after(session.lock_ms / 1_000 + SLACK_S):
                    await session.settled.wait()
                if session.settled.is_set() or not await self._has_moved(session, known):
                    break
        except KafkaError as error:
            logger.info("a lease of group %s ends: %s", session.group_id, error)
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._close(session)
            member.lease_count -= 1
            member.used_s = trio.current_time()
            lease.ended.set()

    async def _has_moved(self, session: _Session, known: int) -> bool:
        """Return whether another process used the session since the epoch ``known``."""
        if session.epoch != known:
            return True
        connection = await self._connection(session)
        found = await self._with_epoch(connection, session.group_id, session.member_id, known, None)
        session.epoch = self._epochs[session.member_id]
        return found != known

    async def _close(self, session: _Session) -> None:
        """End a session, which releases all records that are still locked in it. Idempotent."""
        if self._sessions.pop(session.member_id, None) is None:
            return
        self._epochs.pop(session.member_id, None)
        try:
            connection = await self._connection(session)
            request = share_acknowledge.ShareAcknowledgeRequest(
                group_id=session.group_id,
                member_id=session.member_id,
                share_session_epoch=FINAL_EPOCH,
            )
            try:
                await connection.request(request, share_acknowledge.ShareAcknowledgeResponse)
            except BaseException:
                connection.close()
                raise
        except KafkaError as error:
            logger.info("a lease of group %s is closed: %s", session.group_id, error)
        finally:
            self._free_slots.append(session.slot)

    # Settling

    async def _settle_some(
        self, group_id: str, topic: str, tokens: Sequence[LeaseToken], kind: AcknowledgeType
    ) -> KafkaError | None:
        """Acknowledge records of one session and one partition, all or none of them."""
        first = tokens[0]
        where = TopicPartition(topic, first.partition)
        types = {each.offset: int(kind) for each in tokens}
        topic_id = self._cluster.view.topic_id_of(topic)
        session = self._sessions.get(first.member_id)
        start = self._epochs.get(first.member_id, first.epoch)
        if session is not None:
            start = max(start, session.epoch)

        def make(epoch: int) -> share_acknowledge.ShareAcknowledgeRequest:
            return _request(
                group_id=group_id,
                member_id=first.member_id,
                epoch=epoch,
                topic_id=topic_id,
                partition=first.partition,
                types=types,
            )

        try:
            connection = await self._cluster.leader(where, "settle")
            await self._with_epoch(connection, group_id, first.member_id, start, make)
        except KafkaError as error:
            return error
        if session is not None:
            session.epoch = self._epochs[first.member_id]
            if kind is not AcknowledgeType.RENEW:
                session.left -= {(each.partition, each.offset) for each in tokens}
                if not session.left:
                    session.settled.set()
        return None

    async def _with_epoch(
        self,
        connection: RpcConnection,
        group_id: str,
        member_id: str,
        start: int,
        make: Callable[[int], share_acknowledge.ShareAcknowledgeRequest] | None,
    ) -> int:
        """Send a request with the session's current epoch, and return this epoch.

        Other processes may have raised the epoch, so it is tried from ``start`` on. ``make`` makes
        the request for an epoch. If it is None, the request contains no acknowledgement.

        Raises:
            KafkaError: the session has ended, or the acknowledgement is refused.
        """
        epoch = start
        for _ in range(MAX_MOVED):
            request = (
                share_acknowledge.ShareAcknowledgeRequest(
                    group_id=group_id, member_id=member_id, share_session_epoch=epoch
                )
                if make is None
                else make(epoch)
            )
            response = await connection.request(request, share_acknowledge.ShareAcknowledgeResponse)
            if response.error_code != ErrorCode.INVALID_SHARE_SESSION_EPOCH:
                _require(response.error_code, response.error_message, f"group {group_id!r}")
                self._remember(member_id, next_epoch(epoch))
                for found in response.responses:
                    for part in found.partitions:
                        what = f"group {group_id!r}, partition {part.partition_index}"
                        _require(part.error_code, part.error_message, what)
                return epoch
            epoch = next_epoch(epoch)
        text = f"the session of lease {member_id} moved by more than {MAX_MOVED} requests"
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, text)

    def _remember(self, member_id: str, epoch: int) -> None:
        self._epochs.pop(member_id, None)
        self._epochs[member_id] = epoch
        while len(self._epochs) > MAX_REMEMBERED:
            del self._epochs[next(iter(self._epochs))]


def _request(
    *,
    group_id: str,
    member_id: str,
    epoch: int,
    topic_id: TopicId,
    partition: int,
    types: Mapping[int, int],
) -> share_acknowledge.ShareAcknowledgeRequest:
    part = share_acknowledge.AcknowledgePartition(
        partition_index=partition,
        acknowledgement_batches=[
            share_acknowledge.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=each
            )
            for first, last, each in batches_of(types)
        ],
    )
    topics = [share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[part])]
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=AcknowledgeType.RENEW in types.values(),
        topics=topics,
    )


def _require(code: int, message: str | None, what: str) -> None:
    if code != ErrorCode.NONE:
        found = ErrorCode.of(code)
        raise KafkaError(found, f"{what}: {message or found.name}")
