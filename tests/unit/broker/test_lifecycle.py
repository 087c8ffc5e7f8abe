"""Starting, stopping, restarting, crashing: what a broker keeps and what it refuses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.common.errors import ErrorCode, StorageError
from log_service.common.types import NodeId
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from log_service.replication.partition import Partition
from tests.sim import Crashed, World, sim_run
from tests.unit.broker.context import (
    DATA,
    HOST,
    PORT,
    RawClient,
    Story,
    batch,
    configuration,
    produce_request,
    running,
    tell,
    values_of,
)
from tests.unit.broker.handlers.groups.group_requests import commit, coordinated, positions


def run(main: Any, seed: int = 1) -> None:
    sim_run(seed, main)


def test_a_graceful_restart_keeps_everything_and_begins_a_new_epoch() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            await node.produce("a", batch(b"one"))
            first_epoch = node.broker.replicas.get_partition("a", 0).leader_epoch
        async with running(world) as node:
            assert values_of((await node.fetch("a", 0)).records) == [b"one"]
            assert (await node.produce("a", batch(b"two"))).base_offset == 1
            assert node.broker.replicas.get_partition("a", 0).leader_epoch > first_epoch

    run(main)


def test_each_start_is_a_new_broker_epoch() -> None:
    async def main(world: World) -> None:
        epochs = []
        for _ in range(3):
            async with running(world) as node:
                epochs.append(node.broker.image.cluster.brokers[NodeId(1)].epoch)
        assert epochs == sorted(set(epochs))

    run(main)


def test_a_stopped_broker_is_fenced_and_leads_nothing() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            assert not node.broker.image.cluster.brokers[NodeId(1)].is_fenced
            await node.broker.stop()
            broker = node.broker.image.cluster.brokers[NodeId(1)]
            assert broker.is_fenced
            assert broker.is_in_controlled_shutdown
            assert node.broker.is_stopped_gracefully

    run(main)


@asynccontextmanager
async def running_until_crash(world: World, **properties: str) -> AsyncIterator[Story]:
    """Run a broker; leaving loses what was not synced and cuts every connection."""
    config, texts = configuration(
        {name.replace("_", "."): value for name, value in properties.items()}
    )
    broker = Broker(world.node_env(HOST), config, static_texts=texts)
    started = _Started()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_until_crash, broker, started)
        await started.event.wait()
        yield Story(world, broker, RawClient(await world.client_env().network.connect(HOST, PORT)))
        world.crash(HOST)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def failing(
    world: World, told: str, properties: dict[str, str] | None = None
) -> AsyncIterator[tuple[Story, trio.Event]]:
    """Run a broker that has to end by itself with ``told``, and the event that it has ended."""
    config, texts = configuration(properties or {})
    broker = Broker(world.node_env(HOST), config, static_texts=texts)
    started, ended = _Started(), trio.Event()

    async def serve() -> None:
        with pytest.raises(StorageError, match=told):
            await broker.run(task_status=started)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await started.event.wait()
        yield (
            Story(world, broker, RawClient(await world.client_env().network.connect(HOST, PORT))),
            ended,
        )


async def _run_until_crash(broker: Broker, started: "_Started") -> None:
    try:
        await broker.run(task_status=started)
    except* Crashed:
        pass


class _Started:
    """A task status that others may wait for."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def started(self, value: object = None) -> None:
        self.event.set()


async def produce_for_ever(node: Story, acknowledged: list[bytes]) -> None:
    number = 0
    with suppress(EOFError, OSError):
        while True:
            value = b"%d" % number
            await trio.sleep(0.001)  # or virtual time would stand still
            if (await node.produce("a", batch(value))).error_code == 0:
                acknowledged.append(value)
            number += 1


@pytest.mark.parametrize("seed", range(8))
def test_after_a_crash_everything_acknowledged_with_flush_messages_1_is_there(seed: int) -> None:
    async def main(world: World) -> None:
        acknowledged: list[bytes] = []
        async with (
            running_until_crash(world, log_flush_interval_messages="1") as node,
            trio.open_nursery() as clients,
        ):
            await node.create_topic("a")
            files: Any = node.broker.env.files
            files.sync_seconds = (0.0, 0.02)
            clients.start_soon(produce_for_ever, node, acknowledged)
            await trio.sleep(world.rng.uniform(0.1, 1.0))
            clients.cancel_scope.cancel()
        assert acknowledged
        async with running(world, log_flush_interval_messages="1") as node:
            found = values_of((await node.fetch("a", 0)).records)
            assert found[: len(acknowledged)] == acknowledged
            assert (await node.produce("a", batch(b"after"))).base_offset == len(found)

    run(main, seed)


@pytest.mark.parametrize("timestamp", [-1, 1_000])
def test_after_a_crash_nobody_is_told_an_end_that_is_not_known_yet(
    timestamp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks for the end waits until the end is known.

    The node syncs recovered records once more before they count. The client does not see an
    empty topic meanwhile.
    """

    sync = Partition.sync

    async def sync_late(partition: Partition) -> bool:
        await trio.sleep(0.5)
        return await sync(partition)

    async def main(world: World) -> None:
        async with running_until_crash(world, log_flush_interval_messages="1") as node:
            await node.create_topic("a")
            await node.produce("a", batch(b"one", b"two", timestamp_ms=1_000))
        monkeypatch.setattr(Partition, "sync", sync_late)
        async with running(world, log_flush_interval_messages="1") as node:
            assert node.broker.replicas.get_partition("a", 0).high_watermark == 0
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name="a", partitions=[wanted])]
            )
            response: ListOffsetsResponse = await node.ask(request, 7)
            assert response.topics[0].partitions[0].offset == (2 if timestamp == -1 else 0)

    run(main)


@pytest.mark.parametrize("seed", range(4))
def test_after_a_crash_the_log_is_a_prefix_and_the_leader_epoch_is_new(seed: int) -> None:
    async def main(world: World) -> None:
        acknowledged: list[bytes] = []
        async with running_until_crash(world) as node, trio.open_nursery() as clients:
            await node.create_topic("a")
            first_epoch = node.broker.replicas.get_partition("a", 0).leader_epoch
            clients.start_soon(produce_for_ever, node, acknowledged)
            await trio.sleep(0.2)
            clients.cancel_scope.cancel()
        async with running(world) as node:
            found = values_of((await node.fetch("a", 0)).records)
            assert found == [b"%d" % number for number in range(len(found))]
            assert node.broker.replicas.get_partition("a", 0).leader_epoch > first_epoch

    run(main, seed)


def test_groups_and_their_positions_survive_a_restart() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            await coordinated(node)
            await commit(node, ("a", 0, 7))
        async with running(world) as node:
            await coordinated(node)
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]
            )
            assert positions(await node.ask(request, 8)) == [("a", 0, 7, 0)]

    run(main)


def test_topics_configuration_and_producer_ids_survive_a_restart() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            topic_id = await node.create_topic("a", 2, max_message_bytes="200")
            first = (await node.ask(InitProducerIdRequest(transactional_id=None), 4)).producer_id
        async with running(world) as node:
            assert node.broker.image.topics.by_name["a"].topic_id == topic_id
            assert (
                await node.produce("a", batch(b"x" * 500))
            ).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert (
                await node.ask(InitProducerIdRequest(transactional_id=None), 4)
            ).producer_id > first

    run(main)


def test_two_brokers_do_not_share_a_directory() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            config, texts = configuration({"listeners": f"PLAINTEXT://{HOST}:9999"})
            second = Broker(node.broker.env, config, static_texts=texts)
            with pytest.raises(StorageError, match="in use"):
                await second.run()
            assert (await node.ask(MetadataRequest(topics=[]), 12)).error_code == 0

    run(main)


def test_a_directory_of_another_node_is_refused_by_name() -> None:
    async def main(world: World) -> None:
        async with running(world):
            pass
        config, texts = configuration({"node.id": "2"})
        with pytest.raises(StorageError, match=r"/data/kafka belongs to node 1, this is node 2"):
            await Broker(world.node_env(HOST), config, static_texts=texts).run()

    run(main)


@pytest.mark.parametrize("apart", [{}, {"metadata.log.dir": "/data/metadata"}])
def test_an_occupied_port_is_told_and_frees_the_directories(apart: dict[str, str]) -> None:
    async def main(world: World) -> None:
        env = world.node_env(HOST)
        config, texts = configuration(apart)
        listener = await env.network.listen(HOST, 9092)
        with pytest.raises(OSError, match="in use"):
            await Broker(env, config, static_texts=texts).run()
        listener.close()
        async with running(world, **apart) as node:
            assert (await node.ask(MetadataRequest(topics=[]), 12)).error_code == 0

    run(main)


@pytest.mark.parametrize(
    ("operation", "path", "told"),
    [
        ("sync", "__cluster_metadata", "metadata log"),
        ("append", "__cluster_metadata", "metadata log"),
        ("append", "a-0", r"log directory /data/kafka failed"),
    ],
)
def test_a_node_ends_when_the_disk_fails_that_it_cannot_do_without(
    operation: str, path: str, told: str
) -> None:
    async def main(world: World) -> None:
        async with failing(world, told) as (node, _):
            await node.create_topic("a")
            files: Any = node.broker.env.files
            files.fail_next(operation, containing=path, count=5)
            with suppress(EOFError, OSError, AssertionError):
                await node.produce("a", batch(b"one"))
                await node.create_topic("b")

    run(main)


def test_connections_end_at_once_when_a_disk_fails_that_still_holds_the_node_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(world: World) -> None:
        two_disks = {"log.dirs": f"{DATA},/data/other", "log.flush.interval.messages": "1"}
        async with failing(world, "log directory /data/kafka failed", two_disks) as (node, ended):
            await node.create_topic("a", 2)
            homes = [
                node.broker.replicas.get_partition("a", index).served_log().home.path
                for index in range(2)
            ]
            doomed = homes.index(DATA)
            idle, late = await node.connect(), await node.connect()
            files: Any = node.broker.env.files
            files.sync_seconds = (60, 60)
            await idle.send(
                CreateTopicsRequest(
                    topics=[CreatableTopic(name="b", num_partitions=1, replication_factor=1)]
                ),
                7,
            )
            await trio.sleep(1)
            files.fail_next("append", containing=f"{DATA}/a-{doomed}")
            await node.client.send(produce_request("a", batch(b"one"), partition=doomed), 9)
            await trio.sleep(1)
            with suppress(EOFError, OSError):
                await late.ask(produce_request("a", batch(b"two"), partition=1 - doomed), 9)
            assert await idle.is_closed()
            assert not ended.is_set()
        assert not [record for record in caplog.records if record.exc_info]

    run(main)


def test_a_log_that_lost_its_topic_id_with_the_power_keeps_its_records() -> None:
    async def main(world: World) -> None:
        async with running(world) as node:
            topic_id = await node.create_topic("a")
            await node.produce("a", batch(b"one"))
        files = world.node_env(HOST).files
        files.remove(DATA / "a-0" / "partition.metadata")
        files.make_directory(DATA / "stray-0")
        async with running(world) as node:
            assert values_of((await node.fetch("a", 0)).records) == [b"one"]
            assert node.broker.replicas.get_partition("a", 0).topic_id == topic_id
            assert files.exists(DATA / "a-0" / "partition.metadata")
            assert any(
                name.startswith("stray-0") and name.endswith("-stray")
                for name in files.list_directory(DATA)
            )

    run(main)


def test_the_high_watermark_is_written_down_now_and_then() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"one", b"two"))
        await trio.sleep(6)
        content = node.broker.env.files.read_bytes(DATA / "replication-offset-checkpoint").decode()
        assert "a 0 2" in content.splitlines()

    tell(story)


def test_an_idle_broker_only_beats() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 20)
        await trio.sleep(30)
        files: Any = node.broker.env.files
        before, syncs = node.world.step_count, files.sync_count
        await trio.sleep(60)
        assert files.sync_count == syncs
        assert node.world.step_count - before < 60 * 20

    tell(story)


def test_a_broker_stays_unfenced() -> None:
    async def story(node: Story) -> None:
        await trio.sleep(3_600)
        assert not node.broker.image.cluster.brokers[NodeId(1)].is_fenced

    tell(story)


def test_a_full_disk_refuses_records_and_goes_on_when_there_is_room() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        files: Any = node.broker.env.files
        space = files.space
        files.space = 50
        assert (
            await node.produce("a", batch(b"x" * 500))
        ).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        files.space = space
        await trio.sleep(60)
        assert (await node.produce("a", batch(b"x" * 500))).error_code == 0
        assert values_of((await node.fetch("a", 0)).records) == [b"x" * 500]

    tell(story)
