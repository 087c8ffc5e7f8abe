"""A broker's own bounds and defaults change Produce and Fetch as Apache Kafka's do."""

import time

from log_service.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from log_service.protocol.messages.fetch import FetchRequest
from log_service.records.compression import Codec
from tests.integration.differential import Duel
from tests.integration.record_requests import (
    THEN,
    batch,
    fetch_request,
    idempotent,
    produce_request,
    ready_topic,
    wanted,
)

PROPERTIES = {
    "fetch.max.bytes": "3000",
    "message.max.bytes": "2000",
    "compression.type": "lz4",
    "log.message.timestamp.before.max.ms": "600000",
    "log.message.timestamp.after.max.ms": "600000",
}
TEXTS = {"error_message", "batch_index_error_message"}


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_broker_bounds_what_a_fetch_gets(duel: Duel) -> None:
    """It waits for no more than that, and still sends the first batch whole."""
    ready_topic(duel, "bounded", 2, compression_type="uncompressed", max_message_bytes="100000")
    for value in (b"x" * 1000, b"x" * 1200, b"x" * 5000):
        sent = batch(now_ms(), value=value)
        duel.on_both(produce_request("bounded", sent, sent), 12)
    ignore = {"records"}
    for offset in (0, 1, 2):
        asked = fetch_request(
            "bounded",
            wanted(0, offset),
            wanted(1, offset),
            min_bytes=100_000,
            max_wait_ms=10_000,
            max_bytes=1 << 20,
        )
        answer = duel.compare(asked, 11, ignore=ignore, ordered=True)
        sizes = [len(one.records) for one in answer.responses[0].partitions]
        for cluster in duel.clusters.sides():
            found = cluster.ask(asked, 11).responses[0].partitions
            assert [len(one.records) for one in found] == sizes


def test_topics_take_the_defaults_of_their_broker(duel: Duel) -> None:
    ready_topic(duel, "defaults")
    for sent in (
        batch(now_ms() - 3_600_000),
        batch(now_ms() + 3_600_000),
        batch(now_ms(), value=b"x" * 2000),
    ):
        duel.compare(produce_request("defaults", sent), 12, ignore=TEXTS)
    duel.compare(produce_request("defaults", batch(now_ms(), value=b"x" * 1900)), 12, ignore=TEXTS)
    for cluster in duel.clusters.sides():
        records = cluster.ask(fetch_request("defaults"), 11).responses[0].partitions[0].records
        assert bytes(records)[22] & 7 == Codec.LZ4


def test_what_is_told_of_producers(duel: Duel) -> None:
    ready_topic(duel, "producers", message_timestamp_before_max_ms=str(2**62))
    asked = DescribeProducersRequest(
        topics=[TopicRequest(name="producers", partition_indexes=[0, 7])]
    )
    duel.compare(asked, 0, ignore=TEXTS)
    sent = [
        idempotent(5, 0, 3),
        idempotent(5, 3, 2, timestamp=THEN + 7),
        idempotent(6, 40, epoch=3),
        idempotent(5, 3, 2, timestamp=THEN + 7),
    ]
    for one in sent:
        duel.on_both(produce_request("producers", one), 12)
        duel.compare(asked, 0, ignore=TEXTS)


def test_a_session_that_has_nothing_new_waits(duel: Duel) -> None:
    ready_topic(duel, "idle")
    ids = {}
    for cluster in duel.clusters.sides():
        request: FetchRequest = fetch_request("idle")(cluster)
        request.session_epoch = 0
        ids[cluster.bootstrap] = cluster.ask(request, 12).session_id
    began = time.monotonic()
    duel.compare(
        lambda side: FetchRequest(
            replica_id=-1,
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1000,
            session_id=ids[side.bootstrap],
            session_epoch=1,
        ),
        12,
        ignore={"session_id"},
    )
    assert time.monotonic() - began >= 0.3 * len(duel.clusters.sides())
