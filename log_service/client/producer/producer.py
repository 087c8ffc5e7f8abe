"""The producer takes records and returns receipts, which are futures of the results.

Decides when ``send`` waits: for room, or for a topic or partition that is still unknown. ``intake``
puts a record into a batch. ``accumulator`` holds the batches, ``sender`` sends and retries,
``sequences`` numbers them.

Invariants: every record that was taken is settled, with metadata or an error, also when the
producer closes. ``buffer_memory`` limits the waiting records. A closed producer takes no record. A
transactional producer takes a record only inside a transaction.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import trio

from log_service.client import arguments
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.connections.cluster_view import TopicView
from log_service.client.connections.env import real_env
from log_service.client.metrics import ProducerMeter, ProducerMetrics
from log_service.client.producer.accumulator import NEVER_MS, Accumulator
from log_service.client.producer.delivery import Delivery, DeliveryCallback
from log_service.client.producer.intake import Intake
from log_service.client.producer.interception import (
    ProducerInterceptor,
    Serializer,
    checked_headers,
    to_bytes,
)
from log_service.client.producer.partitioning import Partitioner
from log_service.client.producer.sender import Sender
from log_service.client.producer.sequences import Sequences
from log_service.client.producer.shared_accumulator import SharedAccumulator
from log_service.client.producer.transaction_state import Call, Transactions
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.client import ProducerConfig
from log_service.records.record import RecordHeader
from log_service.security.outgoing import outgoing_security

if TYPE_CHECKING:
    from log_service.client.admin.values import ConsumerGroupMetadata, OffsetAndMetadata
    from log_service.client.producer.transactor import Transactor


class Producer:
    """Sends records to a cluster. ``async with`` opens and closes it.

    The keywords are the settings of ``ProducerConfig``. ``partitioner`` may choose partitions.
    Serializers turn keys and values into bytes. Without a serializer, keys and values must be
    bytes, text (stored as UTF-8) or None (stored as null). ``interceptors`` see each record before
    the serializers do. None of these may be async. ``send`` raises their exceptions, and has then
    not taken the record.

    With ``transactional_id`` every record is part of a transaction. Call ``init_transactions``
    once, then use ``async with producer.transaction():`` for each transaction (KIP-98, KIP-890).

    Raises:
        ConfigError: a setting does not exist or is out of bounds.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        partitioner: Partitioner | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        interceptors: Iterable[ProducerInterceptor] = (),
        env: Env | None = None,
        is_shared: bool = False,
        **settings: Any,
    ) -> None:
        self.config = ProducerConfig.of(bootstrap_servers, settings)
        self._env = env or real_env()
        self._security = outgoing_security(self.config.security(), self._env.rng)
        self.wall_ms = self._env.clock.wall_ms
        self.monotonic_ms = self._env.clock.monotonic_ms
        self._meter = ProducerMeter(self.monotonic_ms, self.config.enable_metrics)
        self._sequences = Sequences() if self.config.enable_idempotence else None
        self._transactor: Transactor | None = None
        self._transactions: Transactions | None = None
        if self.config.transactional_id is not None:
            self._transactions = Transactions(self.config.transactional_id, self._note_taking)
        kind = SharedAccumulator if is_shared else Accumulator
        self.accumulator = kind(self.config, self._sequences, self.monotonic_ms, self._transactions)
        self.intake = Intake(
            self.config,
            self.accumulator,
            partitioner=partitioner,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            interceptors=interceptors,
            rng=self._env.rng,
            wall_ms=self.wall_ms,
        )
        # Bound methods are kept, because they are called for every record.
        self._size_of, self._place = self.intake.size_of, self.intake.place
        self._stack = AsyncExitStack()
        self._blocked_count = 0
        self.is_closed = self._is_settled = True
        self.is_barred = True  # takes no records: closed, or outside a transaction
        self._is_yield_due = False
        self._yield_ms = 0

    def __repr__(self) -> str:
        return (
            f"<Producer {'closed' if self.is_closed else 'open'}"
            f" buffered={self.accumulator.buffered_bytes}>"
        )

    async def __aenter__(self) -> Self:
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self.cluster = ClusterMetadata(
            self._env,
            self.config,
            self._nursery,
            security=self._security,
            is_auto_create_allowed=True,
            is_idle=self.accumulator.is_idle,
        )
        self._sender = Sender(
            self.cluster,
            self.config,
            self.accumulator,
            self._sequences,
            self._meter,
            on_leaderless=self.intake.leave,
            transactions=self._transactions,
        )
        if self._transactions is not None and self._sequences is not None:
            self._transactor = self._open_transactor(self._transactions, self._sequences)
        self._nursery.start_soon(self._sender.run)
        self._nursery.start_soon(self.cluster.keep_fresh)
        self.is_closed = self._is_settled = False
        self._note_taking()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close(timeout_ms=self._patience_ms(error))
        finally:
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()  # without the exception, which the nursery would wrap

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Iterable[RecordHeader] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Take a record and return its receipt.

        It waits only while the buffer is full, or while topic or partition are unknown. A cancelled
        call has not taken the record. ``timestamp_ms`` None uses the producer's clock.
        ``timestamp_ms`` -1 makes a record without a timestamp, for copies of such records.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, no room within ``max_block_ms``.
                UNKNOWN_TOPIC_OR_PARTITION, no such topic or no such partition within that time.
                MESSAGE_TOO_LARGE, larger than ``max_request_size``. INVALID_REQUEST, the producer
                is closed. INVALID_TXN_STATE, the producer has a ``transactional_id`` and no
                transaction is open.
            TransactionAbortable, ProducerFailed: the open transaction, or the producer, has failed.
            TypeError: key, value, headers, timestamp, partition or on_delivery has a wrong type.
            Exception: an exception of an interceptor, a serializer or the partitioner.
        """
        intake = self.intake
        if not (intake.is_plain and type(value) is bytes and (key is None or type(key) is bytes)):
            topic, value, key, headers, timestamp_ms, partition = intake.prepared(
                topic, value, key, headers, timestamp_ms, partition
            )
        pairs = checked_headers(headers) if headers else ()
        return await self._take(topic, value, key, pairs, timestamp_ms, partition, on_delivery)

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Iterable[RecordHeader] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Take a record without waiting, otherwise as ``send``.

        Raises ``trio.WouldBlock`` if ``send`` would wait.
        """
        intake = self.intake
        if not (intake.is_plain and type(value) is bytes and (key is None or type(key) is bytes)):
            topic, value, key, headers, timestamp_ms, partition = intake.prepared(
                topic, value, key, headers, timestamp_ms, partition
            )
        pairs = checked_headers(headers) if headers else ()
        size_bytes = intake.size_of(key, value, pairs)
        view = self.cluster.view.topics.get(topic) if not self.is_barred else None
        if view is None or not view.has(partition) or not self.accumulator.has_room_for(size_bytes):
            self._require_taking()
            raise trio.WouldBlock
        return self._append(
            view, partition, key, value, pairs, timestamp_ms, size_bytes, on_delivery
        )

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        headers: Iterable[RecordHeader] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> list[Delivery]:
        """Take many values without keys and return their receipts in order.

        It is several times as fast as ``send`` for each value. Without ``partition``, whole batches
        go to one partition after the other. Raises as ``send``. If it raises, the values before the
        failed one stay taken.
        """
        pairs = checked_headers(headers)
        if not self.intake.is_run_possible:
            each = {
                "headers": pairs,
                "timestamp_ms": timestamp_ms,
                "partition": partition,
                "on_delivery": on_delivery,
            }
            return [await self.send(topic, value, **each) for value in arguments.values(values)]  # type: ignore[arg-type]
        contents = [to_bytes(value) for value in arguments.values(values)]
        deliveries: list[Delivery] = []
        while len(deliveries) < len(contents):
            first = await self._take(
                topic, contents[len(deliveries)], None, pairs, timestamp_ms, partition, on_delivery
            )
            deliveries.append(first)
            deliveries += first.behind(
                self.intake.place_run(first, contents, len(deliveries), pairs, on_delivery)
            )
            if first.batch.is_closed:
                self._sender.wake()
            await trio.lowlevel.checkpoint()
        return deliveries

    async def partitions_for(self, topic: str) -> int:
        """Return the partition count of a topic. Raises as ``send``."""
        self._require_open()
        return (
            await self.cluster.topic(
                topic, self.config.max_block_ms, before_attempt=self._require_open
            )
        ).partition_count

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send all waiting records now, and return when every record taken so far is settled.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, ``timeout_ms`` passed first. The records are still sent.
            ValueError: ``timeout_ms`` is negative.
        """
        with trio.move_on_after(arguments.limit_s(timeout_ms)), self.accumulator.urgent():
            for batch in self.accumulator.unsettled():
                self._sender.wake()
                while not batch.is_fully_settled:
                    await batch.next_unsettled().changed().wait()
            return
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"not everything was delivered within {timeout_ms} ms"
        )

    async def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver the waiting ones, and fail the rest. Idempotent.

        Delivery may take ``timeout_ms`` (default: the delivery timeout). An open transaction is
        aborted. If several tasks close, each waits until all records are settled. A cancelled close
        fails the rest at once.

        Raises:
            ValueError: ``timeout_ms`` is negative. The producer stays open.
        """
        limit_ms = self.config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        seconds = arguments.limit_s(limit_ms)
        if self._is_settled:
            return
        with self.accumulator.guarded():
            self.is_closed = True  # threads that append check it under the same guard
            self._note_taking()
        patience = trio.move_on_after(seconds)
        try:
            with patience:
                if self._transactor is not None:
                    await self._transactor.abort_quietly()
                await self.flush()
        finally:
            reason = (
                f"{limit_ms} ms did not suffice to deliver"
                if patience.cancelled_caught
                else "closing it was cancelled"
            )
            text = f"the producer was closed, and {reason}"
            self._sender.give_up(
                KafkaError(ErrorCode.REQUEST_TIMED_OUT, text), is_in_flight_included=True
            )
            self.accumulator.wake_all()
            self._is_settled = True

    def metrics(self) -> ProducerMetrics:
        """Return the metrics of the producer so far; see the module ``client.metrics``."""
        return self._meter.metrics(
            self.cluster.metrics(),
            in_flight=self._sender.in_flight_count,
            waiting=self._blocked_count + self.accumulator.waiting_thread_count,
            buffer_total_bytes=self.config.buffer_memory,
            buffered_bytes=self.accumulator.buffered_bytes,
        )

    # Transactions

    @property
    def transactor(self) -> "Transactor":
        """The object that runs this producer's transactions.

        Raises:
            KafkaError: INVALID_REQUEST, the producer is closed, or has no ``transactional_id``.
        """
        if self.config.transactional_id is None:
            text = "the producer has no transactional_id: give it one to use transactions"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        self._require_open()
        assert self._transactor is not None, "it was made when the producer was opened"
        return self._transactor

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Claim the ``transactional_id`` for this producer, once, before its first transaction.

        An earlier producer with the same id is fenced. Its open transaction is aborted, but a
        transaction whose commit has begun is committed. The call waits for this up to
        ``timeout_ms`` (default ``max_block_ms``).

        Raises:
            ProducerFailed: the user may not use the id, or ``transaction_timeout_ms`` is above the
                limit of the brokers.
            KafkaError: REQUEST_TIMED_OUT and others, the coordinator was not ready in time. Call it
                again. INVALID_REQUEST, there is no ``transactional_id``. INVALID_TXN_STATE, it was
                called before.
        """
        await self.transactor.init(self._block_ms(timeout_ms))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run one transaction: ``async with producer.transaction():``.

        It is committed at the end of the block, and aborted if an exception leaves the block.

        Raises:
            TransactionAbortable: the transaction could not be committed, and is aborted. Read the
                input again, and do the work again.
            ProducerFenced, ProducerFailed: this producer can do nothing more.
            KafkaError: REQUEST_TIMED_OUT and others, the outcome of the commit is not known. A call
                of ``commit_transaction`` finds it out.
        """
        await self.begin_transaction()
        transactor = self.transactor
        try:
            yield
        except Exception:
            await transactor.abort_quietly()
            raise
        except BaseException:
            transactor.abort_soon()
            raise
        await transactor.finish()

    async def begin_transaction(self) -> None:
        """Begin a transaction for the following records.

        Prefer ``transaction``, which begins and ends one.

        Raises:
            ProducerFenced, ProducerFailed: this producer can do nothing more.
            KafkaError: INVALID_TXN_STATE, another transaction is open, or ``init_transactions`` was
                not called.
        """
        await self.transactor.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: "Mapping[TopicPartition, OffsetAndMetadata | int]",
        group_metadata: "ConsumerGroupMetadata",
        timeout_ms: int | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction.

        Pass ``consumer.consumed()`` and ``consumer.group_metadata()``. The consumer must have
        ``enable_auto_commit=False`` and must never commit itself.

        Raises:
            TransactionAbortable: the offsets are not in the transaction, for example because the
                group rebalanced without the consumer. Abort it.
            ProducerFenced, ProducerFailed: this producer can do nothing more.
            KafkaError: INVALID_TXN_STATE, no transaction is open. Others, not done within
                ``timeout_ms`` (default ``max_block_ms``).
            TypeError, ValueError: a partition, an offset or ``group_metadata`` is not valid.
        """
        await self.transactor.send_offsets(offsets, group_metadata, self._block_ms(timeout_ms))

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Deliver waiting records, then commit. It may be called again after a timeout.

        Readers of committed records then see the whole transaction. ``timeout_ms`` bounds the whole
        call. By default records have their ``delivery_timeout_ms``, and the commit
        ``max_block_ms``.

        Raises:
            TransactionAbortable: a record or the offsets failed. Abort it.
            ProducerFenced, ProducerFailed: this producer can do nothing more.
            KafkaError: INVALID_TXN_STATE, no transaction is open. REQUEST_TIMED_OUT and others, the
                outcome of the commit is not known.
        """
        arguments.limit_s(timeout_ms)  # an invalid timeout must change nothing
        await self.transactor.commit(timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction. Readers of committed records see none of its records.

        Waiting records are dropped, and their receipts raise an error. After ``timeout_ms``
        (default ``max_block_ms``) it may be called again.

        Raises:
            ProducerFenced, ProducerFailed: this producer can do nothing more. The coordinator has
                aborted the transaction, or will.
            KafkaError: INVALID_TXN_STATE, no transaction is open. REQUEST_TIMED_OUT and others,
                call it again.
        """
        await self.transactor.abort(self._block_ms(timeout_ms))

    def require_transaction(self) -> None:
        """Check that records may be sent: a transactional producer needs an open transaction.

        Raises as ``send``.
        """
        if self._transactions is not None:
            self._transactions.require(Call.SEND)

    # Take one serialized record

    async def _take(  # noqa: PLR0917 - called for every record, where keywords cost
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: tuple[RecordHeader, ...],
        timestamp_ms: int | None,
        partition: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> Delivery:
        """Append a record with serialized key and value. ``send`` describes the arguments.

        A cancelled call has not appended the record.
        """
        if self._is_yield_due:
            self._is_yield_due = False
            await trio.lowlevel.checkpoint()
        size_bytes = self._size_of(key, value, headers)
        view = self.cluster.view.topics.get(topic) if not self.is_barred else None
        limit_ms = self.config.max_block_ms
        if view is None or (partition is not None and not view.has(partition)):
            started_ms = self.monotonic_ms()
            view = await self.find_topic(topic, partition)
            self._require_taking()
            limit_ms = max(limit_ms - (self.monotonic_ms() - started_ms), 0)
        if not self.accumulator.has_room_for(size_bytes):
            await self.wait_for_room(size_bytes, limit_ms)
        return self._append(
            view, partition, key, value, headers, timestamp_ms, size_bytes, on_delivery
        )

    def _append(  # noqa: PLR0917 - called for every record, where keywords cost
        self,
        view: TopicView,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[RecordHeader, ...],
        timestamp_ms: int | None,
        size_bytes: int,
        on_delivery: DeliveryCallback | None,
    ) -> Delivery:
        delivery, due_ms = self._place(
            view, partition, key, value, headers, timestamp_ms, size_bytes, on_delivery
        )
        if due_ms < NEVER_MS and self._sender.is_late_for(due_ms):
            self._sender.wake()
        now_ms = self.monotonic_ms()
        if due_ms <= now_ms or now_ms >= self._yield_ms:
            # A loop that only sends must yield to the sender: when a batch is due, and every
            # linger_ms.
            self._is_yield_due = True
            self._yield_ms = now_ms + self.config.linger_ms
        return delivery

    def is_sender_late_for(self, due_ms: int) -> bool:
        """Return whether the sender must be woken to act at ``due_ms``.

        Any thread may call this.
        """
        return due_ms < NEVER_MS and self._sender.is_late_for(due_ms)

    def wake_sender(self) -> None:
        """Make the sender check the queues."""
        self._sender.wake()

    async def find_topic(self, topic: str, partition: int | None) -> TopicView:
        """Return a topic that has that partition. Raises as ``send``.

        Waits up to ``max_block_ms`` for topic and partition to appear.
        """
        self._require_taking()
        left_ms = self.cluster.countdown(self.config.max_block_ms)
        view = await self.cluster.topic(topic, left_ms(), before_attempt=self._require_open)
        if partition is None or view.has(partition):
            return view
        if index(partition) < 0:
            raise _no_partition(view, partition)

        async def attempt() -> TopicView:
            self._require_open()
            found = (await self.cluster.refresh([topic])).topics.get(topic, view)
            if not found.has(partition):
                raise _no_partition(found, partition)
            return found

        return await self.cluster.retry(attempt, left_ms(), is_refreshing=False)

    async def wait_for_room(self, size_bytes: int, limit_ms: int) -> None:
        """Wait until the buffer has room for ``size_bytes``. No batch lingers meanwhile.

        Raises KafkaError (REQUEST_TIMED_OUT) after ``limit_ms``.
        """
        self._blocked_count += 1
        try:
            with self.accumulator.urgent(), trio.move_on_after(limit_ms / 1_000):
                self._sender.wake()
                while not self.accumulator.has_room_for(size_bytes):
                    await self._sender.wait_settled()
                    self._require_taking()
                return
        finally:
            self._blocked_count -= 1
        raise self.no_room(size_bytes, limit_ms)

    def no_room(self, size_bytes: int, limit_ms: int) -> KafkaError:
        """Return the error for a record that the buffer had no room for within ``limit_ms``."""
        text = (
            f"no room for {size_bytes} bytes within {limit_ms} ms: buffer_memory"
            f" {self.config.buffer_memory} is full"
        )
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)

    def _patience_ms(self, error: BaseException | None) -> int:
        """Return the time limit in ms for closing after ``error`` left the ``async with`` block.

        It is the delivery timeout without an error, the request timeout after an exception, and
        zero after a cancellation.
        """
        if error is None:
            return self.config.delivery_timeout_ms
        return self.config.request_timeout_ms if isinstance(error, Exception) else 0

    def _open_transactor(self, transactions: Transactions, sequences: Sequences) -> "Transactor":
        from log_service.client.producer.transactor import (  # noqa: PLC0415 - a producer without transactions needs no admin
            Transactor,
        )

        transactor = Transactor(
            self.cluster,
            self.config,
            transactions,
            sequences=sequences,
            accumulator=self.accumulator,
            sender=self._sender,
            deliver=self.flush,
            nursery=self._nursery,
        )
        self._sender.announce = transactor.announce
        return transactor

    def _block_ms(self, timeout_ms: int | None) -> int:
        arguments.limit_s(timeout_ms)
        return self.config.max_block_ms if timeout_ms is None else timeout_ms

    def _note_taking(self) -> None:
        self.is_barred = self.is_closed or (
            self._transactions is not None and not self._transactions.is_open
        )

    def _require_taking(self) -> None:
        self._require_open()
        self.require_transaction()

    def _require_open(self) -> None:
        if self.is_closed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the producer is closed: use it inside 'async with'"
            )


def _no_partition(topic: TopicView, partition: int) -> KafkaError:
    text = f"topic {topic.name!r} has partitions 0 to {len(topic.partitions) - 1}, not {partition}"
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
