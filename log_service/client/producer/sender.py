"""Sends batches to the leaders of their partitions, and settles them with the responses.

The sender checks the queues when a batch is full, has lingered, or was settled. ``batch_actions``
decides what to do after each response. ``sequences`` numbers the batches, ``accumulator`` orders
them.

Invariants:

- Requests to one node are sent in the order in which they were drained. At most
  ``max_in_flight_requests_per_connection`` of them wait for a response.
- No batch with a sequence number is sent before an earlier one of its partition that must be sent
  again. While a node has acknowledged nothing of a partition over a connection, it gets only one
  batch of the partition over that connection.
- Every batch is settled, at the latest at its delivery timeout.
- At most one metadata refresh and one request for a producer id run at a time.
- If a node does not respond for a while, nothing is sent again. The sender only refreshes the
  metadata, in case another node leads.
- Batches of a partition with sequence numbers are in flight to one node at a time. A new leader
  first gets the batches that the old one did not respond to. The reason is that a leader remembers
  only the last few batches of a producer.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from log_service.client.connections.cluster_metadata import SILENCE_MS, ClusterMetadata
from log_service.client.connections.cluster_view import NO_LEADER
from log_service.client.metrics import ProducerMeter
from log_service.client.producer.accumulator import NEVER_MS, Accumulator
from log_service.client.producer.batch_actions import MOVED, BatchAction, action_on
from log_service.client.producer.delivery import NO_OFFSET, ProducerBatch
from log_service.client.producer.sequences import ProducerIdentity, Sequences
from log_service.client.producer.transaction_errors import Step
from log_service.client.producer.transaction_state import State, Transactions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.config.client import ProducerConfig
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from log_service.rpc.connection import RpcConnection, raise_for

logger = logging.getLogger(__name__)

NO_WRITE = "this login may write to no topic, and needs WRITE on the one that it writes to"

LAST_VERSION_WITH_NAMES = 12
LAST_VERSION_WITHOUT_ADDING = 11
"""From the next version on, leaders add partitions to transactions (KIP-890)."""
CONCURRENT_BACKOFF_MS = 20
"""Pause while the markers of the last transaction are being written, shorter than an election."""


class _Turn:
    """The place of a request in the order of requests to one node.

    ``before`` is the place of the previous request to the node, or None.
    """

    def __init__(self, node_id: int, before: "_Turn | None") -> None:
        self.node_id = node_id
        self.connection: RpcConnection | None = None  # once there is one
        self.has_begun = trio.Event()
        self.is_settled = trio.Event()
        self._before = before if before is not None and not before.is_settled.is_set() else None

    async def may_begin(self) -> None:
        """Wait until the previous request has begun."""
        if self._before is not None:
            await self._before.has_begun.wait()

    async def may_settle(self) -> None:
        """Wait until the batches of the previous request are settled or put back."""
        before, self._before = self._before, None
        if before is not None and not before.is_settled.is_set():
            await before.is_settled.wait()


class Sender:
    """Sends batches in one task. Another task per request waits for the response."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ProducerConfig,
        accumulator: Accumulator,
        sequences: Sequences | None,
        meter: ProducerMeter,
        *,
        on_leaderless: Callable[[TopicPartition], None] = lambda _: None,
        transactions: Transactions | None = None,
    ) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._is_announcing = False
        self.announce: Callable[[], Awaitable[None]] | None = (
            None  # adds partitions to the transaction
        )
        self._meter = meter
        self._quiet = QuietLogger(logger, self._now_ms)
        self._config = config
        self._accumulator = accumulator
        self._sequences = sequences
        self._in_flight: dict[int, int] = {}
        self._turns: dict[int, _Turn] = {}
        self._silent_since_ms: dict[
            int, int
        ] = {}  # by node, the time since which it owes a response
        self._requests: dict[_Turn, list[ProducerBatch]] = {}  # requests in flight
        self._seen_view = cluster.view
        self._asleep_until_ms = NEVER_MS
        self._expires_ms = NEVER_MS
        self._wakeup = trio.Event()
        self._settled = trio.Event()
        self._is_refresh_needed = False
        self._is_refreshing = False
        self._is_identifying = False
        self._on_leaderless = on_leaderless

    def __repr__(self) -> str:
        return f"<Sender in_flight={self._in_flight} {self._accumulator!r}>"

    @property
    def in_flight_count(self) -> int:
        """Number of requests without a response."""
        return sum(self._in_flight.values())

    def wake(self) -> None:
        """Check the queues again, because there may be a batch to send."""
        self._wakeup.set()

    def is_late_for(self, due_ms: int) -> bool:
        """Return whether the sender would sleep beyond ``due_ms``. Any thread may call this."""
        return due_ms < self._asleep_until_ms

    async def wait_settled(self) -> None:
        """Wait until the next time that a batch is settled."""
        await self._settled.wait()

    async def run(self) -> None:
        """Send batches forever, until the caller cancels."""
        async with trio.open_nursery() as nursery:
            while True:
                self._asleep_until_ms = (
                    NEVER_MS  # so a thread that adds a record meanwhile wakes it
                )
                self._asleep_until_ms = self._look(nursery)
                with trio.move_on_after(max(self._asleep_until_ms - self._now_ms(), 0) / 1_000):
                    await self._wakeup.wait()
                self._wakeup = trio.Event()

    def _look(self, nursery: trio.Nursery) -> int:
        """Send all batches that may be sent now, and return the time in ms of the next check."""
        now_ms = self._now_ms()
        if now_ms >= self._expires_ms:
            self._expire(now_ms)
        self._drop_doomed()
        if self._cluster.view is not self._seen_view:
            self._seen_view = self._cluster.view
            self._withdraw(now_ms)
        while True:
            drained = self._accumulator.drain(
                now_ms, self._cluster.view.leader_of, self._has_capacity
            )
            for node_id, batches in drained.requests.items():
                self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
                self._silent_since_ms.setdefault(node_id, now_ms)
                for batch in batches:
                    self._accumulator.seal(batch)
                    self._meter.note_sent(
                        batch.topic_partition.topic, batch.size_bytes, now_ms - batch.created_ms
                    )
                turn = _Turn(node_id, self._turns.get(node_id))
                self._turns[node_id] = turn
                self._requests[turn] = batches
                nursery.start_soon(self._send, batches, turn)
            if not drained.requests:
                break
        doubtful_ms = self._doubt_silent_nodes(now_ms)
        self._look_ahead(nursery, drained.leaderless)
        self._expires_ms = drained.expires_ms
        return min(drained.ready_ms, drained.expires_ms, doubtful_ms)

    def _withdraw(self, now_ms: int) -> None:
        """Put back batches in flight to a node that no longer leads their partition.

        This concerns only batches with sequence numbers. The node's responses to them are ignored.
        """
        for turn, batches in self._requests.items():
            for batch in batches.copy():
                leader_id = self._seen_view.leader_of(batch.topic_partition)
                if (
                    batch.has_sequence
                    and not batch.is_settled
                    and leader_id not in {NO_LEADER, turn.node_id}
                ):
                    batches.remove(batch)
                    self._meter.note_retry(batch.topic_partition.topic, batch.record_count)
                    self._accumulator.retry(batch, now_ms)

    def _doubt_silent_nodes(self, now_ms: int) -> int:
        """Request a metadata refresh if a node has not responded for ``SILENCE_MS``.

        Return the time in ms of the next check.
        """
        for node_id, since_ms in self._silent_since_ms.items():
            if now_ms - since_ms >= SILENCE_MS:
                self._silent_since_ms[node_id] = now_ms
                self._is_refresh_needed = True
        return min(self._silent_since_ms.values(), default=NEVER_MS - SILENCE_MS) + SILENCE_MS

    def give_up(self, error: KafkaError, *, is_in_flight_included: bool = False) -> None:
        """Fail all waiting batches, and with ``is_in_flight_included`` also those in flight.

        For those in flight it stays unknown whether the broker stored them.
        """
        for batch in self._accumulator.take_all(is_in_flight_included=is_in_flight_included):
            self._give_up(batch, error)
        self._notify_settled()

    def _give_up(self, batch: ProducerBatch, error: KafkaError) -> None:
        topic = batch.topic_partition.topic
        self._meter.note_settled(topic, batch.record_count, is_error=True)
        self._quiet.warning(
            (topic, error.code),
            "%d records of %s were given up: %s",
            batch.record_count,
            batch.topic_partition,
            error,
        )
        if self._transactions is not None:
            self._transactions.apply_error(Step.PRODUCE, error.code, str(error))
            self._wakeup.set()  # to drop other waiting batches of the transaction
        batch.fail(error)

    def _drop_doomed(self) -> None:
        """Fail the batches of a transaction that will not be committed.

        This concerns all waiting batches. It concerns those in flight after a fatal error, and with
        version 2 of the protocol, because its abort begins a new epoch. With version 1 their
        responses are awaited, because a leader could count a late batch to the next transaction.
        """
        transactions = self._transactions
        if transactions is None or not transactions.is_doomed or self._accumulator.is_empty:
            return
        is_all = transactions.is_version_2 or transactions.state is State.FATAL_ERROR
        error = transactions.doom()
        for batch in self._accumulator.take_all(is_in_flight_included=is_all):
            if batch.has_sequence:
                transactions.note_dropped()
            self._meter.note_settled(batch.topic_partition.topic, batch.record_count, is_error=True)
            batch.fail(error)
        self._notify_settled()

    # Sending

    async def _send(self, batches: list[ProducerBatch], turn: "_Turn") -> None:
        """Send one request to a node, and settle its batches with the response.

        Both wait for the previous request (``turn``), because the tasks of requests may wake up in
        any order.
        """
        node_id = turn.node_id
        failure: KafkaError | None = None
        responses: dict[TopicPartition, PartitionProduceResponse] = {}
        try:
            await turn.may_begin()
            responses = await self._exchange(batches, turn)
        except KafkaError as error:
            failure = error
        await turn.may_settle()
        del self._requests[turn]
        self._in_flight[node_id] -= 1
        if self._in_flight[node_id]:
            self._silent_since_ms[node_id] = self._now_ms()
        else:
            del self._silent_since_ms[node_id]
        for batch in batches:
            response = responses.get(batch.topic_partition)
            if failure is not None:
                self._apply(batch, failure.code, str(failure), None, turn)
            elif response is None:
                self._apply(
                    batch,
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "the response does not name the partition",
                    None,
                    turn,
                )
            else:
                self._apply(
                    batch, ErrorCode.of(response.error_code), refusal_text(response), response, turn
                )
        turn.is_settled.set()
        self._notify_settled()
        self._wakeup.set()

    async def _exchange(
        self, batches: list[ProducerBatch], turn: "_Turn"
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        try:
            connection = turn.connection = await self._cluster.node(turn.node_id)
            await connection.wait_unmuted()
        finally:
            # no other task runs before the request below is in the channel's queue
            turn.has_begun.set()
        self._hold_back(batches, connection)
        if not batches:
            return {}
        request, max_version = self._request(batches)
        if request.acks == 0:
            await connection.send_only(request, max_version=max_version)
            return {
                batch.topic_partition: PartitionProduceResponse(base_offset=NO_OFFSET)
                for batch in batches
            }
        # The view may have another id when the response arrives.
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        started_ms = self._now_ms()
        response = await connection.request(request, ProduceResponse, max_version=max_version)
        self._meter.note_request(
            started_ms, sum(batch.record_count for batch in batches), response.throttle_time_ms
        )
        results = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index): partition
            for topic in response.responses
            for partition in topic.partition_responses
        }
        for topic_partition, result in results.items():
            if result.error_code:
                self._cluster.learn_leader(
                    topic_partition, result.current_leader, response.node_endpoints
                )
        return results

    def _hold_back(self, batches: list[ProducerBatch], connection: RpcConnection) -> None:
        """Remove batches from a request, and put back those that could overtake an earlier batch.

        An earlier batch may have failed while the client connected, or be in flight over a new
        connection. The broker may refuse it, because it is not the leader yet. It would then accept
        the later batch if it does not know the producer in the partition, or lost that state.
        Batches that were given up while connecting are removed, too.
        """
        for batch in batches.copy():
            if batch.is_settled:
                batches.remove(batch)  # given up while connecting
            elif batch.has_sequence and not self._accumulator.queue_of(batch).may_leave(
                batch, connection
            ):
                batches.remove(batch)
                self._accumulator.hold_back(batch)

    def _request(self, batches: list[ProducerBatch]) -> tuple[ProduceRequest, int | None]:
        topics: dict[str, TopicProduceData] = {}
        max_version: int | None = None
        for batch in batches:
            name = batch.topic_partition.topic
            topic = topics.get(name)
            if topic is None:
                topic_id = self._cluster.view.topic_id_of(name)
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
                if topic_id == NO_TOPIC_ID:
                    max_version = LAST_VERSION_WITH_NAMES
            topic.partition_data.append(
                PartitionProduceData(index=batch.topic_partition.partition, records=batch.encoded())
            )
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.required_acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        if self._transactions is not None and not self._transactions.is_version_2:
            max_version = LAST_VERSION_WITHOUT_ADDING
        return request, max_version

    def _has_capacity(self, node_id: int) -> bool:
        return self._in_flight.get(node_id, 0) < self._config.max_in_flight_requests_per_connection

    # Responses

    def _apply(
        self,
        batch: ProducerBatch,
        code: ErrorCode,
        reason: str,
        response: PartitionProduceResponse | None,
        turn: _Turn,
    ) -> None:
        if batch.is_settled:
            return  # given up meanwhile
        accumulator = self._accumulator
        now_ms = self._now_ms()
        action = action_on(
            code,
            batch,
            is_first_outstanding=accumulator.queue_of(batch).is_first_outstanding(batch),
        )
        is_late = now_ms - batch.created_ms >= self._config.delivery_timeout_ms
        if action is BatchAction.COMPLETE:
            accumulator.settle(batch)
            if self._sequences is not None and batch.has_sequence:
                assert turn.connection is not None, "a response came over it"
                self._sequences.note_acknowledged(
                    accumulator.queue_of(batch).sequence, batch, turn.connection
                )
            self._meter.note_settled(
                batch.topic_partition.topic, batch.record_count, is_error=False
            )
            offset = (
                response.base_offset
                if response is not None and code is ErrorCode.NONE
                else NO_OFFSET
            )
            batch.complete(offset, -1 if response is None else response.log_append_time_ms)
            return
        is_leader_known = code in MOVED and self._cluster.has_other_leader(
            batch.topic_partition, turn.node_id
        )
        if code in MOVED and not is_leader_known:
            self._is_refresh_needed = True
        error = KafkaError(code, f"{batch.topic_partition}: {reason}")
        if action is BatchAction.FAIL or is_late:
            accumulator.settle(batch)
            self._give_up(batch, error)
            return
        if action is BatchAction.SPLIT:
            self._meter.note_split()
            accumulator.split(batch)
            return
        batch.last_error = error
        self._meter.note_retry(batch.topic_partition.topic, batch.record_count)
        self._quiet.info(("retry", code), "a batch is sent again: %s", error)
        pause_ms = 0 if is_leader_known else int(self._cluster.backoff_ms(batch.attempt_count - 1))
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            pause_ms = min(pause_ms, CONCURRENT_BACKOFF_MS)
        accumulator.retry(batch, now_ms + pause_ms)
        if action in {BatchAction.NUMBER_ANEW, BatchAction.NEW_IDENTITY}:
            self._number_anew(batch, is_identity_lost=action is BatchAction.NEW_IDENTITY)

    def _number_anew(self, batch: ProducerBatch, *, is_identity_lost: bool) -> None:
        assert self._sequences is not None, "only numbered batches get here"
        failed = ProducerIdentity(batch.producer_id, batch.producer_epoch)
        queue = self._accumulator.queue_of(batch)
        with self._accumulator.guarded():
            self._sequences.start_again(
                queue.sequence, [each for each in queue.waiting if each.has_sequence], failed
            )
            if is_identity_lost:
                self._sequences.forget_identity(failed.producer_id)

    def _expire(self, now_ms: int) -> None:
        expired = self._accumulator.expired(now_ms)
        for batch in expired:
            text = (
                f"{batch.topic_partition}: not delivered within {self._config.delivery_timeout_ms}"
                f" ms, {batch.attempt_count} attempts"
            )
            if batch.last_error is not None:
                text += f", the last: {batch.last_error}"
            failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
            failure.__cause__ = batch.last_error
            self._give_up(batch, failure)
        if expired:
            self._notify_settled()

    def _notify_settled(self) -> None:
        self._settled.set()
        self._settled = trio.Event()

    # Metadata that is needed before sending

    def _look_ahead(self, nursery: trio.Nursery, leaderless: list[TopicPartition]) -> None:
        """Start tasks for what sending needs next.

        They request a missing producer id, refresh missing or wrong leaders, and announce the
        partitions of a transaction. At most one task of each kind runs.
        """
        # A transactional id gets its producer id from the coordinator.
        own = self._sequences if self._transactions is None else None
        is_identity_missing = (
            own is not None and own.identity is None and not self._accumulator.is_empty
        )
        if (
            self._transactions is not None
            and self._transactions.is_announcement_due
            and not self._is_announcing
        ):
            self._is_announcing = True
            nursery.start_soon(self._announce)
        if is_identity_missing and not self._is_identifying:
            self._is_identifying = True
            nursery.start_soon(self._identify)
        for topic_partition in leaderless:
            self._on_leaderless(topic_partition)
            # The topic may not have been watched when the record came, because it was idle.
            self._cluster.watch((topic_partition.topic,))
        if (leaderless or self._is_refresh_needed) and not self._is_refreshing:
            self._is_refreshing = True
            nursery.start_soon(self._refresh)

    async def _announce(self) -> None:
        """Announce the partitions of the transaction to the coordinator.

        This happens before their first records are sent.
        """
        assert self.announce is not None, "a transactional producer says how"
        try:
            await self.announce()
        finally:
            self._is_announcing = False
            self._wakeup.set()

    async def _identify(self) -> None:
        """Get a producer id, with retries. If it is refused, give up the waiting batches.

        A later record requests it again.
        """
        assert self._sequences is not None, "only an idempotent producer has an identity"
        attempt = 0
        while self._sequences.identity is None:
            try:
                self._sequences.take_identity(await self._new_identity())
            except KafkaError as error:
                if not error.is_retriable:
                    logger.warning("no producer id: %s", error)
                    self.give_up(error)
                    break
                await trio.sleep(self._cluster.backoff_ms(attempt) / 1_000)
                attempt += 1
        self._is_identifying = False
        self._wakeup.set()

    async def _new_identity(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        response = await self._cluster.ask_any(request, InitProducerIdResponse)
        code = ErrorCode.of(response.error_code)
        text = f"{code.name}: {NO_WRITE}" if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else ""
        raise_for(code, text, "InitProducerId")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _refresh(self) -> None:
        """Refresh the view once, then pause so that the next refresh does not follow at once."""
        try:
            self._is_refresh_needed = False
            await self._cluster.refresh()
        except KafkaError:
            self._is_refresh_needed = True
        self._wakeup.set()
        await trio.sleep(self._cluster.backoff_ms(0) / 1_000)
        self._is_refreshing = False
        self._wakeup.set()

    def _now_ms(self) -> int:
        return self._cluster.env.clock.monotonic_ms()


def refusal_text(response: PartitionProduceResponse) -> str:
    """Return the reason why a batch was refused: the error message or the code's name.

    The first errors of single records are added, unless the message has them already.
    """
    text = response.error_message or ErrorCode.of(response.error_code).name
    rejected = [
        f"record {each.batch_index}: {each.batch_index_error_message}"
        for each in response.record_errors[:3]
        if (each.batch_index_error_message or "") not in text
    ]
    return f"{text} ({'; '.join(rejected)})" if rejected else text
