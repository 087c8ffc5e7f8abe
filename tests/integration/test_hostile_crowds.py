"""Peers are too many, too slow or too greedy.

The broker stays within its memory, and serves the others.
"""

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import create_topic, produce, read_all, wait_until
from tests.integration.wire import Wire

MIB = 1 << 20


@contextmanager
def limited(directory: Path, **limits: str) -> Iterator[BrokerProcess]:
    named = {name.replace("_", "."): value for name, value in limits.items()}
    with BrokerProcess(directory, properties=named) as broker:
        yield broker


def resident_bytes(broker: BrokerProcess) -> int:
    used: int = psutil.Process(broker.process_id).memory_info().rss
    return used


def open_files(broker: BrokerProcess) -> int:
    count: int = psutil.Process(broker.process_id).num_fds()
    return count


def answers_soon(bootstrap: str, seconds: float = 5.0) -> bool:
    started = time.monotonic()
    with Wire(bootstrap) as wire:
        wire.ask(MetadataRequest(topics=[]), 12)
    return time.monotonic() - started < seconds


def is_served(wire: Wire) -> bool:
    """Whether this connection was let in."""
    try:
        wire.ask(MetadataRequest(topics=[]), 12)
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("key", ["max_connections", "max_connections_per_ip"])
def test_connections_beyond_the_limit_are_closed_and_the_others_stay(
    tmp_path: Path, key: str
) -> None:
    with limited(tmp_path, **{key: "20"}) as broker, ExitStack() as stack:
        inside = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(20)]
        assert all(map(is_served, inside))
        for _ in range(50):
            with Wire(broker.bootstrap) as outside:
                assert not is_served(outside)
        assert all(map(is_served, inside))
        for wire in inside[:10]:
            wire.close()
        wait_until(lambda: answers_soon_or_refused(broker.bootstrap), "there is room again")
        assert "20 connections already" in broker.log
        assert len(broker.log.splitlines()) < 40


def answers_soon_or_refused(bootstrap: str) -> bool:
    with Wire(bootstrap) as wire:
        return is_served(wire)


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Yield a broker whose system holds many connections that are not accepted yet.

    With few, the kernel makes clients wait for seconds.
    """
    with limited(tmp_path, socket_listen_backlog_size="1024") as broker:
        yield broker


def test_a_flood_of_connections_leaves_nothing_behind(roomy: BrokerProcess) -> None:
    broker = roomy
    before_files, before_bytes = open_files(broker), resident_bytes(broker)
    for _ in range(4):
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(250)]
            for number, wire in enumerate(wires):
                if number % 3 == 0:
                    wire.send(MetadataRequest(topics=None), 12)
                if number % 5 == 0:
                    wire.reset()
    wait_until(lambda: open_files(broker) <= before_files + 5, "the descriptors are given back")
    assert answers_soon(broker.bootstrap)
    assert resident_bytes(broker) - before_bytes < 60 * MIB


def test_idle_connections_cost_little(roomy: BrokerProcess) -> None:
    broker = roomy
    before = resident_bytes(broker)
    with ExitStack() as stack:
        for _ in range(400):
            assert is_served(stack.enter_context(Wire(broker.bootstrap)))
        assert (resident_bytes(broker) - before) / 400 < 64 << 10
        assert answers_soon(broker.bootstrap)


@pytest.mark.parametrize("sent_bytes", [10, 200_000])
def test_frames_that_are_announced_and_not_sent_take_no_memory_and_hold_nobody_up(
    broker: BrokerProcess, sent_bytes: int
) -> None:
    before = resident_bytes(broker)
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(Wire(broker.bootstrap)).send_bytes(
                struct.pack(">i", 100 * MIB) + bytes(sent_bytes)
            )
        assert answers_soon(broker.bootstrap)
        produce(broker.bootstrap, "honest", [b"small"] * 10)
        assert read_all(broker.bootstrap, "honest", 10) == [b"small"] * 10
        assert resident_bytes(broker) - before < 60 * MIB


def fetch(topic: str, max_bytes: int = 50 * MIB, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics
    )


@pytest.mark.parametrize("record_bytes", [1_000, 500_000])
def test_readers_that_do_not_read_cost_little_and_hold_nobody_up(
    broker: BrokerProcess, record_bytes: int
) -> None:
    """Each asks for far more than its socket holds, many times over; the answers wait in the files."""
    count = 20_000_000 // record_bytes
    produce(broker.bootstrap, "large", [b"x" * record_bytes] * count, linger_ms=5)
    before = resident_bytes(broker)
    with ExitStack() as stack:
        for _ in range(10):
            wire = stack.enter_context(Wire(broker.bootstrap, receive_buffer_bytes=4_096))
            for _ in range(30):
                wire.send(fetch("large"), 12)
        assert answers_soon(broker.bootstrap)
        assert len(read_all(broker.bootstrap, "large", count)) == count
        assert resident_bytes(broker) - before < 120 * MIB
    assert answers_soon(broker.bootstrap)


def test_a_slow_reader_gets_every_byte(broker: BrokerProcess) -> None:
    produce(
        broker.bootstrap,
        "large",
        [bytes([number % 256]) * 100_000 for number in range(50)],
        linger_ms=5,
    )
    with Wire(broker.bootstrap, receive_buffer_bytes=4_096) as wire:
        for _ in range(3):
            wire.send(fetch("large"), 12)
        answers = []
        for _ in range(3):
            time.sleep(0.1)
            (topic,) = wire.receive(ApiKey.FETCH, 12).responses
            answers.append(bytes(topic.partitions[0].records))
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) > 5_000_000


def test_waiting_fetches_of_peers_that_left_are_forgotten(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "quiet")
    before = open_files(broker)
    for _ in range(100):
        wire = Wire(broker.bootstrap)
        wire.send(fetch("quiet", max_wait_ms=600_000), 12)
        wire.reset()
    wait_until(lambda: open_files(broker) <= before + 3, "their connections are closed")
    produce(broker.bootstrap, "quiet", [b"now"])
    assert read_all(broker.bootstrap, "quiet", 1) == [b"now"]
    assert "Traceback" not in broker.log


def test_requests_behind_one_that_waits_are_bounded_and_answered_in_order(
    broker: BrokerProcess,
) -> None:
    create_topic(broker.bootstrap, "quiet")
    with Wire(broker.bootstrap) as wire:
        wire.send(fetch("quiet", max_wait_ms=1_500), 12)
        for _ in range(300):
            wire.send(MetadataRequest(topics=[]), 12)
        assert answers_soon(broker.bootstrap)
        assert wire.receive(ApiKey.FETCH, 12).responses[0].partitions[0].error_code == 0
        for _ in range(300):
            assert wire.receive(ApiKey.METADATA, 12).brokers


def test_a_crowd_of_members_that_never_sync_is_bounded_by_the_groups_size(tmp_path: Path) -> None:
    with limited(tmp_path, group_max_size="5") as broker:
        with Wire(broker.bootstrap) as wire:
            codes = []
            for _ in range(30):
                request = JoinGroupRequest(
                    group_id="crowd",
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=10_000,
                    member_id="",
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
                )
                codes.append(wire.ask(request, 4).error_code)
        assert set(codes) <= {14, 16, 15, 79, 81}
        assert codes.count(79) <= 5
        assert answers_soon(broker.bootstrap)


def test_metadata_for_many_strange_names_creates_nothing_and_stays_cheap(
    broker: BrokerProcess,
) -> None:
    with Wire(broker.bootstrap) as wire:
        names = [f"no/such/{number}" for number in range(5_000)]
        answer = wire.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12
        )
        assert {topic.error_code for topic in answer.topics} == {17}
        assert wire.ask(MetadataRequest(topics=None), 12).topics == []
    assert answers_soon(broker.bootstrap)
