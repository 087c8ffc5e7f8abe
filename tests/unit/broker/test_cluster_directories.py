"""Brokers have several log directories.

The controller knows where each replica is, and a directory that fails costs its replicas alone.
"""

import errno
from pathlib import Path

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.common.types import NodeId
from log_service.metadata.partition import UNPLACED_DIRECTORIES, PartitionRegistration
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.replication.partition import Partition
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.sim import MemoryFiles
from tests.unit.broker.context import RawClient, batch, produce_request

DIRS = ("/data/first", "/data/second")
FILES = {
    each: node_properties(
        each,
        (1, 2, 3),
        log_dirs=",".join(DIRS),
        metadata_log_dir="/data/metadata",
        min_insync_replicas="1",
    )
    for each in (1, 2, 3)
}
PARTITIONS = 6
SOON_S = 1.0
"""Well below the two seconds between two heartbeats."""


async def client_of(cluster: Cluster, node_id: int) -> RawClient:
    return RawClient(
        await cluster.world.client_env().network.connect(host_of(node_id), BROKER_PORT)
    )


async def create(cluster: Cluster, name: str = "a", *, factor: int = 3) -> int:
    """Create a topic and return the active controller."""
    controller = await cluster.leader()
    await cluster.until(lambda: len(cluster.unfenced(controller)) == 3)
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=factor)
    response = await (await client_of(cluster, controller)).ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7
    )
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    return controller


def registrations(
    cluster: Cluster, node_id: int, name: str = "a"
) -> dict[int, PartitionRegistration]:
    topic = cluster.brokers[node_id].image.topics.by_name.get(name)
    return {} if topic is None else dict(topic.partitions)


def hosted(cluster: Cluster, node_id: int) -> dict[int, Partition]:
    return {
        index: partition
        for (name, index), partition in cluster.brokers[node_id].replicas.partitions.items()
        if name == "a"
    }


def is_told(cluster: Cluster, node_id: int) -> bool:
    """Whether a node's metadata has every replica where it is, on all nodes."""
    known = registrations(cluster, node_id)
    return len(known) == PARTITIONS and all(
        partition.log is not None
        and known[index].directory_of(each)  # type: ignore[arg-type]
        == broker.foundation.logs.directory_ids[partition.log.home.path]
        for each, broker in cluster.brokers.items()
        for index, partition in hosted(cluster, each).items()
    )


def fail_directory(cluster: Cluster, node_id: int, path: str) -> None:
    """Let every write to a directory fail from now on."""
    files = cluster.brokers[node_id].env.files
    assert isinstance(files, MemoryFiles)
    for operation in ("append", "write", "sync", "open"):
        files.fail_next(operation, error=errno.EIO, containing=path, count=1_000_000)


def test_every_new_replica_is_assigned_to_the_directory_that_holds_it() -> None:
    async def story(cluster: Cluster) -> None:
        controller = await create(cluster)
        await cluster.until(lambda: all(is_told(cluster, each) for each in cluster.brokers), 10)
        places = {
            directory
            for each in registrations(cluster, controller).values()
            for directory in each.directories
        }
        assert len(places) == 6  # both directories of each broker
        assert not places & UNPLACED_DIRECTORIES
        epochs = {
            index: each.leader_epoch for index, each in registrations(cluster, controller).items()
        }
        assert set(epochs.values()) == {0}  # where a replica is changes no leader

    tell_cluster(story, FILES)


def test_reports_wait_for_a_controller_and_survive_its_death() -> None:
    async def story(cluster: Cluster) -> None:
        controller = await create(cluster)
        cluster.kill(controller)  # before, or while, it is told
        other = await cluster.leader()
        await cluster.start(controller)
        await cluster.until(lambda: is_told(cluster, other), 30)

    tell_cluster(story, FILES)


def test_a_replica_that_moves_is_told_again() -> None:
    async def story(cluster: Cluster) -> None:
        controller = await create(cluster)
        await cluster.until(lambda: is_told(cluster, controller), 10)
        moved = hosted(cluster, 2)[0]
        assert moved.log is not None
        before = registrations(cluster, controller)[0].directory_of(2)  # type: ignore[arg-type]
        other = next(path for path in DIRS if path != str(moved.log.home.path))
        dirs = [
            AlterReplicaLogDir(
                path=other, topics=[AlterReplicaLogDirTopic(name="a", partitions=[0])]
            )
        ]
        answer = await (await client_of(cluster, 2)).ask(AlterReplicaLogDirsRequest(dirs=dirs), 2)
        assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
        await cluster.until(
            lambda: registrations(cluster, controller)[0].directory_of(2) != before,  # type: ignore[arg-type]
            10,
        )
        await cluster.until(lambda: is_told(cluster, controller), 10)

    tell_cluster(story, FILES)


def test_leaders_leave_a_directory_that_fails_at_once_and_the_others_stay() -> None:
    async def story(cluster: Cluster) -> None:
        controller = await create(cluster)
        await cluster.until(lambda: all(is_told(cluster, each) for each in cluster.brokers), 10)
        await trio.sleep(0.3)  # so that the next heartbeat is far away
        known = registrations(cluster, controller)
        victim = next(each for each in (1, 2, 3) if each != controller)
        led = {index for index, each in known.items() if each.leader == victim}
        index = min(led)
        log = hosted(cluster, victim)[index].log
        assert log is not None
        path, directory_id = str(log.home.path), known[index].directory_of(victim)  # type: ignore[arg-type]
        there = {
            index
            for index, each in known.items()
            if each.directory_of(victim) == directory_id  # type: ignore[arg-type]
        }
        fail_directory(cluster, victim, path)
        log.home.note_error(OSError(errno.EIO, "the disk is gone"))

        began = trio.current_time()
        await cluster.until(
            lambda: all(
                victim not in registrations(cluster, controller)[each].isr for each in there
            ),
            10,
        )
        assert trio.current_time() - began < SOON_S
        after = registrations(cluster, controller)
        assert all(after[each].leader not in {victim, -1} for each in there)
        assert {index for index, each in after.items() if each.leader == victim} == led - there
        assert all(victim in after[each].isr for each in after.keys() - there)
        assert cluster.unfenced(controller) == [1, 2, 3]

    tell_cluster(story, FILES)


def test_a_broker_that_comes_back_with_a_new_disk_tells_where_its_replicas_are() -> None:
    async def story(cluster: Cluster) -> None:
        await create(cluster)
        victim = 3
        await cluster.until(lambda: is_told(cluster, victim), 10)
        cluster.kill(victim)
        cluster.wipe(victim)
        await cluster.start(victim)
        await cluster.until(lambda: all(is_told(cluster, each) for each in cluster.brokers), 30)
        online = cluster.brokers[victim].image.cluster.brokers[NodeId(victim)]
        assert all(
            online.has_online(each.directory_of(NodeId(victim)))  # type: ignore[arg-type]
            for each in registrations(cluster, victim).values()
        )
        await cluster.until(
            lambda: all(victim in each.isr for each in registrations(cluster, victim).values()), 30
        )

    brokers = {
        each: node_properties(each, (1,), "broker", min_insync_replicas="1") for each in (2, 3)
    }
    tell_cluster(story, {1: node_properties(1, (1,), min_insync_replicas="1"), **brokers})


def test_records_of_a_deleted_topic_do_not_come_up_in_a_new_one_of_its_name_though_their_log_lost_its_topic_id() -> (
    None
):
    async def story(cluster: Cluster) -> None:
        controller = await create(cluster)
        victim = next(each for each in (1, 2, 3) if each != controller)
        client = await client_of(cluster, registrations(cluster, controller)[0].leader)
        await client.ask(produce_request("a", batch(b"old", b"older")), 9)
        await cluster.until(lambda: end_of(cluster, victim) == 2)
        await cluster.stop(victim)
        files = cluster.world.node_env(host_of(victim)).files
        home = next(Path(path) for path in DIRS if files.exists(Path(path) / "a-0"))
        files.remove(home / "a-0" / "partition.metadata")
        ask = (await client_of(cluster, controller)).ask
        await ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=10_000), 6)
        assert (
            await ask(
                CreateTopicsRequest(
                    topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=3)],
                    timeout_ms=10_000,
                ),
                7,
            )
        ).topics[0].error_code == 0
        await cluster.until(lambda: 0 in registrations(cluster, controller))
        client = await client_of(cluster, registrations(cluster, controller)[0].leader)
        await client.ask(produce_request("a", batch(b"new")), 9)

        await cluster.start(victim)
        await cluster.until(lambda: len(registrations(cluster, controller)[0].isr) == 3)
        assert end_of(cluster, victim) == 1
        assert [
            name
            for name in files.list_directory(home)
            if name.startswith("a-0") and name.endswith("-stray")
        ]

    tell_cluster(story, FILES)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_directory_that_returns_with_a_replica_that_began_anew_beside_it_does_not_stop_a_start(
    *, is_damaged: bool
) -> None:
    """A node starts although two directories hold a log of one topic.

    Each start was refused. If the newer log was damaged, the older one was served.
    """

    async def story(cluster: Cluster) -> None:
        controller, victim, old, new = await begin_anew(cluster)
        files = disk_of(cluster, victim)
        assert all("a-0" in files.list_directory(each) for each in (old, new))
        if is_damaged:
            files.write_atomically(new / "a-0" / "leader-epoch-checkpoint", b"junk")

        await cluster.start(victim)
        await cluster.until(lambda: len(registrations(cluster, controller)[0].isr) == 3)
        assert served_in(cluster, victim) == new
        assert [
            name
            for name in files.list_directory(old)
            if name.startswith("a-0.") and name.endswith("-stray")
        ]
        assert not cluster.brokers[victim].foundation.logs.damaged

    tell_cluster(story, FILES)


def test_a_stale_log_is_not_served_by_a_broker_that_starts_without_the_directory_that_counts() -> (
    None
):
    """It was served, and the controller was told that the replica is there."""

    async def story(cluster: Cluster) -> None:
        controller, victim, old, new = await begin_anew(cluster)
        files, new_id = (
            disk_of(cluster, victim),
            registrations(cluster, controller)[0].directory_of(NodeId(victim)),
        )
        before = {
            name: files.read_bytes(old / "a-0" / name) for name in files.list_directory(old / "a-0")
        }
        files.disk.failed = new
        await cluster.start(victim)
        await cluster.until(lambda: len(cluster.unfenced(controller)) == 3)
        await cluster.until(lambda: hosted(cluster, victim).keys() >= {0})
        client = await client_of(cluster, registrations(cluster, controller)[0].leader)
        await client.ask(produce_request("a", batch(b"new")), 9)
        await trio.sleep(30)
        assert hosted(cluster, victim)[0].is_offline
        known = registrations(cluster, controller)[0]
        assert (known.directory_of(NodeId(victim)), victim in known.isr) == (new_id, False)
        assert before == {
            name: files.read_bytes(old / "a-0" / name) for name in files.list_directory(old / "a-0")
        }
        await cluster.stop(victim)
        files.disk.failed = None

        await cluster.start(victim)
        await cluster.until(lambda: len(registrations(cluster, controller)[0].isr) == 3)
        assert served_in(cluster, victim) == new
        assert end_of(cluster, victim) == 1

    tell_cluster(story, FILES)


async def begin_anew(cluster: Cluster) -> tuple[int, int, Path, Path]:
    """Have a replica begin anew while its directory is offline, and stop its broker.

    Returns the controller, the broker, and the directories that hold the old log and the new one.
    """
    controller = await create(cluster)
    await cluster.until(lambda: all(is_told(cluster, each) for each in cluster.brokers), 10)
    victim = next(each for each in (1, 2, 3) if each != controller)
    others = [each for each in (1, 2, 3) if each != victim]
    old = served_in(cluster, victim)
    await cluster.stop(victim)
    files = disk_of(cluster, victim)
    files.disk.failed = old
    await cluster.start(victim)
    await cluster.until(lambda: len(cluster.unfenced(controller)) == 3)
    await reassign(cluster, controller, others)
    await reassign(cluster, controller, [*others, victim])
    new = served_in(cluster, victim)
    assert new != old
    new_id = cluster.brokers[victim].foundation.logs.directory_ids[new]
    await cluster.until(
        lambda: registrations(cluster, controller)[0].directory_of(NodeId(victim)) == new_id
    )
    await cluster.stop(victim)
    files.disk.failed = None
    return controller, victim, old, new


def disk_of(cluster: Cluster, node_id: int) -> MemoryFiles:
    files = cluster.world.node_env(host_of(node_id)).files
    assert isinstance(files, MemoryFiles)
    return files


def served_in(cluster: Cluster, node_id: int) -> Path:
    log = hosted(cluster, node_id)[0].log
    assert log is not None
    return log.home.path


async def reassign(cluster: Cluster, controller: int, replicas: list[int]) -> None:
    """Put the first partition on other brokers, and wait until it is there."""
    topics = [
        ReassignableTopic(
            name="a", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)]
        )
    ]
    ask = (await client_of(cluster, controller)).ask
    answer = await ask(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000), 1)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await cluster.until(
        lambda: sorted(registrations(cluster, controller)[0].isr) == sorted(replicas)
    )


def end_of(cluster: Cluster, node_id: int) -> int:
    log = hosted(cluster, node_id)[0].log if 0 in hosted(cluster, node_id) else None
    return -1 if log is None else log.log_end_offset
