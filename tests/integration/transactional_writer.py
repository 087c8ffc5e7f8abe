"""A transactional producer of Apache Kafka writes without a client library.

Every batch is as the test wants it, in either protocol of transactions.

Version 1 announces partitions and keeps its epoch; version 2 (KIP-890) has them added by its
batches, and every transaction's marker has the next epoch. Speaks raw bytes where this broker knows
no message, as it has no transactions.
"""

import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.records.builder import build_batch
from tests.integration.record_requests import produce_request
from tests.integration.wire import Wire

Pair = tuple[bytes | None, bytes | None]
READY_SECONDS = 20.0
LONGEST_TRANSACTION_MS = 900_000
TRANSACTION = 1
_ADD_PARTITIONS, _END = 24, 26


class TransactionalWriter:
    """One producer; its transactions begin with its first batch."""

    def __init__(self, wire: Wire, transactional_id: str, *, is_version_2: bool) -> None:
        self.transactional_id = transactional_id
        self.is_version_2 = is_version_2
        self._wire = wire
        self._sequence = 0
        self._announced: set[str] = set()
        self.producer_id, self.epoch = _producer(wire, transactional_id, LONGEST_TRANSACTION_MS)

    def write(self, topic: str, records: Iterable[Pair], timestamp_ms: int) -> None:
        """Append one batch of the open transaction."""
        rows = [(timestamp_ms, key, value) for key, value in records]
        if not self.is_version_2 and topic not in self._announced:
            self._announced.add(topic)
            _until_good(lambda: self._add_partition(topic))
        header: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self._sequence,
        }
        content = build_batch(rows, is_transactional=True, **header)
        request = replace(produce_request(topic, content), transactional_id=self.transactional_id)
        version = 12 if self.is_version_2 else 11
        _until_good(
            lambda: self._wire.ask(request, version).responses[0].partition_responses[0].error_code
        )
        self._sequence += len(rows)

    def end(self, *, is_commit: bool) -> None:
        """Commit or abort; the markers may follow later."""
        name, self._announced = self.transactional_id.encode(), set()
        tail = struct.pack(">qh?", self.producer_id, self.epoch, is_commit)
        if not self.is_version_2:
            assert self._asked(_END, 1, struct.pack(">h", len(name)) + name + tail)[8:10] == b"\0\0"
            return
        frame = self._asked(_END, 5, bytes([len(name) + 1]) + name + tail + b"\0", is_flexible=True)
        error, self.producer_id, self.epoch = struct.unpack_from(">hqh", frame, 9)
        assert error == 0, ErrorCode(error)
        self._sequence = 0

    def _add_partition(self, topic: str) -> int:
        name, named = self.transactional_id.encode(), topic.encode()
        body = (
            struct.pack(">h", len(name)) + name + struct.pack(">qh", self.producer_id, self.epoch)
        )
        body += struct.pack(">ih", 1, len(named)) + named + struct.pack(">ii", 1, 0)
        (error,) = struct.unpack(">h", self._asked(_ADD_PARTITIONS, 0, body)[-2:])
        return int(error)

    def _asked(
        self, api_key: int, version: int, body: bytes, *, is_flexible: bool = False
    ) -> bytes:
        """Return the answer, its correlation id before it."""
        self._wire.send_header(api_key, version, body, is_flexible=is_flexible)
        return self._wire.receive_frame()


def leave_hanging(bootstrap: str, topic: str, name: str) -> int:
    """Append a batch of a transaction that no coordinator knows, and return its producer id.

    A producer before KIP-890 could do that.
    """
    with Wire(bootstrap) as wire:
        for _ in range(2):  # so that there was an epoch before
            producer_id, producer_epoch = _producer(wire, name, 60_000)
        content = build_batch(
            [(int(time.time() * 1_000), None, b"hangs")],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        request = replace(produce_request(topic, content), transactional_id=name)
        result = wire.ask(request, 11).responses[0].partition_responses[0]
        assert result.error_code == 0, ErrorCode(result.error_code)
        return producer_id


def _producer(wire: Wire, name: str, timeout_ms: int) -> tuple[int, int]:
    """Return the next id and epoch of a transactional id, once its coordinator has loaded."""
    _until_good(
        lambda: wire.ask(FindCoordinatorRequest(key=name, key_type=TRANSACTION), 3).error_code
    )
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    answer = wire.ask(request, 4)
    while answer.error_code:
        time.sleep(0.05)
        answer = wire.ask(request, 4)
    return answer.producer_id, answer.producer_epoch


def _until_good(ask: Callable[[], int]) -> None:
    """Ask again while coordinators load, and while the last transaction's markers are on their way."""
    deadline = time.monotonic() + READY_SECONDS
    while error := ask():
        assert time.monotonic() < deadline, ErrorCode(error)
        time.sleep(0.05)
