"""Followers of a running cluster copy their leader byte for byte.

They join and leave the ISR, and mend their logs.
"""

import logging
from uuid import UUID

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.alter_partition import AlterPartitionRequest
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.fetch import FetchResponse
from log_service.replication.fetcher import Fetcher
from log_service.replication.follower_state import UNKNOWN_OFFSET
from log_service.replication.isr_changes import RESEND_MS
from log_service.rpc.connection import RpcConnection
from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until
from tests.unit.broker.context import batch


def test_what_is_acknowledged_is_on_every_in_sync_replica_byte_for_byte() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        for number in range(20):
            result = await cluster.node(1).produce("a", batch(b"%d" % number))
            assert (result.error_code, result.base_offset) == (0, number)
            for node in cluster.nodes.values():
                assert node.log().log_end_offset == number + 1
        assert (
            cluster.node(1).bytes_of() == cluster.node(2).bytes_of() == cluster.node(3).bytes_of()
        )
        assert cluster.node(3).log().leader_epochs.entries == [(0, 0)]
        await trio.sleep(1)
        assert cluster.node(3).partition().high_watermark == 20

    tell_cluster(story)


def test_a_replica_that_catches_up_joins_and_one_that_dies_leaves() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3), isr=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3])
        (joined,) = cluster.alterations
        members = {
            each.broker_id: each.broker_epoch
            for each in joined.topics[0].partitions[0].new_isr_with_epochs
        }
        assert (members[1], members[3]) == (-1, cluster.node(3).epoch)
        assert members[2] in (-1, cluster.node(2).epoch), (
            "it has fetched since this node leads, or not yet"
        )
        await cluster.node(3).kill()
        assert (
            await cluster.node(1).produce("a", batch(b"two"))
        ).error_code == ErrorCode.REQUEST_TIMED_OUT
        took = await until(lambda: sorted(cluster.isr()) == [1, 2], 60)
        assert 28 < took + 1 < 46
        assert (await cluster.node(1).produce("a", batch(b"three"))).error_code == 0
        await cluster.start(3)
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3])
        assert cluster.node(3).bytes_of() == cluster.node(1).bytes_of()

    tell_cluster(story)


def test_a_fenced_broker_does_not_join() -> None:
    """KIP-841: the controller would not elect it, and the high watermark does not wait for it."""

    async def story(cluster: ReplicaCluster) -> None:
        cluster.fence(3)
        cluster.create_topic(replicas=(1, 2, 3), isr=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))
        await trio.sleep(3)
        assert cluster.node(3).log().log_end_offset == 1
        assert (sorted(cluster.isr()), cluster.alterations) == ([1, 2], [])
        cluster.fence(3, is_fenced=False)
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3])

    tell_cluster(story)


def test_an_old_leader_cuts_off_what_the_new_one_never_had() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        cluster.world.network.isolate("host1", ["host2", "host3"])
        await cluster.node(1).produce("a", batch(b"lost"), acks=1)
        await cluster.node(1).produce("a", batch(b"lost too"), acks=1)
        cluster.node(1).is_deaf = True
        cluster.change(leader=2, isr=[2, 3])
        assert (await cluster.node(2).produce("a", batch(b"two"))).error_code == 0
        cluster.world.network.heal()
        cluster.tell(1)
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3], 10)
        assert (
            cluster.node(1).values()
            == cluster.node(2).values()
            == cluster.node(3).values()
            == [b"one", b"two"]
        )
        assert cluster.node(1).bytes_of() == cluster.node(2).bytes_of()
        assert (
            cluster.node(1).log().leader_epochs.entries
            == cluster.node(2).log().leader_epochs.entries
        )

    tell_cluster(story)


def test_an_old_leader_learns_what_is_safe_from_a_leader_that_appends_no_more() -> None:
    """Consumers may read from it (KIP-392): what it does not know to be safe they would not get."""

    async def story(cluster: ReplicaCluster) -> None:
        await follow_a_leader_that_has_less(cluster)

    tell_cluster(story)


def test_what_came_too_late_for_its_leader_epoch_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The response with the safe offset comes with the news of another epoch.

    The leader takes it for told, as Apache Kafka's do.
    """
    take = Fetcher.take_response

    async def story(cluster: ReplicaCluster) -> None:
        async def take_too_late(
            fetcher: Fetcher, response: FetchResponse, connection: RpcConnection
        ) -> None:
            if any(
                told.high_watermark == 1
                for topic in response.responses
                for told in topic.partitions
            ):
                monkeypatch.setattr(Fetcher, "take_response", take)
                cluster.change(leader=1)
            await take(fetcher, response, connection)

        monkeypatch.setattr(Fetcher, "take_response", take_too_late)
        cluster.create_topic(replicas=(1, 2))
        assert (await cluster.node(1).produce("a", batch(b"one"))).error_code == 0
        await until(lambda: Fetcher.take_response is take)
        assert (
            cluster.node(2).partition().leader_epoch,
            cluster.node(2).partition().high_watermark,
        ) == (1, 0)
        await until(lambda: cluster.node(2).partition().high_watermark == 1)

    tell_cluster(story, count=2)


async def follow_a_leader_that_has_less(cluster: ReplicaCluster) -> None:
    """Have node 1 lead with a record more than node 2, which leads now.

    Node 1 does not know that the first record is safe.
    """
    await cluster.node(3).kill()
    cluster.create_topic(replicas=(1, 2, 3))
    await cluster.node(1).produce("a", batch(b"one"), acks=1)
    await until(lambda: cluster.node(2).log().log_end_offset == 1)
    cluster.world.network.isolate("host1", ["host2", "host3"])
    await cluster.node(1).produce("a", batch(b"lost"), acks=1)
    cluster.node(1).is_deaf = True
    cluster.change(leader=2, isr=[2])
    assert (
        cluster.node(1).partition().high_watermark,
        cluster.node(2).partition().high_watermark,
    ) == (0, 1)
    cluster.world.network.heal()
    cluster.tell(1)
    await until(lambda: cluster.node(1).values() == [b"one"], 10)
    await until(lambda: cluster.node(1).partition().high_watermark == 1)


def test_logs_that_parted_in_several_epochs_meet_again() -> None:
    """The leader's largest epoch may be unknown to the follower, so that it asks again (KIP-279)."""

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"both"))
        for leader, other in ((1, 2), (2, 1), (1, 2), (2, 1)):
            await cluster.node(other).kill()
            cluster.change(leader=leader, isr=[leader])
            for number in range(3):
                await cluster.node(leader).produce(
                    "a", batch(b"%d of %d" % (number, leader)), acks=1
                )
            await cluster.node(leader).kill()
            await cluster.start(other)
            cluster.change(leader=other, isr=[other])
            await cluster.node(other).produce("a", batch(b"alone %d" % other), acks=1)
            await cluster.start(leader)
            await until(lambda: len(cluster.isr()) == 2, 10)
            assert cluster.node(1).bytes_of() == cluster.node(2).bytes_of()

    tell_cluster(story, count=2)


def test_a_leader_that_appended_nothing_in_its_epoch_follows_again() -> None:
    """It noted an epoch that no other log has."""

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))
        cluster.node(2).is_deaf = True
        for _ in range(3):
            cluster.change(leader=1)
        assert cluster.node(1).log().leader_epochs.entries == [(0, 0), (3, 1)]
        cluster.change(leader=2)
        cluster.tell(2)
        assert (await cluster.node(2).produce("a", batch(b"two"))).error_code == 0
        assert cluster.node(1).bytes_of() == cluster.node(2).bytes_of()
        assert (
            cluster.node(1).log().leader_epochs.entries
            == cluster.node(2).log().leader_epochs.entries
        )

    tell_cluster(story, count=2)


def test_a_follower_whose_records_the_leader_has_deleted_begins_where_the_leader_does() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), isr=(1,))
        await cluster.node(2).kill()
        for number in range(10):
            await cluster.node(1).produce("a", batch(b"%d" % number), acks=1)
        cluster.node(1).partition().delete_records(6)
        await cluster.start(2)
        await until(lambda: len(cluster.isr()) == 2)
        log = cluster.node(2).log()
        assert (log.log_start_offset, log.log_end_offset) == (6, 10)
        assert cluster.node(2).values() == [b"6", b"7", b"8", b"9"]
        await cluster.node(2).kill()
        await cluster.start(2)
        assert cluster.node(2).log().log_start_offset == 6

    tell_cluster(story, count=2)


def test_a_log_start_inside_a_batch_reaches_an_empty_follower() -> None:
    """The first batch that comes begins before the offset that was asked for."""

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), isr=(1,))
        await cluster.node(2).kill()
        await cluster.node(1).produce("a", batch(b"0", b"1", b"2", b"3"), acks=1)
        cluster.node(1).partition().delete_records(2)
        await cluster.start(2)
        await until(lambda: len(cluster.isr()) == 2)
        log = cluster.node(2).log()
        assert (log.log_start_offset, log.log_end_offset) == (2, 4)
        assert cluster.node(2).bytes_of() == cluster.node(1).bytes_of()

    tell_cluster(story, count=2)


@pytest.mark.parametrize("start_offset", [2, 3, 4, 5])
@pytest.mark.parametrize("lost", [(1, 1, 1), (3,), (2, 3), (4,)], ids=str)
def test_an_old_leader_keeps_nothing_of_its_own_below_the_start_of_the_new_one(
    lost: tuple[int, ...], start_offset: int
) -> None:
    """The new leader has deleted the place where the logs parted.

    A kill must not bring back the old leader's records there. ``lost`` are the batches of the old
    leader from offset 1 on; the new one has a batch of two records at offsets 1, 3 and 5 each.
    """

    async def story(cluster: ReplicaCluster) -> None:
        old, new = cluster.node(1), cluster.node(2)
        cluster.create_topic(replicas=(1, 2))
        await old.produce("a", batch(b"both"))
        cluster.world.network.isolate("host1", ["host2"])
        old.is_deaf = True
        for count in lost:
            await old.produce("a", batch(*[b"lost"] * count), acks=1)
        cluster.change(leader=2, isr=[2])
        for number in range(1, 7, 2):
            await new.produce("a", batch(b"%d" % number, b"%d" % (number + 1)), acks=1)
        new.partition().delete_records(start_offset)
        cluster.world.network.heal()
        cluster.tell(1)
        await until(lambda: sorted(cluster.isr()) == [1, 2])
        assert old.bytes_of() == new.bytes_of()
        await old.kill()
        await cluster.start(1)
        await until(lambda: old.partition().state.leader == 2)
        log = old.log()
        assert b"lost" not in b"".join(log.read_batches(log.log_start_offset))
        assert [epoch for epoch, _ in log.leader_epochs.entries] == [1], (
            "the epoch of the new leader alone"
        )
        assert old.values()[-1] == b"6"

    tell_cluster(story, count=2)


def delete_request(offset: int, timeout_ms: int = 5_000) -> DeleteRecordsRequest:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="a", partitions=[wanted])], timeout_ms=timeout_ms
    )


def test_deleted_records_go_on_followers_too_before_the_response() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        for number in range(5):
            await cluster.node(1).produce("a", batch(b"%d" % number))
        response = await cluster.node(1).ask(delete_request(3), 2)
        (result,) = response.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (0, 3)
        assert [node.log().log_start_offset for node in cluster.nodes.values()] == [3, 3, 3]

    tell_cluster(story)


def test_a_follower_whose_log_was_compared_keeps_its_files_where_all_is_deleted() -> None:
    """Only what nobody can compare any more is dropped at once, with what it says of producers.
    Retention takes the rest.
    """

    async def story(cluster: ReplicaCluster) -> None:
        leader, follower = cluster.node(1), cluster.node(2)
        cluster.create_topic(replicas=(1, 2))
        for number in range(5):
            await leader.produce("a", batch(b"%d" % number))
        cluster.change(leader=1)
        await trio.sleep(1)
        await leader.ask(delete_request(-1), 2)
        assert (follower.log().log_start_offset, follower.log().segments[0].base_offset) == (5, 0)
        await leader.produce("a", batch(b"a record of the new epoch"))
        await leader.ask(delete_request(-1), 2)
        await follower.kill()
        await cluster.start(2)
        assert follower.log().log_start_offset < 6, "it was not written down"
        await until(lambda: follower.log().log_start_offset == 6)
        assert follower.log().segments[0].base_offset == 0

    tell_cluster(story, count=2)


def test_a_deletion_waits_for_live_replicas_alone() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        for number in range(5):
            await cluster.node(1).produce("a", batch(b"%d" % number))
        await cluster.node(3).kill()
        (late,) = (
            (await cluster.node(1).ask(delete_request(3, timeout_ms=2_000), 2)).topics[0].partitions
        )
        assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        cluster.nursery.start_soon(fence_later, cluster)
        began = trio.current_time()
        (done,) = (await cluster.node(1).ask(delete_request(4), 2)).topics[0].partitions
        assert (done.error_code, done.low_watermark) == (0, 4)
        assert 0.9 < trio.current_time() - began < 1.6

    tell_cluster(story)


async def fence_later(cluster: ReplicaCluster) -> None:
    await trio.sleep(1)
    cluster.fence(3)


def test_a_follower_that_syncs_promises_only_what_is_synced() -> None:
    """The next fetch tells the leader the end of this replica.

    With flush.messages=1 that outlives the loss of power.
    """

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), flush_messages="1")
        await cluster.node(1).produce("a", batch(b"zero"))
        slow = cluster.node(2).env.files
        slow.sync_seconds = (0.2, 0.2)  # type: ignore[attr-defined]  # of the memory disk
        began = trio.current_time()
        assert (await cluster.node(1).produce("a", batch(b"one"))).error_code == 0
        assert trio.current_time() - began > 0.19
        assert cluster.node(2).log().recovery_point == 2

    tell_cluster(story, count=2)


def test_a_follower_whose_leader_changes_while_it_syncs_tells_the_next_one_only_what_is_synced() -> (
    None
):
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3), flush_messages="1")
        await cluster.node(1).produce("a", batch(b"zero"))
        slow = cluster.node(2).env.files
        slow.sync_seconds = (0.5, 0.5)  # type: ignore[attr-defined]  # of the memory disk
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.node(1).produce, "a", batch(b"one"))
            await until(
                lambda: all(cluster.node(number).log().log_end_offset == 2 for number in (2, 3))
            )
            cluster.change(leader=3)
            assert cluster.node(2).log().recovery_point == 1
            await until(lambda: cluster.node(3).partition().high_watermark == 2)
        assert cluster.node(2).log().recovery_point == 2

    tell_cluster(story)


def test_a_new_partition_does_not_wait_behind_a_request_that_waits_at_the_leader() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic("idle", replicas=(1, 2))
        await trio.sleep(2.1)
        cluster.create_topic("a", replicas=(1, 2))
        began = trio.current_time()
        assert (await cluster.node(1).produce("a", batch(b"one"))).error_code == 0
        assert trio.current_time() - began < 0.1
        assert cluster.node(2).pool.open_count == 1

    tell_cluster(story, count=2)


def test_many_new_partitions_do_not_cost_a_connection_each() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic("idle", replicas=(1, 2))
        await trio.sleep(2)
        for number in range(100):
            cluster.create_topic(
                f"a{number}", replicas=(1, 2), identity=TopicId(UUID(int=5_000 + number))
            )
            await trio.sleep(0.01)
        await trio.sleep(1)
        assert len(cluster.node(2).replicas.partitions) == 101
        fetches = cluster.node(1).meters[ApiKey.FETCH].followers
        assert fetches is not None
        assert 0 < fetches.versions[18] < 40
        assert cluster.node(1).meters[ApiKey.API_VERSIONS].versions[3] < 15, (
            "each connection begins with one"
        )

    tell_cluster(story, count=2)


def test_followers_at_rest_ask_twice_a_second_and_name_nothing() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), partitions=50)
        await trio.sleep(2)
        sent, began = cluster.node(2).pool.bytes_sent, cluster.world.step_count
        await trio.sleep(60)
        assert cluster.node(2).pool.bytes_sent - sent < 120 * 100, "about 60 bytes each"
        assert cluster.world.step_count - began < 120 * 30

    tell_cluster(story, count=2)


def test_a_dead_leader_is_left_alone_and_news_of_another_end_the_pause() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        await cluster.node(1).kill()
        await trio.sleep(10)
        assert cluster.node(3).pool.failed_total < 15
        cluster.change(leader=2, isr=[2, 3])
        began = trio.current_time()
        assert (await cluster.node(2).produce("a", batch(b"two"))).error_code == 0
        assert trio.current_time() - began < 0.1

    tell_cluster(story)


def test_a_leader_that_has_not_heard_yet_is_asked_again_soon() -> None:
    """The follower's metadata are ahead of the leader's: that takes milliseconds, not a second."""

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        cluster.node(2).is_deaf = True
        cluster.change(leader=2)
        await trio.sleep(0.15)
        cluster.tell(2)
        began = trio.current_time()
        assert (await cluster.node(2).produce("a", batch(b"one"))).error_code == 0
        assert trio.current_time() - began < 0.3

    tell_cluster(story)


def test_a_topic_that_is_created_again_begins_empty_on_followers() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"old"))
        cluster.delete_topic()
        cluster.create_topic(replicas=(1, 2), identity=TopicId(UUID(int=77)))
        assert (await cluster.node(1).produce("a", batch(b"new"))).error_code == 0
        assert cluster.node(2).values() == [b"new"]

    tell_cluster(story, count=2)


def test_a_replica_that_is_taken_away_is_fetched_no_more_and_its_log_goes() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        cluster.change(leader=1, replicas=[1, 2], isr=[1, 2])
        await trio.sleep(1)
        assert cluster.node(3).replicas.partitions == {}
        assert list(cluster.node(3).logs.logs) == []
        assert cluster.node(3).pool.open_count == 0
        assert (await cluster.node(1).produce("a", batch(b"two"))).error_code == 0

    tell_cluster(story)


def test_a_replica_that_is_left_alone_fetches_no_more() -> None:
    """The fetcher of a moved partition would ask the former leader for ever, without a pause.

    The partition has one replica.
    """

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))
        cluster.change(leader=2, replicas=[2], isr=[2])
        began = cluster.world.step_count
        await trio.sleep(10)
        assert cluster.node(2).pool.open_count == 0
        assert cluster.world.step_count - began < 1_000

    tell_cluster(story, count=2)


def test_a_follower_that_gets_no_metadata_of_a_later_epoch_says_so_once_and_only_when_that_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every election leaves followers behind for a moment, and that is no news."""
    caplog.set_level(logging.INFO)

    def told() -> list[str]:
        return [each for each in caplog.messages if "later leader epoch" in each]

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2))
        await cluster.node(1).produce("a", batch(b"one"))
        for is_long in (False, True):
            cluster.node(2).is_deaf = True
            cluster.change(leader=1)
            await trio.sleep(60 if is_long else 5)
            cluster.tell(2)
            await cluster.node(1).produce("a", batch(b"more"))
            await trio.sleep(60)
            assert len(told()) == is_long, told()
        assert told()[0].startswith(
            "a-0 has waited 10 s for the metadata of a later leader epoch, which broker 1 has"
        )

    tell_cluster(story, count=2)


REFUSALS: list[tuple[ErrorCode | KafkaError, int]] = [
    (ErrorCode.INELIGIBLE_REPLICA, 1),
    (ErrorCode.FENCED_LEADER_EPOCH, 0),
    (ErrorCode.INVALID_UPDATE_VERSION, 0),
    (ErrorCode.INVALID_REQUEST, 0),
    (ErrorCode.UNKNOWN_TOPIC_ID, 0),
    (ErrorCode.NOT_CONTROLLER, 2),
    (ErrorCode.UNKNOWN_SERVER_ERROR, 2),
    (KafkaError(ErrorCode.STALE_BROKER_EPOCH, "it registers just now"), 2),
]


@pytest.mark.parametrize(("refusal", "least"), REFUSALS, ids=str)
def test_what_becomes_of_a_proposal_that_is_refused(
    refusal: ErrorCode | KafkaError, least: int
) -> None:
    """A refused proposal waits, ends, or is sent again.

    0: it waits for metadata; 1: it is void, and another fetch proposes again; 2: it is sent again,
    after a pause.
    """

    def refuse(_request: AlterPartitionRequest) -> ErrorCode | KafkaError:
        return refusal

    async def story(cluster: ReplicaCluster) -> None:
        cluster.refusal = refuse
        cluster.create_topic(replicas=(1, 2), isr=(1,))
        await trio.sleep(2.2)
        state = cluster.node(1).partition().state
        if least == 0:
            assert len(cluster.alterations) == 1
            assert state.proposal is not None
            cluster.refusal = lambda _request: None
            cluster.change(isr=[1])
        else:
            assert len(cluster.alterations) > (1 if least == 1 else 10)
            assert len(cluster.alterations) <= 2.2 * 1_000 / RESEND_MS + 1, (
                "a controller in trouble is not asked without a pause"
            )
            cluster.refusal = lambda _request: None
        await until(lambda: sorted(cluster.isr()) == [1, 2])
        assert state.proposal is None

    tell_cluster(story, count=2)


def test_a_leader_counts_what_became_of_its_proposals() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        counts = cluster.node(1).replicas.remote
        cluster.refusal = lambda _request: (
            ErrorCode.INELIGIBLE_REPLICA if not cluster.alterations[1:] else None
        )
        cluster.create_topic(replicas=(1, 2), isr=(1,))
        await until(lambda: sorted(cluster.isr()) == [1, 2])
        await until(lambda: counts.isr_change_counts == (0, 1, 1))
        await cluster.node(2).kill()
        await cluster.node(1).produce("a", batch(b"one"), acks=1)
        await until(lambda: cluster.isr() == (1,), 60)
        await until(lambda: counts.isr_change_counts == (1, 1, 1))

    tell_cluster(story, count=2)


def test_proposals_of_many_partitions_travel_together_one_request_at_a_time() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), isr=(1,), partitions=40)
        await until(
            lambda: all(
                len(each.isr) == 2 for each in cluster.image.topics.by_name["a"].partitions.values()
            )
        )
        assert len(cluster.alterations) <= 3

    tell_cluster(story, count=2)


def test_a_proposal_waits_for_the_response_to_the_one_before() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        cluster.decision_seconds = 2.0
        for name in ("a", "b", "c"):
            cluster.create_topic(name, replicas=(1, 2), isr=(1,))
            await trio.sleep(0.5)
        await until(lambda: all(len(cluster.isr(name)) == 2 for name in ("a", "b", "c")))
        assert cluster.most_at_once == 1
        assert len(cluster.alterations) == 2, "what came meanwhile goes together"

    tell_cluster(story, count=2)


def test_a_follower_that_restarts_within_an_earlier_proposal_is_not_taken_for_its_earlier_life() -> (
    None
):
    """KIP-903: the proposal names the epoch of the fetch, not that of the newest registration."""

    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2), isr=(1,))
        await until(lambda: len(cluster.isr()) == 2)
        first = cluster.node(2).epoch
        await cluster.node(2).kill()
        cluster.change(isr=[1])
        await cluster.start(2)
        await until(lambda: len(cluster.isr()) == 2)
        epochs = [
            {
                each.broker_id: each.broker_epoch
                for each in request.topics[0].partitions[0].new_isr_with_epochs
            }[2]
            for request in cluster.alterations
        ]
        assert epochs == [first, cluster.node(2).epoch]

    tell_cluster(story, count=2)


def test_the_high_watermark_is_known_after_a_failover_only_when_the_isr_has_what_the_epoch_began_with() -> (
    None
):
    async def story(cluster: ReplicaCluster) -> None:
        cluster.create_topic(replicas=(1, 2, 3))
        await cluster.node(1).produce("a", batch(b"one"))
        await cluster.node(1).kill()
        cluster.world.network.isolate("host2", ["host3"])
        cluster.change(leader=2, isr=[2, 3])
        partition = cluster.node(2).partition()
        assert (partition.high_watermark, partition.is_end_known) == (0, False)
        cluster.world.network.heal()
        await until(lambda: partition.is_end_known)
        assert partition.high_watermark == 1
        assert partition.state.followers[1].log_end_offset == UNKNOWN_OFFSET

    tell_cluster(story)
