"""The producer for programs without an event loop. Any thread may use it.

Each thread puts its records into the batches itself, through a ``SharedIntake``. Everything else is
one call through a ``Portal``.

Invariants: records of one thread keep their order. ``buffer_memory`` limits the waiting records of
all threads together. Leaving the ``with`` block delivers all records, or raises.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from types import TracebackType
from typing import Any, NamedTuple

import trio

from log_service.client import arguments
from log_service.client.blocking.calls import Blocking, blocking
from log_service.client.metrics import ProducerMetrics
from log_service.client.portal import Portal
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


class BlockingDelivery(NamedTuple):
    """The receipt of one record: a future of its metadata.

    It is a tuple, because one is made for every record, and tuples are cheap to make.
    """

    batch: ProducerBatch
    record_index: int
    timestamp_ms: int
    portal: Portal[Producer]

    def __repr__(self) -> str:
        return f"<Blocking{repr(self.delivery).removeprefix('<')}"

    @property
    def delivery(self) -> Delivery:
        """The same receipt in the form that the producer's own thread uses."""
        return Delivery(self.batch, self.record_index, self.timestamp_ms)

    @property
    def is_done(self) -> bool:
        """Whether the record was delivered or given up."""
        return self.delivery.is_done

    def wait(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged, and return its metadata.

        Any thread may call it, also after closing.

        Raises:
            KafkaError: the record was not delivered.
            TimeoutError: ``timeout_ms`` passed first.
        """
        delivery = self.delivery
        if delivery.is_done:
            return delivery.result()
        return self.portal.call(partial(self._wait, timeout_ms))

    async def _wait(self, timeout_ms: int | None) -> RecordMetadata:
        with trio.move_on_after(float("inf") if timeout_ms is None else timeout_ms / 1_000):
            return await self.delivery.wait()
        raise TimeoutError(f"not delivered within {timeout_ms} ms")


_new_receipt = partial(_new, BlockingDelivery)


class BlockingProducer(Blocking[Producer]):
    """``Producer`` for threads. Settings are those of ``Producer``.

    Interceptors, serializers and partitioner run in the threads that send. Delivery callbacks run
    in the producer's own thread and must not block it. They may ``send`` if there is room, but must
    not wait for anything.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        producer = Producer(bootstrap_servers, is_shared=True, **settings)
        super().__init__(producer)
        self._producer = producer
        self._intake = SharedIntake(
            producer, require_open=self._portal.require_open, submit=self._portal.submit
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()  # another thread may be closing it too
        else:
            super().__exit__(kind, error, trace)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Iterable[RecordHeader] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> BlockingDelivery:
        """Take a record and return its receipt.

        It waits only while the buffer is full, or if a topic is used for the first time.

        Raises:
            KafkaError: as ``Producer.send``. The receipt raises errors that occur later.
            TypeError: as ``Producer.send``.
        """
        taken = self._intake.take(topic, value, key, headers, timestamp_ms, partition, on_delivery)
        if type(taken) is Unplaced:
            taken = self._place_late(taken)
        return _new(BlockingDelivery, (*taken, self._portal))

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        headers: Iterable[RecordHeader] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> list[BlockingDelivery]:
        """Take many values without keys, and return their receipts in order.

        It is several times as fast as ``send`` for each value. Without ``partition``, whole batches
        go to one partition after the other. Raises as ``send``. If it raises, earlier values stay
        taken.
        """
        intake, portal = self._intake, self._portal
        is_run = intake.is_run_possible
        given = arguments.values(values)
        contents = [to_bytes(value) for value in given] if is_run else list(given)
        pairs = checked_headers(headers)
        receipts: list[BlockingDelivery] = []
        while len(receipts) < len(contents):
            content = contents[len(receipts)]
            receipt = self.send(
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
                    receipt.delivery, contents, len(receipts), pairs, on_delivery
                )
                receipts += map(
                    _new_receipt,
                    zip(
                        repeat(receipt.batch), placed, repeat(receipt.timestamp_ms), repeat(portal)
                    ),
                )
        return receipts

    flush = blocking(Producer.flush)
    partitions_for = blocking(Producer.partitions_for)
    init_transactions = blocking(Producer.init_transactions)
    send_offsets_to_transaction = blocking(Producer.send_offsets_to_transaction)
    commit_transaction = blocking(Producer.commit_transaction)
    abort_transaction = blocking(Producer.abort_transaction)

    def begin_transaction(self) -> None:
        """Begin a transaction, as ``Producer.begin_transaction``.

        If Ctrl-C arrives after the transaction began, the transaction is aborted.
        """
        begun: list[None] = []

        async def begin() -> None:
            await self._producer.begin_transaction()
            begun.append(None)

        try:
            self._portal.call(begin)
        except BaseException:
            if begun and not self._producer.is_closed:
                self._portal.post(self._producer.transactor.abort_soon)
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run one transaction: ``with producer.transaction():``.

        The end of the block commits, and an exception aborts. Records that any thread sends during
        the block are part of the transaction. Raises as ``Producer.transaction``.
        """
        self.begin_transaction()
        transactor = self._producer.transactor
        try:
            yield
        except Exception:
            if self.is_open:
                self._portal.call(transactor.abort_quietly)
            raise
        except BaseException:
            self._portal.post(transactor.abort_soon)
            raise
        self._portal.call(transactor.finish)

    def metrics(self) -> ProducerMetrics:
        """Return the metrics of the producer so far; see the module ``client.metrics``."""
        return self._portal.call_sync(self._producer.metrics)

    def close(self, timeout_ms: int | None = None) -> None:
        """Take no more records, deliver the waiting ones, and fail the rest. Idempotent.

        Delivery may take ``timeout_ms`` (default: the delivery timeout).
        """
        try:
            if self.is_open:
                self._portal.call(partial(self._producer.close, timeout_ms))
        finally:
            super().close()

    def _place_late(self, record: Unplaced) -> Delivery:
        """Wait for the topic and then for room, place the record, and return its receipt.

        All of it takes up to ``max_block_ms``. No batch lingers while a thread waits for room.
        """
        producer, accumulator = self._producer, self._intake.accumulator
        started_ms, limit_ms = producer.monotonic_ms(), producer.config.max_block_ms
        view = producer.cluster.view.topics.get(record.topic)
        if view is None or not view.has(record.partition):
            view = self._portal.call(partial(producer.find_topic, record.topic, record.partition))
            limit_ms = max(limit_ms - (producer.monotonic_ms() - started_ms), 0)
        with accumulator.lock:
            delivery = self._intake.place(record, view)
            if delivery is None:
                self._portal.require_other_thread()
                with accumulator.urgent():
                    self._portal.submit(producer.wake_sender)
                    accumulator.wait_for_room(
                        record.size_bytes, limit_ms, lambda: producer.is_barred
                    )
                delivery = self._intake.place(record, view)
        if delivery is None:
            raise producer.no_room(record.size_bytes, limit_ms)
        return delivery
