"""The producer for programs on asyncio.

``send`` puts a record into its batch on the event loop, through a ``SharedIntake``. It needs the
client's thread only if there is no room or the topic is unknown. Everything else is one call
through a ``Bridge``.

Invariants: ``send`` awaits nothing between taking a record and returning its receipt. So a
cancelled ``send`` has not taken the record. Records of one task keep their order. Tasks that wait
for room are served in the order in which they came. Leaving the ``async with`` block delivers all
records, or raises.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import repeat
from types import TracebackType
from typing import Any, NamedTuple, Self

from log_service.client import arguments
from log_service.client.asyncio.calls import OnAsyncio, awaited, awaited_sync
from log_service.client.asyncio.settlements import Settlements
from log_service.client.producer.delivery import (
    Delivery,
    DeliveryCallback,
    ProducerBatch,
    RecordMetadata,
)
from log_service.client.producer.interception import checked_headers, to_bytes
from log_service.client.producer.producer import Producer
from log_service.client.producer.shared_intake import SharedIntake, Unplaced
from log_service.records.record import RecordHeader

_new = tuple.__new__


class AsyncioDelivery(NamedTuple):
    """The receipt of one record: a future of its metadata.

    It is a tuple, because one is made for every record, and tuples are cheap to make.
    """

    batch: ProducerBatch
    record_index: int
    timestamp_ms: int
    settlements: Settlements

    def __repr__(self) -> str:
        return f"<Asyncio{repr(self.delivery).removeprefix('<')}"

    @property
    def delivery(self) -> Delivery:
        """The same receipt in the form that the producer's own thread uses."""
        return Delivery(self.batch, self.record_index, self.timestamp_ms)

    @property
    def is_done(self) -> bool:
        """Whether the record was delivered or given up."""
        return self.delivery.is_done

    async def wait(self) -> RecordMetadata:
        """Wait until the record is acknowledged, and return its metadata.

        It may be called after closing. A cancelled wait does not cancel the delivery. All tasks
        that wait for records of one batch wake up together.

        Raises:
            KafkaError: the record was not delivered.
        """
        while True:
            batch, index = self.batch.part_of(self.record_index)
            if batch.is_settled:
                return batch.metadata_of(index, self.timestamp_ms)
            await self.settlements.wait_changed(batch)


_new_receipt = partial(_new, AsyncioDelivery)


class AsyncioProducer(OnAsyncio[Producer]):
    """``Producer`` for tasks on asyncio. Settings are those of ``Producer``.

    Interceptors, serializers, partitioner and delivery callbacks run on the event loop.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        producer = Producer(bootstrap_servers, is_shared=True, **settings)
        super().__init__(producer)
        self._producer = producer
        self._intake = SharedIntake(
            producer, require_open=self._bridge.require_loop, submit=self._portal.submit
        )
        self._settlements = Settlements(self._bridge)
        self._room = asyncio.Lock()
        self._queued_count = 0
        self._is_pause_due = False

    async def __aenter__(self) -> Self:
        await self._bridge.open(on_end=self._settlements.wake_all)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()  # another task may be closing it too
        else:
            await super().__aexit__(kind, error, trace)

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
    ) -> AsyncioDelivery:
        """Take a record and return its receipt.

        It waits only while the buffer is full, or if a topic is used for the first time. It also
        lets other tasks run once for each new batch. A cancelled call has not taken the record.

        Raises:
            KafkaError: as ``Producer.send``. The receipt raises errors that occur later.
            TypeError: as ``Producer.send``.
        """
        if self._is_pause_due:
            self._is_pause_due = False
            await asyncio.sleep(0)
        if on_delivery is not None:
            on_delivery = self._settlements.reporting(on_delivery, topic)
        is_queued = self._queued_count > 0
        taken = self._intake.take(
            topic, value, key, headers, timestamp_ms, partition, on_delivery, is_queued=is_queued
        )
        if type(taken) is Unplaced:
            taken = await self._place_late(taken)
        if not taken[1]:
            self._is_pause_due = True
        return _new(AsyncioDelivery, (*taken, self._settlements))

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        headers: Iterable[RecordHeader] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> list[AsyncioDelivery]:
        """Take many values without keys, and return their receipts in order.

        It is several times as fast as ``send`` for each value. Without ``partition``, whole batches
        go to one partition after the other. Raises as ``send``. If it raises or is cancelled,
        earlier values stay taken.
        """
        intake, settlements = self._intake, self._settlements
        is_run = intake.is_run_possible
        given = arguments.values(values)
        contents = [to_bytes(value) for value in given] if is_run else list(given)
        pairs = checked_headers(headers)
        reporting = None if on_delivery is None else settlements.reporting(on_delivery, topic)
        receipts: list[AsyncioDelivery] = []
        while len(receipts) < len(contents):
            content = contents[len(receipts)]
            receipt = await self.send(
                topic,
                content,
                headers=pairs,
                timestamp_ms=timestamp_ms,
                partition=partition,
                on_delivery=on_delivery,
            )
            receipts.append(receipt)
            if is_run:
                placed = intake.place_run(
                    receipt.delivery, contents, len(receipts), pairs, reporting
                )
                receipts += map(
                    _new_receipt,
                    zip(
                        repeat(receipt.batch),
                        placed,
                        repeat(receipt.timestamp_ms),
                        repeat(settlements),
                    ),
                )
        return receipts

    flush = awaited(Producer.flush)
    partitions_for = awaited(Producer.partitions_for)
    metrics = awaited_sync(Producer.metrics)
    init_transactions = awaited(Producer.init_transactions)
    send_offsets_to_transaction = awaited(Producer.send_offsets_to_transaction)
    commit_transaction = awaited(Producer.commit_transaction)
    abort_transaction = awaited(Producer.abort_transaction)

    async def begin_transaction(self) -> None:
        """Begin a transaction, as ``Producer.begin_transaction``.

        If the task is cancelled after the transaction began, the transaction is aborted.
        """
        begun: list[None] = []
        try:
            await self._bridge.call(self._producer.begin_transaction, begun.append)
        except asyncio.CancelledError:
            if begun and not self._producer.is_closed:
                self._portal.post(self._producer.transactor.abort_soon)
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run one transaction: ``async with producer.transaction():``.

        The end of the block commits, and an exception aborts. Records that any task sends during
        the block are part of the transaction. If the block is cancelled, the transaction is aborted
        in the background. Raises as ``Producer.transaction``.
        """
        await self.begin_transaction()
        transactor = self._producer.transactor
        try:
            yield
        except Exception:
            if self._bridge.is_usable:
                await self._bridge.call(transactor.abort_quietly)
            raise
        except BaseException:
            self._portal.post(transactor.abort_soon)
            raise
        await self._bridge.call(transactor.finish)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver the waiting ones, and fail the rest. Idempotent.

        Delivery may take ``timeout_ms`` (default: the delivery timeout). It may be called from any
        event loop. From a loop other than the producer's own, ``timeout_ms`` has no effect.
        """
        try:
            if self._bridge.is_usable:
                await self._bridge.call(partial(self._producer.close, timeout_ms))
        finally:
            await super().close()

    async def _place_late(self, record: Unplaced) -> Delivery:
        """Wait for the topic and then for room, place the record, and return its receipt.

        All of it takes up to ``max_block_ms``. Tasks get room in the order in which they came. No
        batch lingers while a task waits for room.
        """
        producer = self._producer
        started_ms, limit_ms = producer.monotonic_ms(), producer.config.max_block_ms
        view = producer.cluster.view.topics.get(record.topic)
        if view is None or not view.has(record.partition):
            view = await self._bridge.call(
                partial(producer.find_topic, record.topic, record.partition)
            )
            limit_ms = max(limit_ms - (producer.monotonic_ms() - started_ms), 0)
        deadline = asyncio.timeout(limit_ms / 1_000)
        self._queued_count += 1
        try:
            async with deadline, self._room:
                while (delivery := self._intake.place(record, view)) is None:
                    await self._bridge.call(
                        partial(
                            producer.wait_for_room, record.size_bytes, producer.config.max_block_ms
                        )
                    )
        except TimeoutError:
            if not deadline.expired():
                raise  # not the timeout of this deadline
            raise producer.no_room(record.size_bytes, limit_ms) from None
        finally:
            self._queued_count -= 1
        return delivery
