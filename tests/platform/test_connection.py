"""The ``LogClient`` over the real client keeps the platform's promises against a real broker."""

import pickle
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    KafkaError,
    TopicPartition,
    UnreadableBatch,
)
from log_service.records.batch import iterate_headers, parse_header
from log_service.records.builder import build_batch
from orchestration.log_client import connection
from orchestration.log_client.connection import Connection, connect, topic_id_of
from orchestration.log_client.protocol import (
    UNREADABLE,
    UNREADABLE_BATCH,
    CommittedOffset,
    LogServiceError,
    OtherTopicError,
    OutgoingRecord,
    SenderFencedError,
)
from orchestration.offsets.ranges import OffsetRange
from orchestration.topics.spec import TopicSpec, reconcile
from tests.helpers.broker_process import BrokerProcess

pytestmark = pytest.mark.platform
SPEC = TopicSpec(name="orders", partitions=2, configs={"retention.ms": "3600000"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def log(broker: BrokerProcess) -> Iterator[Connection]:
    with connect(broker.bootstrap) as connected:
        yield connected


def produce(
    broker: BrokerProcess,
    topic: str,
    values: list[bytes],
    partition: int = 0,
    first_ms: int = 1_000,
) -> None:
    with BlockingProducer(broker.bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(
                topic,
                value=value,
                key=b"k%d" % number,
                partition=partition,
                timestamp_ms=first_ms + number,
            )


def test_a_declared_topic_is_created_and_reconciled(log: Connection) -> None:
    assert log.describe_topic("orders") is None
    assert reconcile(log, SPEC).summary == "created"
    created = log.describe_topic("orders")
    assert created is not None
    assert (created.partitions, created.replication_factor, len(created.topic_id)) == (2, 1, 22)
    assert reconcile(log, SPEC).summary == "as declared"
    wider = TopicSpec(name="orders", partitions=3, configs={"retention.ms": "7200000"})
    assert reconcile(log, wider).summary == "partitions raised to 3, retention.ms set to 7200000"
    assert log.topic_configs("orders")["retention.ms"] == "7200000"
    after = log.describe_topic("orders")
    assert after is not None
    assert (after.partitions, after.topic_id) == (3, created.topic_id)


def test_offsets_times_and_epochs_are_told(log: Connection, broker: BrokerProcess) -> None:
    log.create_topic("told", partitions=2, replication_factor=1, configs={})
    produce(broker, "told", [b"v"] * 5)
    first, second = log.partition_offsets("told")
    assert (
        first.partition,
        first.log_start_offset,
        first.last_stable_offset,
        first.high_watermark,
    ) == (0, 0, 5, 5)
    assert (second.partition, second.high_watermark) == (1, 0)
    assert log.offsets_at("told", 1_003) == {0: 3, 1: None}
    assert log.leader_epoch_ends("told", {}) == {}
    epoch = next(iter(log.range_reader()("told", OffsetRange(partition=0, start=0, end=1))))[
        "leader_epoch"
    ][0].as_py()
    assert log.leader_epoch_ends("told", {0: epoch}) == {0: 5}
    assert log.leader_epoch_ends("told", {0: epoch + 7}) == {0: -1}


def test_a_range_is_read_to_the_record_also_by_a_pickled_reader(
    log: Connection, broker: BrokerProcess
) -> None:
    log.create_topic("ranges", partitions=1, replication_factor=1, configs={})
    produce(broker, "ranges", [b"v%d" % number for number in range(100)])
    reader = pickle.loads(pickle.dumps(log.range_reader()))
    found = pa.Table.from_batches(reader("ranges", OffsetRange(partition=0, start=10, end=73)))
    assert found["offset"].to_pylist() == list(range(10, 73))
    assert found["value"].to_pylist() == [b"v%d" % number for number in range(10, 73)]
    assert found["key"][0].as_py() == b"k10"
    assert found["timestamp"][0].as_py().timestamp() == pytest.approx(1.010)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_tolerant_reader_tells_each_offset_of_a_batch_that_cannot_be_read(
    log: Connection, broker: BrokerProcess, compression: str
) -> None:
    topic = f"damaged_{compression}"
    log.create_topic(topic, partitions=1, replication_factor=1, configs={})
    for number in range(3):
        with BlockingProducer(broker.bootstrap, compression=compression) as producer:
            for _ in range(4):
                producer.send(topic, value=b"value %d " % number * 40, partition=0)
    (segment,) = broker.directory.glob(f"data/{topic}-0/*.log")
    content = bytearray(segment.read_bytes())
    places = list(iterate_headers(content))
    assert len(places) == 3
    position, header = places[1]
    content[position + header.size_bytes - 3] ^= 0xFF
    segment.write_bytes(content)
    whole = OffsetRange(partition=0, start=0, end=12)
    with pytest.raises(LogServiceError, match="checksum of the batch at offset 4"):
        list(log.range_reader()(topic, whole))
    reader = pickle.loads(pickle.dumps(log.range_reader(is_tolerant=True)))
    found = [row for batch in reader(topic, whole) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == list(range(12))
    broken = [row for row in found if row.get(UNREADABLE)]
    assert [row["offset"] for row in broken] == [4, 5, 6, 7]
    assert all(
        row[UNREADABLE].startswith(f"{UNREADABLE_BATCH}4 to 7 cannot be read: ") for row in broken
    )
    assert [row["value"] for row in broken] == [
        bytes(content[position : position + header.size_bytes]),
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("claimed", [0, 1, 1 << 20])
def test_a_damaged_header_hides_no_offset_from_any_piece_of_a_range(
    log: Connection, broker: BrokerProcess, claimed: int
) -> None:
    """Offsets that the header of a damaged batch did not claim were neither rows nor dead letters."""
    topic = f"claims_{claimed}"
    log.create_topic(topic, partitions=1, replication_factor=1, configs={})
    for number in range(3):
        with BlockingProducer(broker.bootstrap) as producer:
            for _ in range(4):
                producer.send(topic, value=b"value %d " % number, partition=0)
    (segment,) = broker.directory.glob(f"data/{topic}-0/*.log")
    content = bytearray(segment.read_bytes())
    position, _ = list(iterate_headers(content))[1]
    struct.pack_into(">i", content, position + 23, claimed)
    segment.write_bytes(content)
    for start, end in [(0, 12), (0, 6), (6, 12), (5, 7)]:
        found = log.range_reader(is_tolerant=True)(
            topic, OffsetRange(partition=0, start=start, end=end)
        )
        rows = [row for batch in found for row in batch.to_pylist()]
        assert [row["offset"] for row in rows] == list(range(start, end))
        assert [row["offset"] for row in rows if row.get(UNREADABLE)] == [
            offset for offset in range(start, end) if 4 <= offset < 8
        ]


def test_a_damaged_batch_that_may_reach_far_is_told_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "MAX_UNREADABLE_ROWS", 3)
    header = parse_header(build_batch([(0, None, b"v")], base_offset=10))
    batch = UnreadableBatch(
        header=header, start=10, end=90, batch_end=90, raw=b"raw", reason="broken"
    )
    rows = connection.unreadable_rows(batch).to_pylist()
    assert [row["offset"] for row in rows] == [10, 11, 12]
    assert [row[UNREADABLE] for row in rows] == [
        "broken",
        "broken",
        "broken; this stands for the offsets 12 to 89",
    ]


def test_a_range_is_not_read_on_in_a_topic_that_was_created_anew(
    log: Connection, broker: BrokerProcess
) -> None:
    log.create_topic("anew", partitions=1, replication_factor=1, configs={})
    for number in range(3):  # a batch each
        produce(broker, "anew", [b"old %d" % number])
    former = log.describe_topic("anew")
    assert former is not None
    with BlockingAdmin(broker.bootstrap) as admin:
        chunks = admin.read_range(
            TopicPartition("anew", 0), 0, 3, max_bytes=1, topic_id=topic_id_of(former.topic_id)
        )
        assert next(iter(chunks)).position == 1
        admin.delete_topics(["anew"])
        log.create_topic("anew", partitions=1, replication_factor=1, configs={})
        for number in range(3):
            produce(broker, "anew", [b"new %d" % number])
        newer = log.describe_topic("anew")
        assert newer is not None
        with pytest.raises(KafkaError, match="it was deleted and created anew"):
            list(chunks)
        whole = OffsetRange(partition=0, start=0, end=3)
        with pytest.raises(
            OtherTopicError, match=r"the topic anew has the id .* it was deleted and created anew"
        ):
            list(log.range_reader()("anew", whole, topic_id=former.topic_id))
        assert (
            sum(
                batch.num_rows
                for batch in log.range_reader()("anew", whole, topic_id=newer.topic_id)
            )
            == 3
        )


def test_the_mirrored_group_can_be_read_by_any_tool(log: Connection, broker: BrokerProcess) -> None:
    log.create_topic("mirrored", partitions=2, replication_factor=1, configs={})
    log.mirror_offsets("tidelog.clean", "mirrored", {0: 7, 1: 0})
    log.mirror_offsets("tidelog.clean", "mirrored", {0: 9})
    with BlockingAdmin(broker.bootstrap) as admin:
        found = admin.list_group_offsets("tidelog.clean")
    assert {place.partition: one.offset for place, one in found.items()} == {0: 9, 1: 0}


FIRST = {0: CommittedOffset(next_offset=7, leader_epoch=3, note="as of then")}
OFFSETS = {**FIRST, 1: CommittedOffset(next_offset=0)}


def sent_values(log: Connection, topic: str) -> list[bytes]:
    for _ in range(100):
        (partition,) = log.partition_offsets(topic)
        if partition.last_stable_offset == partition.high_watermark:
            break
        time.sleep(0.1)  # a commit is acknowledged before its markers are in the logs
    batches = log.range_reader()(
        topic, OffsetRange(partition=0, start=0, end=partition.high_watermark)
    )
    return [value for batch in batches for value in batch["value"].to_pylist()]


def test_records_and_offsets_are_sent_together(log: Connection) -> None:
    log.create_topic("sent", partitions=1, replication_factor=1, configs={})
    log.create_topic("read", partitions=2, replication_factor=1, configs={})
    assert log.committed_offsets("group", "read", [0, 1]) == {}
    record = OutgoingRecord(b"k", b"v", (("h", b"1"), ("n", None)), 1_700_000_000_123)
    with log.open_sender("group") as sender:
        sender.send(
            "sent",
            [record, OutgoingRecord(b"gone", None)],
            group_id="group",
            source="read",
            offsets=OFFSETS,
        )
        assert log.committed_offsets("group", "read", [0, 1]) == OFFSETS
        sender.send(
            "sent", [], group_id="group", source="read", offsets={0: CommittedOffset(next_offset=8)}
        )
    assert log.committed_offsets("group", "read", [0, 1])[0].next_offset == 8
    assert log.committed_offsets("group", "sent", [0]) == {}
    assert sent_values(log, "sent") == [b"v", None]


def test_records_that_cannot_be_made_leave_nothing_behind(log: Connection) -> None:
    log.create_topic("unmade", partitions=1, replication_factor=1, configs={})

    def failing() -> Iterator[OutgoingRecord]:
        yield OutgoingRecord(None, b"first")
        raise ZeroDivisionError

    with log.open_sender("unmade") as sender:
        with pytest.raises(ZeroDivisionError):
            sender.send("unmade", failing(), group_id="unmade", source="unmade", offsets=FIRST)
        with pytest.raises(LogServiceError, match="MESSAGE_TOO_LARGE"):
            sender.send(
                "unmade",
                [OutgoingRecord(None, bytes(2 << 20))],
                group_id="unmade",
                source="unmade",
                offsets=FIRST,
            )
        sender.send(
            "unmade",
            [OutgoingRecord(None, b"second")],
            group_id="unmade",
            source="unmade",
            offsets={},
        )
    assert sent_values(log, "unmade") == [b"second"]
    assert log.committed_offsets("unmade", "unmade", [0]) == {}


def test_an_older_sender_is_fenced_also_in_the_middle_of_its_transaction(
    log: Connection, broker: BrokerProcess
) -> None:
    log.create_topic("fenced", partitions=1, replication_factor=1, configs={})
    with ExitStack() as later:

        def overtaken() -> Iterator[OutgoingRecord]:
            yield OutgoingRecord(None, b"of the older one")
            newer = later.enter_context(log.open_sender("fenced"))
            newer.send(
                "fenced",
                [OutgoingRecord(None, b"of the newer one")],
                group_id="fenced",
                source="fenced",
                offsets=FIRST,
            )
            yield OutgoingRecord(None, b"of the older one")

        with connect(broker.bootstrap) as another, another.open_sender("fenced") as older:
            stale = {0: CommittedOffset(next_offset=1)}
            with pytest.raises(
                LogServiceError,
                match=r"INVALID_PRODUCER_EPOCH|another producer took its transactional_id",
            ):
                older.send("fenced", overtaken(), group_id="fenced", source="fenced", offsets=stale)
            with pytest.raises(
                SenderFencedError, match="another producer took its transactional_id"
            ):
                older.send(
                    "fenced",
                    [OutgoingRecord(None, b"again")],
                    group_id="fenced",
                    source="fenced",
                    offsets=stale,
                )
    assert sent_values(log, "fenced") == [b"of the newer one"]
    assert log.committed_offsets("fenced", "fenced", [0]) == FIRST


def test_a_log_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        connect("127.0.0.1:1", timeout_ms=300) as nowhere,
        pytest.raises(LogServiceError, match=r"127\.0\.0\.1:1.*TIDELOG_BOOTSTRAP_SERVERS"),
    ):
        nowhere.describe_topic("orders")
