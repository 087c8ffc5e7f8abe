"""Keys about the node, its limits, its groups and its directories take effect.

Each key is set to two values, and the test sees the difference.
"""

from contextlib import suppress
from pathlib import Path

import pytest
import trio

from log_service.broker.one_error import one_error
from log_service.common.errors import ErrorCode, StorageError
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from log_service.records.batch import iterate_headers
from tests.helpers.cluster import Cluster, node_properties, tell_cluster
from tests.sim import World, sim_run
from tests.unit.broker.configured_brokers import configured
from tests.unit.broker.context import DATA, HOST, PORT, Story, batch, running, tell
from tests.unit.broker.effects_on_logs import BROKER, log_of, set_dynamically

OFFSETS = "__consumer_offsets"


async def is_served(node: Story) -> bool:
    """Whether a new connection gets an answer."""
    client = await node.connect()
    try:
        with trio.move_on_after(5):
            with suppress(EOFError, OSError):
                await client.ask(MetadataRequest(topics=[]), 12)
                return True
        return False
    finally:
        client.close()


# Topics


@pytest.mark.parametrize("is_on", [True, False])
def test_auto_create_topics_enable_and_num_partitions(is_on: bool) -> None:
    async def story(node: Story) -> None:
        response = await node.ask(
            MetadataRequest(
                topics=[MetadataRequestTopic(name="asked")], allow_auto_topic_creation=True
            ),
            12,
        )
        assert response.topics[0].error_code == (
            0 if is_on else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert len(response.topics[0].partitions) == (3 if is_on else 0)

    tell(story, auto_create_topics_enable="true" if is_on else "false", num_partitions="3")


@pytest.mark.parametrize(
    ("factor", "code"), [("1", 0), ("2", ErrorCode.INVALID_REPLICATION_FACTOR)]
)
def test_default_replication_factor(factor: str, code: int) -> None:
    async def story(node: Story) -> None:
        wanted = CreatableTopic(name="a", num_partitions=-1, replication_factor=-1)
        assert (await node.ask(CreateTopicsRequest(topics=[wanted]), 7)).topics[
            0
        ].error_code == code

    tell(story, default_replication_factor=factor)


@pytest.mark.parametrize(("limit", "count"), [("2", 2), ("2000", 5)])
def test_max_request_partition_size_limit(limit: str, count: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 5)
        response = await node.ask(DescribeTopicPartitionsRequest(topics=[]), 0)
        assert sum(len(topic.partitions) for topic in response.topics) == count
        assert (response.next_cursor is None) is (count == 5)

    tell(story, max_request_partition_size_limit=limit)


# Who the node is


def test_node_id_rack_and_cluster_id_are_told() -> None:
    async def story(node: Story) -> None:
        response = await node.ask(MetadataRequest(topics=[]), 12)
        assert [(broker.node_id, broker.rack) for broker in response.brokers] == [(7, "cellar")]
        assert (response.controller_id, response.cluster_id) == (7, "cluster-of-this-test-00")

    tell(story, node_id="7", broker_rack="cellar", cluster_id="cluster-of-this-test-00")


def test_log_dirs_metadata_log_dir_and_log_dir_hold_the_files() -> None:
    async def main(world: World) -> None:
        async with running(world, log_dirs="/one,/two", metadata_log_dir="/meta") as node:
            await node.create_topic("a", 4)
            files = node.broker.env.files
            assert (
                sum(
                    len([name for name in files.list_directory(path) if name.startswith("a-")])
                    for path in (Path("/one"), Path("/two"))
                )
                == 4
            )
            assert all(
                any(name.startswith("a-") for name in files.list_directory(path))
                for path in (Path("/one"), Path("/two"))
            )
            assert "__cluster_metadata-0" in files.list_directory(Path("/meta"))

    sim_run(1, main)


def test_cordoned_log_dirs_take_no_new_partitions_from_the_file_and_live() -> None:
    async def main(world: World) -> None:
        async with running(world, log_dirs="/one,/two", **{"cordoned.log.dirs": "/one"}) as node:
            await node.create_topic("a", 4)
            assert {log_of(node, index).home.path for index in range(4)} == {Path("/two")}
            await set_dynamically(node, BROKER, "1", "cordoned.log.dirs", "/two")
            await node.create_topic("b", 4)
            assert {log_of(node, index, "b").home.path for index in range(4)} == {Path("/one")}
            await set_dynamically(node, BROKER, "1", "cordoned.log.dirs", "*")
            wanted = CreatableTopic(name="c", num_partitions=1, replication_factor=1)
            refused = (await node.ask(CreateTopicsRequest(topics=[wanted]), 7)).topics[0]
            assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
            await set_dynamically(node, BROKER, "1", "cordoned.log.dirs", "")
            await node.create_topic("d", 4)
            assert {log_of(node, index, "d").home.path for index in range(4)} == {
                Path("/one"),
                Path("/two"),
            }, "in spite of the file"

    sim_run(1, main)


# Fetches and requests


@pytest.mark.parametrize(("limit", "partition_count"), [("1100", 1), ("57671680", 2)])
def test_fetch_max_bytes(limit: str, partition_count: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        for index in range(2):
            await node.produce("a", batch(bytes(1_000)), partition=index)
        wanted = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in range(2)
        ]
        response = await node.ask(
            FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic="a", partitions=wanted)]), 12
        )
        assert (
            sum(1 for each in response.responses[0].partitions if each.records) == partition_count
        )

    tell(story, fetch_max_bytes=limit)


@pytest.mark.parametrize(("slots", "has_session"), [("0", False), ("10", True)])
def test_max_incremental_fetch_session_cache_slots(slots: str, has_session: bool) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        wanted = [
            FetchTopic(
                topic="a",
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
        ]
        response = await node.ask(
            FetchRequest(session_id=0, session_epoch=0, max_bytes=1_000, topics=wanted), 12
        )
        assert (response.session_id != 0) is has_session

    tell(story, max_incremental_fetch_session_cache_slots=slots)


def test_socket_request_max_bytes() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        assert (await node.produce("a", batch(bytes(500)))).error_code == 0
        with pytest.raises(EOFError):
            await node.produce("a", batch(bytes(2_000)))

    tell(story, socket_request_max_bytes="1000")


@pytest.mark.parametrize(("idle_ms", "is_open"), [("5000", False), ("600000", True), ("-1", True)])
def test_connections_max_idle_ms(idle_ms: str, is_open: bool) -> None:
    async def story(node: Story) -> None:
        client = await node.connect()
        await client.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        )
        await trio.sleep(20)
        assert (not await client.is_closed()) is is_open

    tell(story, connections_max_idle_ms=idle_ms)


@pytest.mark.parametrize(
    "limits",
    [{"max.connections": "1"}, {"max.connections.per.ip": "1"}, {"max.connections.per.ip.overrides": "client:1"},
     {"listener.name.plaintext.max.connections": "1"}],
)  # fmt: skip
def test_limits_of_connections(limits: dict[str, str]) -> None:
    async def refused(node: Story) -> None:
        assert not await is_served(node)

    async def served(node: Story) -> None:
        assert await is_served(node)
        for name, value in limits.items():
            await set_dynamically(node, BROKER, "1", name, value)
        assert not await is_served(node)

    async def main(world: World) -> None:
        async with running(world, **limits) as node:
            await refused(node)

    sim_run(1, main)
    tell(served)


@pytest.mark.parametrize(
    "name", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_rates_of_connections_change_live(name: str) -> None:
    async def story(node: Story) -> None:
        await set_dynamically(node, BROKER, "1", name, "2")
        begun = trio.current_time()
        for _ in range(8):
            assert await is_served(node)
        assert trio.current_time() - begun > 2

    tell(story)


def test_num_io_threads_changes_live() -> None:
    async def story(node: Story) -> None:
        await set_dynamically(node, BROKER, "1", "num.io.threads", "7")
        assert node.broker.env.files.pool_threads == 7  # type: ignore[attr-defined]  # the memory disk's

    tell(story)


# Producers


@pytest.mark.parametrize("is_live", [True, False])
def test_producer_id_expiration_ms_and_its_check_interval(is_live: bool) -> None:
    async def main(world: World) -> None:
        properties = {
            "log.initial.task.delay.ms": "0",
            "producer.id.expiration.check.interval.ms": "2000",
        }
        async with running(
            world, **properties, **({} if is_live else {"producer.id.expiration.ms": "5000"})
        ) as node:
            await node.create_topic("a")
            producer = await node.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4
            )
            content = batch(
                b"x",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=0,
            )
            assert (await node.produce("a", content)).error_code == 0
            await trio.sleep(20)
            assert len(list(log_of(node).producer_state)) == (1 if is_live else 0)
            if is_live:
                await set_dynamically(node, BROKER, "", "producer.id.expiration.ms", "5000")
                await trio.sleep(5)
                assert not list(log_of(node).producer_state)

    sim_run(1, main)


# Groups


def joining(session_timeout_ms: int, member_id: str = "", group: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


async def coordinated(node: Story) -> None:
    """Have the topic of groups created, and wait until its partitions are led."""
    await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    await trio.sleep(1)


@pytest.mark.parametrize(
    ("key", "value", "timeout_ms"),
    [
        ("group.min.session.timeout.ms", "20000", 10_000),
        ("group.max.session.timeout.ms", "8000", 10_000),
    ],
)
def test_session_timeouts_of_members_are_bounded(key: str, value: str, timeout_ms: int) -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        assert (await node.ask(joining(timeout_ms), 3)).error_code == (
            ErrorCode.INVALID_SESSION_TIMEOUT if is_set else 0
        )

    for is_set in (True, False):
        configured(story, {key: value} if is_set else {})


@pytest.mark.parametrize(
    ("size", "code"), [("1", ErrorCode.GROUP_MAX_SIZE_REACHED), ("2", ErrorCode.MEMBER_ID_REQUIRED)]
)
def test_group_max_size(size: str, code: int) -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        first = await node.ask(joining(10_000), 9)
        joined = await node.ask(joining(10_000, first.member_id), 9)
        assert joined.error_code == 0
        other = await node.connect()
        assert (await other.ask(joining(10_000), 9)).error_code == code

    tell(story, group_max_size=size)


@pytest.mark.parametrize("delay_ms", ["0", "4000"])
def test_group_initial_rebalance_delay_ms(delay_ms: str) -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        begun = trio.current_time()
        assert (await node.ask(joining(10_000), 3)).error_code == 0
        assert trio.current_time() - begun == pytest.approx(int(delay_ms) / 1_000, abs=0.5)

    tell(story, group_initial_rebalance_delay_ms=delay_ms)


async def commit(node: Story, note: str = "") -> int:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=3, committed_metadata=note
    )
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="a", partitions=[partition])]
    )
    response = await node.ask(request, 8)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def committed(node: Story) -> int:
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="a", partition_indexes=[0])]
    )
    response = await node.ask(request, 7)
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.parametrize(("limit", "code"), [("5", ErrorCode.OFFSET_METADATA_TOO_LARGE), ("6", 0)])
def test_offset_metadata_max_bytes(limit: str, code: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        assert await commit(node, "a note") == code

    tell(story, offset_metadata_max_bytes=limit)


@pytest.mark.parametrize(("minutes", "offset"), [("1", -1), ("60", 3)])
def test_offsets_retention_minutes_and_its_check_interval(minutes: str, offset: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        assert await commit(node) == 0
        await trio.sleep(150)
        assert await committed(node) == offset

    tell(story, offsets_retention_minutes=minutes, offsets_retention_check_interval_ms="10000")


def test_the_topic_of_groups_is_made_as_configured() -> None:
    """offsets.topic.num.partitions, .segment.bytes, .compression.codec."""

    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        topic = node.broker.image.topics.by_name[OFFSETS]
        assert len(topic.partitions) == 3
        assert node.broker.image.configs.of(2, OFFSETS)["segment.bytes"] == "2000000"
        assert await commit(node, "x" * 500) == 0
        codecs = set()
        for index in range(3):
            content = bytes((await node.fetch(OFFSETS, 0, partition=index)).records or b"")  # type: ignore[call-overload]
            codecs |= {header.attributes & 7 for _, header in iterate_headers(content)}
        assert codecs == {4}

    properties = {
        "offsets.topic.num.partitions": "3",
        "offsets.topic.segment.bytes": "2000000",
        "offsets.topic.compression.codec": "4",
    }
    configured(story, properties)


def test_positions_in_compressed_batches_survive_a_restart() -> None:
    async def main(world: World) -> None:
        async with running(world, offsets_topic_compression_codec="1") as node:
            await node.create_topic("a")
            await coordinated(node)
            assert await commit(node) == 0
        async with running(world) as node:
            await trio.sleep(1)
            assert await committed(node) == 3

    sim_run(1, main)


def test_offsets_topic_replication_factor_has_to_be_reachable() -> None:
    async def story(node: Story) -> None:
        (found,) = (
            await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        ).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    tell(story, offsets_topic_replication_factor="2")


# The metadata log


def snapshots(node: Story) -> list[str]:
    return [
        name
        for name in node.broker.env.files.list_directory(DATA / "__cluster_metadata-0")
        if name.endswith(".checkpoint")
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metadata.log.max.snapshot.interval.ms", "5000"),
        ("metadata.log.max.record.bytes.between.snapshots", "200"),
    ],
)
def test_snapshots_of_the_metadata(key: str, value: str) -> None:
    async def story(node: Story) -> None:
        before = snapshots(node)
        for index in range(4):
            await node.create_topic(f"a{index}")
            await trio.sleep(10)
        assert (snapshots(node) != before) is is_set

    for is_set in (True, False):
        configured(story, {key: value} if is_set else {})


def test_the_metadata_log_rolls_at_its_age() -> None:
    async def story(node: Story) -> None:
        for index in range(3):
            await node.create_topic(f"a{index}")
            await trio.sleep(10)
        names = node.broker.env.files.list_directory(DATA / "__cluster_metadata-0")
        assert len([name for name in names if name.endswith(".log")]) > 1

    tell(story, metadata_log_segment_ms="5000")


@pytest.mark.parametrize("is_short", [True, False])
def test_a_broker_that_is_not_heard_of_is_fenced(is_short: bool) -> None:
    """A session that is shorter than the heartbeat interval runs out between two heartbeats.

    The keys are broker.session.timeout.ms and broker.heartbeat.interval.ms.

    No file may say both; the files of two nodes may.
    """

    async def story(cluster: Cluster) -> None:
        await cluster.until(lambda: cluster.unfenced(1) == [2])
        seen = set()
        for _ in range(20):
            await trio.sleep(0.5)
            seen.add(tuple(cluster.unfenced(1)))
        assert seen == ({(), (2,)} if is_short else {(2,)})

    controller = node_properties(
        1, (1,), "controller", broker_session_timeout_ms="2500" if is_short else "9000"
    )
    tell_cluster(
        story,
        {1: controller, 2: node_properties(2, (1,), "broker", broker_heartbeat_interval_ms="3000")},
    )


def test_a_second_node_with_the_same_directory_is_refused() -> None:
    async def main(world: World) -> None:
        async with running(world):
            pass
        async with running(world, node_id="9", listeners=f"PLAINTEXT://{HOST}:{PORT}"):
            pass

    with pytest.raises(StorageError), one_error():
        sim_run(1, main)
