"""A broker stops, is killed and starts again on its directory.

Its acknowledged records are there, and clients go on.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import (
    WAIT_SECONDS,
    ConfigResource,
    Sent,
    admin,
    consumer,
    create_topic,
    produce,
    read_records,
    serve_callbacks,
    settings,
    take,
    wait_until,
)
from tests.integration.conftest import skip_elsewhere
from tests.integration.wire import Wire

QUICK = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 20}


class Load:
    """A producer that never stops: remembers the offset of each acknowledged number, until
    ``stop``.
    """

    def __init__(self, bootstrap: str, topic: str, **more: Any) -> None:
        self.acknowledged: dict[int, int] = {}
        self._topic = topic
        self._producer: Any = confluent_kafka.Producer(
            settings(bootstrap, linger_ms=1, message_timeout_ms=60_000, **QUICK, **more)
        )
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_stopping.wait(0.001):
            self._producer.produce(
                self._topic, str(number).encode(), partition=0, on_delivery=self._note
            )
            self._producer.poll(0)
            number += 1

    def _note(self, error: Any, record: Any) -> None:
        if error is None:
            self.acknowledged[int(record.value())] = record.offset()

    def wait_for(self, count: int) -> None:
        """Wait until so many more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= wanted, f"{count} more records are acknowledged"
        )

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(WAIT_SECONDS)
        assert self._producer.flush(WAIT_SECONDS) == 0


@pytest.fixture
def synced(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that syncs before it acknowledges."""
    with BrokerProcess(
        tmp_path, properties={"log.flush.interval.messages": "1", "log.segment.bytes": "1048576"}
    ) as running:
        yield running


def log_of(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """(offset, number) of every record of a partition."""
    source = consumer(bootstrap, "any")
    _, end = source.get_watermark_offsets(TopicPartition(topic, 0), WAIT_SECONDS)
    source.close()
    return (
        [(record.offset(), int(record.value())) for record in read_records(bootstrap, topic, end)]
        if end
        else []
    )


def assert_whole(bootstrap: str, topic: str, load: Load) -> None:
    """Check that offsets are contiguous, and every acknowledged record is at its offset.

    None is there twice.
    """
    records = log_of(bootstrap, topic)
    assert [offset for offset, _ in records] == list(range(len(records)))
    found = dict(records)
    missing = {
        number: offset
        for number, offset in load.acknowledged.items()
        if found.get(offset) != number
    }
    assert not missing
    assert len({number for _, number in records}) == len(records), "a record was stored twice"


def test_what_was_acknowledged_survives_kills_under_load(synced: BrokerProcess) -> None:
    create_topic(synced.bootstrap, "loaded")
    load = Load(synced.bootstrap, "loaded", enable_idempotence=True, acks="all")
    for _ in range(3):
        load.wait_for(150)
        synced.kill()
        synced.start()
    load.wait_for(150)
    load.stop()
    assert_whole(synced.bootstrap, "loaded", load)


def test_a_clean_stop_under_load_loses_nothing(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "loaded")
    load = Load(broker.bootstrap, "loaded", enable_idempotence=True, acks="all")
    for _ in range(3):
        load.wait_for(150)
        assert broker.stop() == 0
        broker.start()
    load.wait_for(150)
    load.stop()
    assert_whole(broker.bootstrap, "loaded", load)


def test_records_that_the_page_cache_has_survive_a_kill(broker: BrokerProcess) -> None:
    """The process dies, the machine does not: Kafka's default durability."""
    produce(
        broker.bootstrap, "cached", [str(number).encode() for number in range(1_000)], linger_ms=1
    )
    broker.kill()
    broker.start()
    assert log_of(broker.bootstrap, "cached") == [(number, number) for number in range(1_000)]


def test_a_group_goes_on_where_it_stopped(broker: BrokerProcess) -> None:
    produce(broker.bootstrap, "kept", [str(number).encode() for number in range(10)])
    for number, end in enumerate((broker.stop, broker.kill, broker.stop)):
        source = consumer(broker.bootstrap)
        source.subscribe(["kept"])
        assert [int(record.value()) for record in take(source, 2)] == [2 * number, 2 * number + 1]
        source.commit(
            offsets=[TopicPartition("kept", 0, 2 * number + 2, metadata=f"round {number}")],
            asynchronous=False,
        )
        source.close()
        end()
        broker.start()
        source = consumer(broker.bootstrap)
        (committed,) = source.committed([TopicPartition("kept", 0)], WAIT_SECONDS)
        source.close()
        assert (committed.offset, committed.metadata) == (2 * number + 2, f"round {number}")


@pytest.mark.parametrize("is_clean", [True, False])
def test_members_stay_in_their_group_through_a_restart(
    broker: BrokerProcess, *, is_clean: bool
) -> None:
    """The group is loaded with its generation: members beat on without a rebalance."""
    create_topic(broker.bootstrap, "stay")
    assignments: list[int] = []
    source = consumer(
        broker.bootstrap, "members", session_timeout_ms=20_000, heartbeat_interval_ms=200, **QUICK
    )
    source.subscribe(
        ["stay"], on_assign=lambda _consumer, partitions: assignments.append(len(partitions))
    )
    produce(broker.bootstrap, "stay", [b"0"])
    take(source, 1)
    before = member_ids(broker.bootstrap)
    if is_clean:
        assert broker.stop() == 0
    else:
        broker.kill()
    broker.start()
    produce(broker.bootstrap, "stay", [b"1"])
    assert [record.value() for record in take(source, 1)] == [b"1"]
    source.commit(asynchronous=False)
    assert member_ids(broker.bootstrap) == before
    assert assignments == [1]
    source.close()


def member_ids(bootstrap: str) -> list[str]:
    client = admin(bootstrap)
    described = client.describe_consumer_groups(["members"])["members"].result(WAIT_SECONDS)
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    return [member.member_id for member in described.members]


def test_a_member_that_died_with_the_broker_leaves_after_its_session(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "lost")
    dying = consumer(
        broker.bootstrap,
        "members",
        session_timeout_ms=1_000,
        heartbeat_interval_ms=200,
        max_poll_interval_ms=1_100,
    )
    dying.subscribe(["lost"])
    produce(broker.bootstrap, "lost", [b"0"])
    take(dying, 1)
    broker.kill()
    broker.start()
    survivor = consumer(broker.bootstrap, "members", session_timeout_ms=6_000)
    survivor.subscribe(["lost"])
    assert [record.value() for record in take(survivor, 1)] == [b"0"]
    survivor.close()
    serve_callbacks(dying)
    dying.close()


def test_topics_configs_and_deletions_are_remembered(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "tuned", partitions=3, retention_ms="123456")
    create_topic(broker.bootstrap, "gone")
    client = admin(broker.bootstrap)
    client.delete_topics(["gone"])["gone"].result(WAIT_SECONDS)
    cluster_id = client.describe_cluster().result(WAIT_SECONDS).cluster_id
    for end in (broker.kill, broker.stop, broker.stop):
        end()
        broker.start()
        client = admin(broker.bootstrap)
        topics = client.list_topics(timeout=WAIT_SECONDS).topics
        assert len(topics["tuned"].partitions) == 3
        assert "gone" not in topics
        assert client.describe_cluster().result(WAIT_SECONDS).cluster_id == cluster_id
    resource = ConfigResource("topic", "tuned")
    assert (
        client.describe_configs([resource])[resource].result(WAIT_SECONDS)["retention.ms"].value
        == "123456"
    )


def test_deleted_records_stay_deleted(broker: BrokerProcess) -> None:
    produce(broker.bootstrap, "cut", [b"0", b"1", b"2"])
    client = admin(broker.bootstrap)
    (future,) = client.delete_records([TopicPartition("cut", 0, 2)]).values()
    assert future.result(WAIT_SECONDS).low_watermark == 2
    assert broker.stop() == 0
    broker.start()
    source = consumer(broker.bootstrap)
    assert source.get_watermark_offsets(TopicPartition("cut", 0), WAIT_SECONDS) == (2, 3)
    source.close()


def test_a_torn_tail_is_cut_and_the_rest_is_served(broker: BrokerProcess) -> None:
    produce(broker.bootstrap, "torn", [str(number).encode() for number in range(100)], linger_ms=1)
    broker.kill()
    segment = broker.directory / "data" / "torn-0" / f"{0:020}.log"
    whole = segment.read_bytes()
    with segment.open("ab") as file:
        file.write(whole[: len(whole) // 2 - 3][:200])
    broker.start()
    assert log_of(broker.bootstrap, "torn") == [(number, number) for number in range(100)]
    produce(broker.bootstrap, "torn", [b"100"])
    assert log_of(broker.bootstrap, "torn")[-1] == (100, 100)


@pytest.mark.parametrize("tail", [b"\0" * 4_096, b"\xff" * 500, b"garbage" * 99])
def test_a_tail_of_garbage_is_cut(broker: BrokerProcess, tail: bytes) -> None:
    produce(broker.bootstrap, "torn", [b"0", b"1", b"2"])
    broker.kill()
    with (broker.directory / "data" / "torn-0" / f"{0:020}.log").open("ab") as file:
        file.write(tail)
    broker.start()
    assert log_of(broker.bootstrap, "torn") == [(0, 0), (1, 1), (2, 2)]
    assert "Traceback" not in broker.log


@pytest.mark.parametrize("is_clean", [True, False])
def test_lost_indexes_are_rebuilt(broker: BrokerProcess, *, is_clean: bool) -> None:
    produce(
        broker.bootstrap,
        "indexed",
        [str(number).encode() * 50 for number in range(2_000)],
        linger_ms=1,
        batch_num_messages=10,
    )
    if is_clean:
        assert broker.stop() == 0
    else:
        broker.kill()
    directory = broker.directory / "data" / "indexed-0"
    for path in [
        *directory.glob("*.index"),
        *directory.glob("*.timeindex"),
        *directory.glob("*.snapshot"),
    ]:
        path.unlink()
    broker.start()
    records = read_records(broker.bootstrap, "indexed", 500, offset=1_500)
    assert [record.offset() for record in records] == list(range(1_500, 2_000))
    source = consumer(broker.bootstrap)
    (found,) = source.offsets_for_times(
        [TopicPartition("indexed", 0, records[0].timestamp()[1])], WAIT_SECONDS
    )
    source.close()
    assert 0 <= found.offset <= 1_500


def test_an_idempotent_producer_goes_on_after_a_kill_without_duplicates(
    broker: BrokerProcess,
) -> None:
    sent = Sent(broker.bootstrap, enable_idempotence=True, **QUICK)
    for number in range(50):
        sent.send("exact", str(number).encode())
    sent.flush()
    broker.kill()
    for number in range(50, 100):
        sent.send("exact", str(number).encode())
    broker.start()
    sent.flush()
    assert log_of(broker.bootstrap, "exact") == [(number, number) for number in range(100)]


def test_producer_ids_are_never_given_twice(broker: BrokerProcess) -> None:
    """Each restart takes a new block: two producers with one id would fence each other."""
    given: list[int] = []
    for end in (broker.kill, broker.stop, None):
        with Wire(broker.bootstrap) as wire:
            given += [
                wire.ask(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4
                ).producer_id
                for _ in range(3)
            ]
        if end is not None:
            end()
            broker.start()
    assert len(set(given)) == len(given) == 9


def test_the_leader_epoch_rises_after_a_kill_so_that_no_two_records_share_one(
    broker: BrokerProcess,
) -> None:
    produce(broker.bootstrap, "epochs", [b"0"])
    (before,) = read_records(broker.bootstrap, "epochs", 1)
    broker.kill()
    broker.start()
    produce(broker.bootstrap, "epochs", [b"1"])
    after = read_records(broker.bootstrap, "epochs", 2)[-1]
    assert after.leader_epoch() > before.leader_epoch()


@pytest.mark.parametrize("version", range(9, 19))
def test_a_reader_that_believes_in_the_epoch_before_is_fenced(
    fenced: tuple[str, UUID], version: int
) -> None:
    """KIP-320, and KIP-951: from version 16 on the response names the leader.

    Older versions cannot carry it.
    """
    bootstrap, topic_id = fenced
    partition = FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=0
    )
    topics = [FetchTopic(topic="epochs", topic_id=topic_id, partitions=[partition])]
    with Wire(bootstrap) as wire:
        (answer,) = wire.ask(
            FetchRequest(
                replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics
            ),
            version,
        ).responses
    assert answer.partitions[0].error_code == 74
    assert (answer.partitions[0].current_leader is not None) == (version >= 16)


@pytest.fixture(scope="module")
def fenced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, UUID]]:
    """A broker that was killed once, and the id of a topic that it led before."""
    skip_elsewhere()
    with BrokerProcess(tmp_path_factory.mktemp("fenced")) as broker:
        produce(broker.bootstrap, "epochs", [b"0"])
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            (topic,) = wire.ask(
                MetadataRequest(topics=[MetadataRequestTopic(name="epochs")]), 12
            ).topics
        yield broker.bootstrap, topic.topic_id


def test_a_broker_with_a_thousand_partitions_starts_again(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "many", partitions=1_000)
    sent = Sent(broker.bootstrap)
    for partition in range(0, 1_000, 100):
        sent.send("many", str(partition).encode(), partition=partition)
    sent.flush()
    broker.kill()
    broker.start()
    for partition in range(0, 1_000, 100):
        assert (
            read_records(broker.bootstrap, "many", 1, partition)[0].value()
            == str(partition).encode()
        )


def test_nothing_is_left_open_or_unsaid_by_a_clean_stop(broker: BrokerProcess) -> None:
    produce(broker.bootstrap, "calm", [b"0"])
    assert broker.stop() == 0
    assert "Traceback" not in broker.log
    assert "WARNING" not in broker.log
    assert (broker.directory / "data" / ".kafka_cleanshutdown").exists()
