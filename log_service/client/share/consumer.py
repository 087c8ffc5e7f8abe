"""The share consumer acquires records of a share group and acknowledges each record (KIP-932).

Decides the order of steps in one ``poll``. The poll sends acknowledgements of earlier records. Then
it returns ready records, or waits for some. Background tasks acquire records, acknowledge them and
send heartbeats.

Invariants: a record that ``poll`` returned is either acknowledged once or becomes available again.
It becomes available when its lock expires, or as soon as the consumer closes. A cancelled poll
loses no acquired record, because the next poll returns it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import trio

from log_service.client import arguments
from log_service.client.admin.values import ItemsFailed
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.env import real_env
from log_service.client.consumer.records import Deserializer
from log_service.client.share.acknowledgements import AcknowledgeCallback, Acknowledgement, Ticket
from log_service.client.share.fetcher import ShareFetcher
from log_service.client.share.in_hand import InHand
from log_service.client.share.lane import Source
from log_service.client.share.membership import ShareMembership
from log_service.client.share.metrics import ShareConsumerMeter, ShareConsumerMetrics
from log_service.client.share.records import AcknowledgeType, ShareRecord
from log_service.common.env import Env
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicPartition
from log_service.config.client import ShareConsumerConfig
from log_service.security.outgoing import outgoing_security

logger = logging.getLogger(__name__)

LEAVE_S = 5.0
"""Time limit for leaving the group."""


class ShareConsumer:
    """Consumes records of a share group. ``async with`` opens and closes it.

    Settings are those of ``ShareConsumerConfig``, as keywords. A record is *in hand* from the poll
    that returned it until its acknowledgement is sent or its lock expires.

    With implicit ``acknowledgement_mode``, polled records are accepted by the next ``poll``, by
    ``commit`` and by leaving the block, unless the application acknowledged them otherwise. With
    explicit mode, only the application acknowledges records. It may do so in any order, also after
    later polls. If an exception leaves the block, nothing is accepted. Records that are not
    acknowledged when the consumer closes are available to other members at once.

    ``on_acknowledged`` gets every acknowledgement that a leader accepted or refused. Without it,
    refusals are logged.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        on_acknowledged: AcknowledgeCallback | None = None,
        env: Env | None = None,
        **settings: Any,
    ) -> None:
        self.config = ShareConsumerConfig.of(bootstrap_servers, settings)
        self.on_acknowledged = on_acknowledged
        self._env = env or real_env()
        self._security = outgoing_security(self.config.security(), self._env.rng)
        self._deserializers = (key_deserializer, value_deserializer)
        self._meter = ShareConsumerMeter(self._now_ms, self.config.enable_metrics)
        self._quiet = QuietLogger(logger, self._now_ms)
        self._in_hand: InHand[Source] = InHand()
        self._topics: frozenset[str] = frozenset()
        self._changed = trio.Event()
        self._stack = AsyncExitStack()
        self._is_woken = self._is_polling = self._is_open = False

    def __repr__(self) -> str:
        return (
            f"<ShareConsumer group={self.config.group_id} {'open' if self._is_open else 'closed'}"
            f" in_hand={len(self._in_hand)}>"
        )

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._cluster = ClusterMetadata(
            self._env, self.config, self._nursery, security=self._security
        )
        self._begin()
        self._nursery.start_soon(self._cluster.keep_fresh)
        self._is_open = True
        return self

    def _begin(self) -> None:
        """Start the tasks of a new member, which has no partitions yet."""
        self._membership = ShareMembership(
            self._cluster,
            self.config,
            on_assigned=self._note_assigned,
            on_change=self._note_change,
            meter=self._meter,
        )
        self._fetcher = ShareFetcher(
            self._cluster,
            self.config,
            self._membership.member_id,
            self._in_hand,
            self._deserializers,
            on_change=self._note_change,
            meter=self._meter,
        )
        self._scope = trio.CancelScope()
        self._nursery.start_soon(_run_both, self._scope, self._membership.run, self._fetcher.run)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._finish(is_accepting=error is None)
        finally:
            self._is_open = False
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()  # without the exception, which the nursery would wrap

    @property
    def cluster(self) -> ClusterMetadata:
        """The client's view of its cluster.

        Raises KafkaError (INVALID_REQUEST) once the consumer is closed.
        """
        self._require_open()
        return self._cluster

    # Subscription and assignment

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Acquire records of these topics together with the other members of the group.

        A new subscription replaces the earlier one.

        Raises:
            TypeError: the topics are one text, or one of them is not text.
            ConfigError: there is no topic. ``unsubscribe`` leaves the group.
        """
        self._require_open()
        named = arguments.names(topics, "topics")
        if not named:
            raise ConfigError("subscribe() needs a topic at least; unsubscribe() leaves the group")
        self._cluster.watch_only(named)
        self._topics = frozenset(named)
        self._membership.note_poll(is_polling=False)
        self._membership.subscribe(named)
        await trio.lowlevel.checkpoint()

    async def unsubscribe(self) -> None:
        """Leave the group. This is completed even if the call is cancelled.

        Records in hand are acknowledged as at the end of the ``async with`` block.
        """
        self._require_open()
        if self._topics:
            self._topics = frozenset()
            await self._finish(is_accepting=True)
            self._scope.cancel()
            self._in_hand = InHand()
            self._begin()
            if self._topics:  # another task has subscribed meanwhile
                self._membership.subscribe(self._topics)
        await trio.lowlevel.checkpoint()

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, sorted. Other members may have the same partitions."""
        self._require_open()
        return self._fetcher.partitions()

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """Duration of acquisition locks in ms, as leaders reported.

        None before the first response.
        """
        self._require_open()
        return self._fetcher.lock_timeout_ms if self._fetcher.is_lock_timeout_known else None

    # Records

    async def poll(
        self, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[ShareRecord]:
        """Return up to ``max_records`` records as soon as there are any, none after ``timeout_ms``.

        The default of ``max_records`` is ``max_poll_records``. Acknowledgements of earlier records
        are sent. With implicit acknowledgement, earlier records without an acknowledgement are
        accepted. A poll that is cancelled or raises loses no records.

        Raises:
            ShareDeserializationError: a deserializer failed. The record is released unless the
                application rejects it.
            TypeError, ValueError: ``max_records`` is not a positive whole number.
            KafkaError: a fetch or the group failed for good. INVALID_REQUEST, the consumer is
                closed, or another task polls it.
        """
        limit = (
            self.config.max_poll_records
            if max_records is None
            else arguments.record_limit(max_records)
        )
        return await self._poll(limit, limit, timeout_ms)

    async def _poll(self, limit: int, acquired_limit: int, timeout_ms: int) -> list[ShareRecord]:
        self._require_open()
        if self._is_polling:
            text = (
                "another task or thread polls this consumer, or a callback of its own does: one"
                " poll at a time"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        deadline = trio.current_time() + timeout_ms / 1_000
        self._membership.note_poll(is_polling=True)
        self._is_polling = True
        try:
            await trio.lowlevel.checkpoint()
            self._acknowledge(is_hurried=False)
            while True:
                self._changed = trio.Event()
                self._membership.raise_error()
                self._fetcher.raise_error()
                records = self._fetcher.take(limit)
                if records or self._is_woken:
                    self._is_woken = False
                    return records
                self._fetcher.want(acquired_limit, deadline)
                with trio.move_on_at(deadline):
                    await self._changed.wait()
                if trio.current_time() >= deadline and not self._changed.is_set():
                    return []
        finally:
            self._fetcher.want_nothing()
            self._is_polling = False
            self._membership.note_poll(is_polling=False)

    def wakeup(self) -> None:
        """End the waiting poll at once, or else the next poll.

        The poll returns the ready records, maybe none, and raises no error because of this.
        """
        self._is_woken = True
        self._note_change()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        """Wait for the next record, and return it.

        With implicit acknowledgement a record is accepted when the next record is requested.
        """
        while True:
            records = await self._poll(
                1, self.config.max_poll_records, self.config.default_api_timeout_ms
            )
            if records:
                return records[0]

    # Acknowledgements

    def acknowledge(
        self,
        records: ShareRecord | Iterable[ShareRecord],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge records in hand. The next ``poll``, ``commit`` or ``commit_soon`` sends this.

        Until then the acknowledgement may be changed. A renewed record stays in hand.

        Raises:
            KafkaError: INVALID_RECORD_STATE, a record is not in hand. It was acknowledged before,
                or its lock expired. Records before it are acknowledged.
        """
        self._require_open()
        self._drop_expired()
        given = AcknowledgeType(kind)
        each: Iterable[ShareRecord] = (records,) if isinstance(records, ShareRecord) else records
        for record in each:
            self._in_hand.acknowledge(record, given)

    def accept(self, records: ShareRecord | Iterable[ShareRecord]) -> None:
        """Accept processed records, which are not delivered again. Raises as ``acknowledge``."""
        self.acknowledge(records, AcknowledgeType.ACCEPT)

    def release(self, records: ShareRecord | Iterable[ShareRecord]) -> None:
        """Release records for another delivery, up to the delivery limit.

        Raises as ``acknowledge``.
        """
        self.acknowledge(records, AcknowledgeType.RELEASE)

    def reject(self, records: ShareRecord | Iterable[ShareRecord]) -> None:
        """Reject records that can never be processed. Raises as ``acknowledge``.

        They are not delivered again.
        """
        self.acknowledge(records, AcknowledgeType.REJECT)

    def renew(self, records: ShareRecord | Iterable[ShareRecord]) -> None:
        """Renew the locks of records that are still processed (KIP-1222).

        Raises as ``acknowledge``.
        """
        self.acknowledge(records, AcknowledgeType.RENEW)

    async def commit(self, timeout_ms: int | None = None) -> None:
        """Send the acknowledgements and wait for the leaders' responses.

        With implicit acknowledgement all polled records are accepted. If the call is cancelled or
        times out, the acknowledgements are still sent.

        Raises:
            ItemsFailed: acknowledgements of some partitions were refused (INVALID_RECORD_STATE:
                locks had expired). Those records are delivered again.
            KafkaError: REQUEST_TIMED_OUT, a response is missing after ``timeout_ms`` (default
                ``default_api_timeout_ms``).
        """
        self._require_open()
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        is_settled = trio.Event()
        ticket = self._acknowledge(is_hurried=True, on_settled=is_settled.set)
        await trio.lowlevel.checkpoint()
        if ticket.open_count:
            with trio.move_on_after(limit_ms / 1_000):
                await is_settled.wait()
        if ticket.open_count:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"not all acknowledgements were settled within {limit_ms} ms",
            )
        if ticket.errors:
            raise ItemsFailed(
                ticket.errors, dict.fromkeys(ticket.partitions - ticket.errors.keys())
            )

    def commit_soon(self) -> None:
        """Send the acknowledgements as ``commit`` does, without waiting.

        ``on_acknowledged`` gets the results.

        Raises:
            KafkaError: INVALID_REQUEST, the consumer is closed.
        """
        self._require_open()
        self._acknowledge(is_hurried=True)

    def put_back(self, records: Iterable[ShareRecord]) -> None:
        """Take back returned records that the application has not seen.

        The next poll returns them, in order, without a new delivery.
        """
        self._require_open()
        self._fetcher.give_back(self._in_hand.take_back(records))

    def accept_implied(self, records: Iterable[ShareRecord]) -> None:
        """Accept records that a loop has passed, with implicit acknowledgement.

        Records that are acknowledged already are left out.
        """
        if self.config.is_implicit:
            self._in_hand.acknowledge_unset(records, AcknowledgeType.ACCEPT)

    @property
    def in_hand_count(self) -> int:
        """Number of returned records that are not acknowledged yet."""
        return len(self._in_hand)

    def metrics(self) -> ShareConsumerMetrics:
        """Return the metrics of the consumer so far; see the module ``client.share.metrics``."""
        self._require_open()
        return self._meter.metrics(
            self._cluster.metrics(), len(self._in_hand), len(self._fetcher.partitions())
        )

    # Internal steps

    def _acknowledge(
        self,
        *,
        is_hurried: bool,
        is_implied: bool = True,
        on_settled: Callable[[], None] = lambda: None,
    ) -> Ticket:
        """Pass the acknowledgements of records in hand to the lanes that send them.

        With ``is_implied`` and implicit mode, all other records in hand are accepted. With
        ``is_hurried`` the lanes send at once. The returned ticket calls ``on_settled`` when all
        acknowledgements are settled.
        """
        self._drop_expired()
        if self.config.is_implicit and is_implied:
            self._in_hand.acknowledge_rest(AcknowledgeType.ACCEPT)
        ticket = Ticket(on_settled)
        taken = self._in_hand.take_acknowledged()
        acknowledgements = [
            (source, self._saying(where, types, ticket))
            for source, by_place in taken
            for where, types in by_place.items()
        ]
        for source, acknowledgement in acknowledgements:
            source.lane.acknowledge(source, acknowledgement, is_hurried=is_hurried)
        return ticket

    def _saying(
        self, where: TopicPartition, types: dict[int, int], ticket: Ticket
    ) -> Acknowledgement:
        ticket.add(where)

        def settle(acknowledgement: Acknowledgement, error: KafkaError | None) -> None:
            self._note_settled(acknowledgement, error)
            ticket.settle(acknowledgement.topic_partition, error)

        deadline_ms = self._now_ms() + self._fetcher.lock_timeout_ms
        return Acknowledgement(
            topic_partition=where, types=types, deadline_ms=deadline_ms, on_settled=settle
        )

    def _note_settled(self, acknowledgement: Acknowledgement, error: KafkaError | None) -> None:
        self._meter.note_acknowledged(len(acknowledgement.types), is_refused=error is not None)
        if error is None and acknowledgement.is_renewing:
            renewed = [
                offset
                for offset, kind in acknowledgement.types.items()
                if kind == AcknowledgeType.RENEW
            ]
            self._in_hand.renew(
                acknowledgement.topic_partition,
                renewed,
                self._now_ms() + self._fetcher.lock_timeout_ms,
            )
        if self.on_acknowledged is not None:
            try:
                self.on_acknowledged(
                    acknowledgement.topic_partition, acknowledgement.offsets, error
                )
            except Exception:
                logger.exception("the callback of acknowledgements failed")
        elif error is not None:
            count = len(acknowledgement.types)
            self._quiet.warning(
                error.code,
                "group %s: %d records are delivered again: %s",
                self.config.group_id,
                count,
                error,
            )

    def _drop_expired(self) -> None:
        late = self._in_hand.drop_expired(self._now_ms())
        if late:
            first = f"{late[0].topic_partition} offset {late[0].offset}"
            text = (
                "group %s: the locks of %d records ran out before they were acknowledged, the first"
                " at %s: they are delivered again"
            )
            self._quiet.warning("expired", text, self.config.group_id, len(late), first)

    async def _finish(self, *, is_accepting: bool) -> None:
        """Send the last acknowledgements, end the sessions, and leave the group.

        With ``is_accepting`` and implicit mode, records without an acknowledgement are accepted. A
        cancellation does not interrupt these steps, because only all of them together are useful.
        """
        self._acknowledge(is_hurried=True, is_implied=is_accepting)
        with trio.CancelScope(
            shield=True, deadline=trio.current_time() + self.config.request_timeout_ms / 1_000
        ):
            await self._fetcher.close()
            with trio.move_on_after(LEAVE_S):
                await self._membership.leave()

    def _require_open(self) -> None:
        if not self._is_open:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the consumer is closed: use it inside 'async with'"
            )

    def _note_assigned(self, assigned: frozenset[Any]) -> None:
        self._fetcher.assign(assigned)

    def _note_change(self) -> None:
        self._changed.set()

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ms()


async def _run_both(scope: trio.CancelScope, *tasks: Callable[[], Awaitable[None]]) -> None:
    with scope:
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)
