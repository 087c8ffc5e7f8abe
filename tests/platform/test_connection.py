"""``LogClient`` over the real client against a real broker: what the platform relies on holds on the wire."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from log_service.client import BlockingProducer
from orchestration.connection import Connection, connect
from orchestration.log_client import LogServiceError
from orchestration.offsets import OffsetRange
from orchestration.topics import TopicSpec, reconcile
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


def produce(broker: BrokerProcess, topic: str, values: list[bytes], partition: int = 0, first_ms: int = 1_000) -> None:
    with BlockingProducer(broker.bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value=value, key=b"k%d" % number, partition=partition, timestamp_ms=first_ms + number)


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
    assert (first.partition, first.log_start_offset, first.last_stable_offset, first.high_watermark) == (0, 0, 5, 5)
    assert (second.partition, second.high_watermark) == (1, 0)
    assert log.offsets_at("told", 1_003) == {0: 3, 1: None}
    assert log.leader_epoch_ends("told", {}) == {}
    epoch = next(iter(log.range_reader()("told", OffsetRange(partition=0, start=0, end=1))))["leader_epoch"][0].as_py()
    assert log.leader_epoch_ends("told", {0: epoch}) == {0: 5}
    assert log.leader_epoch_ends("told", {0: epoch + 7}) == {0: -1}


def test_a_range_is_read_to_the_record_also_by_a_pickled_reader(log: Connection, broker: BrokerProcess) -> None:
    log.create_topic("ranges", partitions=1, replication_factor=1, configs={})
    produce(broker, "ranges", [b"v%d" % number for number in range(100)])
    reader = pickle.loads(pickle.dumps(log.range_reader()))
    found = pa.Table.from_batches(reader("ranges", OffsetRange(partition=0, start=10, end=73)))
    assert found["offset"].to_pylist() == list(range(10, 73))
    assert found["value"].to_pylist() == [b"v%d" % number for number in range(10, 73)]
    assert found["key"][0].as_py() == b"k10"
    assert found["timestamp"][0].as_py().timestamp() == pytest.approx(1.010)


def test_the_mirrored_group_can_be_read_by_any_tool(log: Connection, broker: BrokerProcess) -> None:
    log.create_topic("mirrored", partitions=2, replication_factor=1, configs={})
    log.mirror_offsets("tidelog.clean", "mirrored", {0: 7, 1: 0})
    log.mirror_offsets("tidelog.clean", "mirrored", {0: 9})
    found = log._admin.list_group_offsets("tidelog.clean")
    assert {place.partition: one.offset for place, one in found.items()} == {0: 9, 1: 0}


def test_a_log_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        connect("127.0.0.1:1", timeout_ms=300) as nowhere,
        pytest.raises(LogServiceError, match=r"127\.0\.0\.1:1.*TIDELOG_BOOTSTRAP_SERVERS"),
    ):
        nowhere.describe_topic("orders")
