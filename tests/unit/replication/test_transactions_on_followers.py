"""Followers of an Apache Kafka leader keep its index of aborted transactions.

They keep the last stable offset.
"""

from typing import Any

from log_service.common.types import NO_LEADER_EPOCH
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from log_service.records.control import ControlType, build_end_transaction_marker
from log_service.replication.partition import Partition
from log_service.storage.aborted_transactions import INDEX_ENTRY
from log_service.storage.file_names import TXN_INDEX_SUFFIX
from log_service.storage.log import Log
from tests.helpers.replica_cluster import ReplicaCluster, ReplicaNode, tell_cluster, until
from tests.unit.replication.context import topic_id
from tests.unit.storage.context import NOW_MS, batch

FIRST, SECOND = 7, 8
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def write(node: ReplicaNode, producer_id: int, marker: ControlType | None = None) -> None:
    """Append three records of a transaction, or its end, to the leader's log.

    Apache Kafka's leader would do so.
    """
    partition = node.partition()
    log = node.log()
    header: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_offset": log.log_end_offset,
        "leader_epoch": partition.leader_epoch,
    }
    if marker is None:
        log.append_as_follower(batch(3, base_sequence=0, is_transactional=True, **header))
    else:
        log.append_as_follower(
            build_end_transaction_marker(marker, coordinator_epoch=3, timestamp_ms=NOW_MS, **header)
        )
    partition.note_transactions()
    partition.state.note_append(log.log_end_offset)
    node.replicas.announce((partition,))


async def until_safe(node: ReplicaNode, offset: int) -> Partition:
    await until(lambda: node.partition().high_watermark >= offset)
    return node.partition()


def index_of(log: Log) -> list[tuple[int, ...]]:
    content = log.files.read_bytes(log.segments.active.path(TXN_INDEX_SUFFIX))
    return list(INDEX_ENTRY.iter_unpack(content))


async def committed(node: ReplicaNode, offset: int) -> PartitionData:
    """Ask a follower as a consumer of committed records does that was sent there (KIP-392)."""
    wanted = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=NO_LEADER_EPOCH,
    )
    request = FetchRequest(
        max_bytes=1 << 20,
        isolation_level=1,
        topics=[FetchTopic(topic_id=topic_id("a"), partitions=[wanted])],
    )
    response = await node.ask(request, 13)
    told: PartitionData = response.responses[0].partitions[0]
    return told


def test_a_follower_answers_readers_of_committed_records_as_the_leader_does() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        leader, follower = cluster.node(1), cluster.node(2)
        write(leader, FIRST)
        write(leader, SECOND)
        partition = await until_safe(follower, 6)
        assert (
            partition.state.last_stable_offset == leader.partition().state.last_stable_offset == 0
        )
        assert not (await committed(follower, 0)).records
        write(leader, SECOND, ABORT)
        write(leader, SECOND)
        write(leader, FIRST, ABORT)
        await until_safe(follower, 11)
        assert (
            partition.state.last_stable_offset == leader.partition().state.last_stable_offset == 7
        )
        told = await committed(follower, 0)
        assert len(told.records or b"")
        assert [
            (each.producer_id, each.first_offset) for each in told.aborted_transactions or ()
        ] == [(SECOND, 3), (FIRST, 0)]
        assert (told.high_watermark, told.last_stable_offset) == (11, 7)
        assert (
            index_of(follower.log())
            == index_of(leader.log())
            == [(0, SECOND, 3, 6, 0), (0, FIRST, 0, 10, 7)]
        )
        entry = follower.log().producer_state.get(SECOND)
        assert entry is not None
        assert (entry.coordinator_epoch, entry.current_txn_first_offset) == (3, 7)

    tell_cluster(story, count=2)


def test_a_new_leader_holds_readers_back_where_the_old_one_did() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        follower = cluster.node(2)
        write(cluster.node(1), FIRST)
        write(cluster.node(1), FIRST, COMMIT)
        write(cluster.node(1), SECOND)
        await until_safe(follower, 7)
        await cluster.node(1).kill()
        cluster.change(leader=2, isr=[2])
        state = follower.partition().state
        assert state.is_leader
        assert (state.high_watermark, state.last_stable_offset) == (7, 4)
        assert (await follower.produce("a", bytes(batch()))).error_code == 0
        assert (state.high_watermark, state.last_stable_offset) == (8, 4)
        cluster.change(replicas=[2], isr=[2])
        assert state.last_stable_offset == 4, "a coordinator may still have it ended"

    tell_cluster(story, count=2)


def test_what_a_follower_cuts_off_takes_its_transactions_along() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(2, 1, 3), isr=(2, 1))
        first, second = cluster.node(1), cluster.node(2)
        write(second, FIRST)
        write(second, SECOND)
        write(second, SECOND, ABORT)
        await until_safe(first, 7)
        second.is_deaf = True
        cluster.change(leader=1, isr=[1])
        write(second, FIRST, ABORT)
        write(second, SECOND)
        assert len(index_of(second.log())) == 2
        write(first, FIRST, COMMIT)
        cluster.tell(2)
        await until(lambda: second.bytes_of() == first.bytes_of())
        assert index_of(second.log()) == index_of(first.log()) == [(0, SECOND, 3, 6, 0)]
        assert second.log().aborted_transactions.ended == first.log().aborted_transactions.ended
        assert second.log().producer_state.first_open_offset is None
        await until_safe(second, 8)
        assert second.partition().state.last_stable_offset == 8

    tell_cluster(story)
