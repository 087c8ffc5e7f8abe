"""The producer for programs without an event loop, usable from any thread.

Decides how records get from the caller's thread to the producer: they are put into a list, and the list is taken over as a whole, so that
many records cost one wake-up. Everything else is one call through a ``Portal``.

Invariants: records of one thread keep their order; what is handed over and not yet taken is bounded by ``buffer_memory``; leaving the
``with`` block delivers everything, or raises.
"""

from collections import deque
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from threading import Condition
from types import TracebackType
from typing import Any, NamedTuple, Self

import trio

from log_service.client.delivery import Delivery, DeliveryCallback, RecordMetadata, call_back
from log_service.client.interception import checked_headers
from log_service.client.portal import Blocking, Portal
from log_service.client.producer import Producer
from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.record import RecordHeader

TAKEN_AT_ONCE = 2_000


class BlockingDelivery:
    """The receipt of one record that was handed over."""

    __slots__ = ("_delivery", "_error", "_hand_over")

    def __init__(self, hand_over: "HandOver") -> None:
        self._hand_over = hand_over
        self._delivery: Delivery | None = None
        self._error: KafkaError | None = None

    def __repr__(self) -> str:
        state = repr(self._error or self._delivery or "handed over")
        return f"<BlockingDelivery {state}>"

    @property
    def is_done(self) -> bool:
        """Whether the record was delivered or given up."""
        return self._error is not None or (self._delivery is not None and self._delivery.is_done)

    def wait(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged, and return where it is.

        Raises:
            KafkaError: it was given up.
            TimeoutError: ``timeout_ms`` passed first.
        """
        if self._error is not None:
            raise KafkaError(self._error.code, str(self._error))
        if self._delivery is not None and self._delivery.is_done:
            return self._delivery.result()
        return self._hand_over.portal.call(partial(self._wait, timeout_ms))

    def settle_with(self, delivery: Delivery | None, error: KafkaError | None) -> None:
        """The producer took the record, or refused it."""
        self._delivery, self._error = delivery, error

    async def _wait(self, timeout_ms: int | None) -> RecordMetadata:
        with trio.move_on_after(float("inf") if timeout_ms is None else timeout_ms / 1_000):
            while self._delivery is None:
                if self._error is not None:
                    raise KafkaError(self._error.code, str(self._error))
                await self._hand_over.taken.wait()
            return await self._delivery.wait()
        raise TimeoutError(f"not delivered within {timeout_ms} ms")


class _HandedOver(NamedTuple):
    """A record between the caller's thread and the producer's."""

    receipt: BlockingDelivery
    size_bytes: int
    topic: str
    value: bytes | None
    key: bytes | None
    headers: tuple[RecordHeader, ...]
    timestamp_ms: int
    partition: int | None
    on_delivery: DeliveryCallback | None


class HandOver:
    """Takes records from other threads into a producer, many with one wake-up."""

    portal: "Portal[HandOver]"

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.taken = trio.Event()
        self._limit_bytes = producer.config.buffer_memory
        self._records: deque[_HandedOver] = deque()
        self._bytes = 0
        self._room = Condition()
        self._is_woken = False
        self._wakeup = trio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.producer.__aenter__()
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._nursery.start_soon(self._take)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None or isinstance(error, Exception):
                with trio.move_on_after(self.producer.config.delivery_timeout_ms / 1_000):
                    await self.wait_taken()
        finally:
            self._nursery.cancel_scope.cancel()
            await self._stack.aclose()
            self._refuse_the_rest()
            await self.producer.__aexit__(kind, error, trace)

    def put(self, record: _HandedOver) -> None:
        """Hand a record over; called from other threads. Waits while as much as ``buffer_memory`` was handed over and not taken.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, no room within ``max_block_ms``; INVALID_REQUEST, the producer is closed.
        """
        with self._room:
            if self._bytes + record.size_bytes > self._limit_bytes and self._bytes:
                self._wait_for_room(record.size_bytes)
            self._records.append(record)
            self._bytes += record.size_bytes
            if self._is_woken:
                return
            self._is_woken = True
        self.portal.submit(self._wake)

    async def wait_taken(self) -> None:
        """Wait until the producer has taken, or refused, everything that was handed over."""
        while self._bytes:
            await self.taken.wait()

    def _refuse_the_rest(self) -> None:
        """Settle what was handed over and never taken."""
        error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the producer was closed before it took the record")
        while self._records:
            record = self._records.popleft()
            record.receipt.settle_with(None, error)
            if record.on_delivery is not None:
                call_back(record.on_delivery, None, error, record.topic)

    def _wait_for_room(self, size_bytes: int) -> None:
        limit_ms = self.producer.config.max_block_ms
        if not self._room.wait_for(lambda: self._bytes + size_bytes <= self._limit_bytes or not self._bytes, limit_ms / 1_000):
            text = f"no room for {size_bytes} bytes within {limit_ms} ms: buffer_memory {self._limit_bytes} is full"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)

    def _wake(self) -> None:
        self._wakeup.set()

    async def _take(self) -> None:
        """Take records over, for ever."""
        while True:
            await self._wakeup.wait()
            self._wakeup = trio.Event()
            with self._room:
                self._is_woken = False
            while self._records:
                taken_bytes = await self._take_some()
                with self._room:
                    self._bytes -= taken_bytes
                    self._room.notify_all()
                self.taken.set()
                self.taken = trio.Event()
                await trio.lowlevel.checkpoint()

    async def _take_some(self) -> int:
        taken_bytes = 0
        records = self._records
        for _ in range(min(len(records), TAKEN_AT_ONCE)):
            record = records.popleft()
            taken_bytes += record.size_bytes
            receipt, _, topic, value, key, headers, timestamp_ms, partition, on_delivery = record
            try:
                try:
                    delivery = self.producer.take_nowait(topic, value, key, headers, timestamp_ms, partition, on_delivery)
                except trio.WouldBlock:
                    delivery = await self.producer.take(topic, value, key, headers, timestamp_ms, partition, on_delivery)
            except KafkaError as error:
                receipt.settle_with(None, error)
                if on_delivery is not None:
                    call_back(on_delivery, None, error, topic)
            else:
                receipt.settle_with(delivery, None)
        return taken_bytes


class BlockingProducer(Blocking[HandOver]):
    """``Producer`` for threads. Settings are those of ``Producer``.

    ``send`` returns at once; delivery callbacks are called in the producer's own thread and must not block it.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        self._producer = Producer(bootstrap_servers, **settings)
        self._hand_over = HandOver(self._producer)
        super().__init__(self._hand_over)
        self._hand_over.portal = self._portal

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
        """Hand a record over and return its receipt. Waits only while the buffer is full, or for a topic that is used for the first time.

        Raises:
            KafkaError: as ``Producer.send``; what is only found out later, the receipt raises.
        """
        producer = self._producer
        if producer.interceptors:
            topic, value, key, headers, timestamp_ms, partition = producer.intercepted(topic, value, key, headers, timestamp_ms, partition)
        key_bytes, value_bytes = producer.serialize_key(key), producer.serialize_value(value)
        pairs = checked_headers(headers) if headers else ()
        size_bytes = producer.size_of(key_bytes, value_bytes, pairs)
        if not self._portal.is_open or topic not in producer.cluster.view.topics:
            self._portal.call(partial(producer.partitions_for, topic))
        receipt = BlockingDelivery(self._hand_over)
        if timestamp_ms is None:
            timestamp_ms = producer.wall_ms()
        self._hand_over.put(_HandedOver(receipt, size_bytes, topic, value_bytes, key_bytes, pairs, timestamp_ms, partition, on_delivery))
        return receipt

    def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._portal.call(partial(self._producer.partitions_for, topic))

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send what waits now, and return when every record handed over so far is settled.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, ``timeout_ms`` passed first; nothing is lost by that.
        """
        self._portal.call(partial(self._flush, timeout_ms))

    async def _flush(self, timeout_ms: int | None) -> None:
        with trio.move_on_after(float("inf") if timeout_ms is None else timeout_ms / 1_000):
            await self._hand_over.wait_taken()
            await self._producer.flush()
            return
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not everything was delivered within {timeout_ms} ms")
