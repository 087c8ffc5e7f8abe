"""Others lead for replicas whose log or log directory is damaged.

The replica comes back in sync where that loses nothing.
"""

from collections.abc import Callable

import pytest
import trio

from log_service.common.env import Files
from log_service.common.errors import ErrorCode
from log_service.replication.partition import Partition
from log_service.replication.replica_listener import ReplicaListener
from tests.helpers.replica_cluster import ReplicaCluster, ReplicaNode, tell_cluster, until
from tests.unit.broker.context import batch, fetch_request

SEGMENT = "00000000000000000000.log"


class Lost(ReplicaListener):
    """The partitions that this node leads no more."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_lost(self, partition: Partition) -> None:
        self.names.append(partition.topic_partition.topic)


def test_a_directory_that_fails_ends_every_wait_for_what_lies_there() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        node, lost = cluster.node(1), Lost()
        cluster.create_topic("a", replicas=(1, 2))
        cluster.create_topic("b", replicas=(1, 2))
        cluster.create_topic("followed", replicas=(2, 1))
        node.replicas.add_listener(lost)
        assert (await node.produce("b", batch(b"one"))).error_code == 0
        took: list[float] = []

        async def wait() -> None:
            began = trio.current_time()
            request = fetch_request("b", 1)
            request.max_wait_ms = 20_000
            response = await node.ask(request, 12)
            assert response.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            took.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            node.log("a").home.fail(OSError(5, "the disk is gone"))
        assert took[0] < 1.1
        assert sorted(lost.names) == ["a", "b"]
        await cluster.node(2).produce("followed", batch(b"two"), acks=1)
        await trio.sleep(2)
        assert node.log("followed").log_end_offset == 0, "nothing is fetched any more"

    tell_cluster(story, count=2)


def disk_of(node: ReplicaNode) -> Files:
    """Return the disk of a node that does not run."""
    return node.cluster.world.node_env(node.host).files


def rot(node: ReplicaNode) -> None:
    """Turn a byte in the middle of the segment."""
    path = node.logs.config.log_dirs[0] / "a-0" / SEGMENT
    file = disk_of(node).open(path)
    content = bytes(file.read(200, 1))
    file.write_at(200, bytes([content[0] ^ 0xFF]))
    file.close()


def lose_the_segment(node: ReplicaNode) -> None:
    disk_of(node).remove(node.logs.config.log_dirs[0] / "a-0" / SEGMENT)


def lose_the_end(node: ReplicaNode) -> None:
    file = disk_of(node).open(node.logs.config.log_dirs[0] / "a-0" / SEGMENT)
    file.truncate(100)
    file.close()


async def filled(cluster: ReplicaCluster, *, isr: tuple[int, ...] = (1, 2)) -> None:
    cluster.create_topic(replicas=(1, 2), isr=isr)
    for number in range(5):
        assert (await cluster.node(1).produce("a", batch(b"%d" % number))).error_code == 0
    await until(lambda: len(cluster.isr()) == 2)
    node = cluster.node(2)
    await until(lambda: node.partition().high_watermark == 5)
    await node.log().sync()
    node.logs.checkpoint_writer.write_before_cut(node.log().home)


@pytest.mark.parametrize(
    "damage", [rot, lose_the_segment, lose_the_end], ids=lambda damage: damage.__name__
)
def test_a_follower_whose_log_is_damaged_fetches_it_anew(
    damage: Callable[[ReplicaNode], None],
) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await filled(cluster)
        node = cluster.node(2)
        await node.kill()
        damage(node)
        cluster.change(isr=[1])
        await cluster.start(2)
        await until(lambda: sorted(cluster.isr()) == [1, 2])
        assert node.bytes_of() == cluster.node(1).bytes_of()
        names = node.env.files.list_directory(node.logs.config.log_dirs[0])
        assert sum(name.endswith("-stray") for name in names) == 1, "what was there is kept"
        assert not node.logs.damaged

    tell_cluster(story, count=2)


def test_a_damaged_replica_that_could_be_elected_is_not_emptied_until_it_cannot() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await filled(cluster)
        node = cluster.node(2)
        await node.kill()
        rot(node)
        await cluster.start(2)
        await trio.sleep(5)
        assert node.partition().is_offline, "it is in sync as far as the controller knows"
        await cluster.node(1).produce("a", batch(b"five"), acks=1)
        await until(lambda: cluster.isr() == (1,), 60)
        await until(lambda: sorted(cluster.isr()) == [1, 2], 60)
        assert node.bytes_of() == cluster.node(1).bytes_of()

    tell_cluster(story, count=2)


def test_a_replica_that_is_offline_holds_up_no_other_of_the_same_leader() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await filled(cluster)
        cluster.create_topic("b", replicas=(1, 2))
        node = cluster.node(2)
        await node.kill()
        rot(node)
        await cluster.start(2)
        assert node.partition().is_offline
        assert (await cluster.node(1).produce("b", batch(b"one"))).error_code == 0
        assert node.values("b") == [b"one"]

    tell_cluster(story, count=2)


def test_the_only_replica_in_sync_stays_offline_when_its_log_is_damaged() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await filled(cluster)
        cluster.change(leader=2, isr=[2])
        node = cluster.node(2)
        await node.kill()
        rot(node)
        await cluster.start(2)
        await trio.sleep(60)
        assert node.partition().is_offline
        assert list(node.logs.damaged) == [node.partition().topic_partition]

    tell_cluster(story, count=2)


def test_a_follower_whose_log_begins_behind_the_leaders_end_begins_anew_there() -> None:
    """An unclean election made a leader of a replica that had lost nearly everything."""

    async def story(cluster: ReplicaCluster) -> None:
        await filled(cluster)
        for node in cluster.nodes.values():
            node.partition().truncate_to(5)
        cluster.node(2).log().restart_at(20)
        cluster.node(2).partition().state.note_restart(20)
        cluster.change(leader=1, isr=[1])
        await until(lambda: sorted(cluster.isr()) == [1, 2])
        assert cluster.node(2).log().log_end_offset == cluster.node(1).log().log_end_offset == 5
        assert (await cluster.node(1).produce("a", batch(b"five"))).error_code == 0
        await until(lambda: cluster.node(2).log().log_end_offset == 6)

    tell_cluster(story, count=2)
