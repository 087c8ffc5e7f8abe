"""The library librdkafka reads our batches, and its batches are read, with every codec.

Its own mock broker keeps bytes as they come.
"""

import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from log_service.config.views import LogConfig
from log_service.records.batch import is_crc_valid, iterate_headers, iterate_records, parse_header
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord
from log_service.records.validator import validate_for_append

pytestmark = pytest.mark.integration

TIMESTAMP_MS = 1_700_000_000_000
RECORDS = [
    *(
        NewRecord(TIMESTAMP_MS + index, b"key-%d" % index, b"value of record %d, " % index * 20)
        for index in range(200)
    ),
    NewRecord(TIMESTAMP_MS, None, b"no key", (("name", b"x"), ("null", None))),
    NewRecord(TIMESTAMP_MS, b"tombstone", None),
    NewRecord(TIMESTAMP_MS, b"", bytes(range(256)) * 1000),
]
TOPIC = "records"


@pytest.fixture
def broker() -> Iterator[tuple[str, int]]:
    """Return the address of a mock broker, which lives as long as the client that made it."""
    owner = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    (metadata,) = owner.list_topics(TOPIC, timeout=10).brokers.values()
    yield metadata.host, metadata.port
    owner.flush(0)


@pytest.fixture
def connection(broker: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(broker, timeout=10) as connected:
        yield connected


def exchange(connection: socket.socket, api_key: int, api_version: int, body: bytes) -> bytes:
    """Send a request with header version 1 and return the response's body."""
    request = struct.pack(">hhih", api_key, api_version, 1, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    response = receive(connection, *struct.unpack(">i", receive(connection, 4)))
    return response[4:]


def receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        part = connection.recv(size_bytes - len(received))
        assert part, "the mock broker closed the connection"
        received += part
    return bytes(received)


def topic_array() -> bytes:
    return struct.pack(">ih", 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">i", 1)


def produce(connection: socket.socket, batch: bytes) -> None:
    """Produce v3: transactional id, acks, timeout, topics; the error code follows the partition."""
    body = (
        struct.pack(">hhi", -1, -1, 10_000)
        + topic_array()
        + struct.pack(">ii", 0, len(batch))
        + batch
    )
    response = exchange(connection, 0, 3, body)
    (error_code,) = struct.unpack_from(">h", response, 4 + 2 + len(TOPIC) + 4 + 4)
    assert error_code == 0


def fetch(connection: socket.socket, offset: int) -> bytes:
    """Fetch v4; the records are the last field of the response."""
    body = (
        struct.pack(">iiiib", -1, 1000, 1, 1 << 25, 0)
        + topic_array()
        + struct.pack(">iqi", 0, offset, 1 << 25)
    )
    response = exchange(connection, 1, 4, body)
    position = 4 + 4 + 2 + len(TOPIC) + 4 + 4
    error_code, _, _, aborted_count = struct.unpack_from(">hqqi", response, position)
    assert error_code == 0
    position += 22 + 16 * max(aborted_count, 0)
    (size_bytes,) = struct.unpack_from(">i", response, position)
    return response[position + 4 : position + 4 + size_bytes]


@pytest.mark.parametrize("codec", list(Codec))
def test_librdkafka_reads_our_batches(
    codec: Codec, broker: tuple[str, int], connection: socket.socket
) -> None:
    produce(connection, build_batch(RECORDS, codec=codec))
    consumer = Consumer(
        {"bootstrap.servers": "{}:{}".format(*broker), "group.id": "unused", "check.crcs": True}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages = consumer.consume(len(RECORDS), timeout=20)
    consumer.close()
    assert [message.error() for message in messages] == [None] * len(RECORDS)
    assert [(message.timestamp()[1], message.key(), message.value()) for message in messages] == [
        record[:3] for record in RECORDS
    ]
    assert [list(message.headers() or ()) for message in messages] == [
        list(record.headers) for record in RECORDS
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_librdkafka_are_read(
    codec: Codec, broker: tuple[str, int], connection: socket.socket
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": "{}:{}".format(*broker),
            "compression.type": codec.name.lower(),
            "linger.ms": 50,
        }
    )
    for timestamp, key, value, headers in RECORDS:
        producer.produce(TOPIC, value, key, partition=0, timestamp=timestamp, headers=list(headers))
    assert producer.flush(20) == 0
    read: list[NewRecord] = []
    while len(read) < len(RECORDS):
        log = fetch(connection, len(read))
        for position, header in iterate_headers(log, is_torn_tail_ok=True):
            batch = bytearray(log[position : position + header.size_bytes])
            assert is_crc_valid(batch)
            check_validation(batch)
            read += [NewRecord(*record[1:]) for record in iterate_records(batch)]
    assert read == RECORDS
    assert {header.compression for _, header in iterate_headers(log, is_torn_tail_ok=True)} <= {
        codec,
        Codec.NONE,
    }


def check_validation(batch: bytearray) -> None:
    """A leader takes the batch as librdkafka sent it, with offset 0 and before a leader epoch is
    stamped.
    """
    batch[:8] = bytes(8)
    validated = validate_for_append(batch, LogConfig(), TIMESTAMP_MS)
    assert validated.batches[0][1] == parse_header(batch)
