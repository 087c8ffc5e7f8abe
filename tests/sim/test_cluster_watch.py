"""Witnesses of a cluster find no fault with a node at work.

They name each thing that no node may do.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.client import Admin, NewTopic, Producer
from log_service.common.java_hashing import hashed_partition
from log_service.common.types import (
    GROUP_METADATA_TOPIC,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
)
from log_service.controller.death_watch import DeathWatch
from log_service.metadata.image import EMPTY_IMAGE, BrokerRegistration, MetadataImage
from log_service.metadata.partition import (
    LOST_DIRECTORY,
    NO_LEADER,
    RECOVERING,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
)
from log_service.raft.batches import MetadataBatch
from log_service.raft.events import Effects, RequestArrived
from log_service.raft.messages import VoteRequest, VoteResponse
from log_service.raft.roles import Unattached
from log_service.raft.voters import ReplicaKey, Voter, VoterChange, VoterSet
from tests.sim import World
from tests.sim.cluster_watch import ClusterWatch
from tests.sim.metadata_witness import MetadataWitness
from tests.sim.node_history import NEVER, Poll, SeenRecord, Send, Superseded
from tests.sim.node_host import BOOTSTRAP, Death, NodeHost, node_config
from tests.sim.quorum_witness import _Reader, _Vote
from tests.sim.world import sim_run

TOPIC = "watched"


def with_broker(image: MetadataImage, broker: BrokerRegistration) -> MetadataImage:
    return replace(
        image,
        cluster=replace(image.cluster, brokers={**image.cluster.brokers, broker.node_id: broker}),
    )


def with_group_partition(image: MetadataImage, partition: PartitionRegistration) -> MetadataImage:
    topic = image.topics.by_name[GROUP_METADATA_TOPIC]
    changed = replace(
        topic, partitions={**topic.partitions, hashed_partition("group", 2): partition}
    )
    return replace(
        image,
        topics=replace(
            image.topics, by_name={**image.topics.by_name, GROUP_METADATA_TOPIC: changed}
        ),
    )


def found_after(
    act: Callable[[NodeHost, ClusterWatch], Awaitable[None]], *, is_synced: bool = True
) -> list[str]:
    """A watch finds what is done to a serving node behind its back."""
    texts: list[str] = []

    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            host = NodeHost(
                world,
                nursery,
                *node_config({"log.flush.interval.messages": "1"} if is_synced else {}),
            )
            await trio.lowlevel.checkpoint()
            world.node_env(host.name)
            watch = ClusterWatch([host], lambda _topic, _index: True)
            with watch.watching():
                await host.start()
                async with Admin(BOOTSTRAP, env=world.client_env("admin")) as admin:
                    await admin.create_topics([NewTopic(name=TOPIC, partition_count=1)])
                async with Producer(BOOTSTRAP, env=world.client_env("producer")) as producer:
                    for number in range(5):
                        await (await producer.send(TOPIC, value=b"%d" % number, partition=0)).wait()
                assert not watch.violations, watch.violations
                await act(host, watch)
                await trio.sleep(1)
            texts.extend(violation.text for violation in watch.violations)
            host.die(Death.KILL)

    sim_run(1, main)
    return texts


async def nothing(_host: NodeHost, _watch: ClusterWatch) -> None:
    """Leave the node alone."""


async def restart(host: NodeHost, _watch: ClusterWatch) -> None:
    host.die(Death.POWER)
    await host.start()


@pytest.mark.parametrize("act", [nothing, restart])
def test_a_node_that_keeps_its_promises_is_not_named(
    act: Callable[[NodeHost, ClusterWatch], Awaitable[None]],
) -> None:
    assert not found_after(act)


def test_a_high_watermark_that_goes_back_is_named() -> None:
    async def act(host: NodeHost, _watch: ClusterWatch) -> None:
        assert host.current is not None
        host.current.broker.replicas.partitions[TOPIC, 0].state.high_watermark -= 2

    (text,) = found_after(act)
    assert "went back" in text


def test_a_high_watermark_that_moves_while_too_few_are_in_sync_is_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        state = host.current.broker.replicas.partitions[TOPIC, 0].state
        state.isr = ()
        watch.replicas.look([(host, host.current)])
        state.high_watermark += 1

    assert any(
        "with the ISR (), and the topic asks for 1 in it" in text for text in found_after(act)
    )


def test_records_that_are_lost_with_the_power_are_named() -> None:
    """Nothing is synced here, and the watch was told that nothing may be lost."""
    assert any("without the committed" in text for text in found_after(restart, is_synced=False))


@pytest.mark.parametrize(("later", "is_named"), [(-1, True), (1, False)])
def test_a_leader_has_what_epochs_before_its_own_committed_and_not_those_after(
    later: int, is_named: bool
) -> None:
    """A process that was held up comes to lead an epoch that is over."""

    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        witness = watch.replicas
        replica = witness.replicas[host.name][
            next(where for where in witness.ends if where.topic == TOPIC)
        ]
        key, epoch = (replica.partition.topic_id.int, 0), replica.partition.leader_epoch
        last, count = witness.committed[key][-1], len(witness.committed[key])
        witness.committed[key].append(last._replace(base_offset=5, last_offset=5))
        witness._commit_epochs[key] = [epoch - 1] * count + [epoch + later]
        witness._check_has_committed(replica)
        assert (
            len(witness.committed[key])
            == len(witness._commit_epochs[key])
            == count + (not is_named)
        )

    assert [("without the committed" in text) for text in found_after(act)] == [True] * is_named


def test_a_coordinator_of_groups_is_noted_while_it_does_not_know_of_a_later_epoch() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        async with Admin(BOOTSTRAP, env=host.world.client_env("asker")) as admin:
            await admin.list_group_offsets("group")
        current = host.current
        assert current is not None
        shards, loader = current.broker.rooms.groups.shards, current.broker._loader
        index, history, image = hashed_partition("group", 2), watch.superseded.history, loader.image
        partition = image.topics.by_name[GROUP_METADATA_TOPIC].partitions[index]

        def found_in(later: int, *, heard: int = 0) -> list[Superseded]:
            """A node is noted that coordinates in a later epoch than its own, or whose metadata have one."""
            log = shards.led[index].coordinator_log
            log.leader_epoch = partition.leader_epoch + later  # type: ignore[misc]
            loader.image = with_group_partition(
                image, partition._replace(leader_epoch=LeaderEpoch(partition.leader_epoch + heard))
            )
            watch.superseded.look([(host, current)])
            return [*history.of(Superseded)]

        place = history.place + 1
        assert found_in(0) == found_in(1) == [], "nobody else coordinates"
        (late,) = found_in(0)
        assert [late] == found_in(0)
        assert late.coordinates("group")
        assert (late.node, late.since, late.ended_at) == (host.name, place, NEVER)
        assert [late] == found_in(0, heard=1) == found_in(0, heard=1)
        assert late.ended_at < NEVER
        _, again = found_in(0)
        host.die(Death.KILL)
        watch.superseded.look([])
        assert again.ended_at < NEVER

    assert not found_after(act)


def test_a_read_above_what_is_committed_is_named() -> None:
    async def act(_host: NodeHost, watch: ClusterWatch) -> None:
        for offset in (4, 5):
            record = SeenRecord(offset, 0, "value")
            watch.note(
                Poll(
                    consumer="reader",
                    group="",
                    partition=next(iter(watch.replicas.ends)),
                    records=[record],
                )
            )

    (text,) = found_after(act)
    assert "where only 5 records are committed" in text


def test_an_acknowledgement_of_what_is_not_committed_is_named() -> None:
    async def act(_host: NodeHost, watch: ClusterWatch) -> None:
        partition = next(iter(watch.replicas.ends))
        for offset in (4, 5):
            send = Send(
                producer="producer",
                partition=partition,
                number=0,
                value="",
                timestamp_ms=0,
                offset=offset,
            )
            watch.note_ended(send)
            send.is_ok = True
            watch.note_ended(send)

    (text,) = found_after(act)
    assert "acknowledgement for 5 of" in text


def test_a_vote_for_a_shorter_log_is_named_and_one_that_was_forgotten() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        core = host.current.broker.raft.core
        assert core is not None
        candidate = ReplicaKey(7)  # type: ignore[arg-type]
        request = VoteRequest(
            voter=core.own,
            candidate=candidate,
            epoch=core.epoch,
            last_epoch=core.epoch,
            end_offset=1,
        )
        told = RequestArrived(reply_to="peer", request=request)
        granted = VoteResponse(epoch=core.epoch, is_granted=True)
        watch.quorum._votes_in(core, told, Effects(replies=[("peer", granted)]), 0)
        watch.quorum.votes[core.own, core.epoch] = candidate
        core.replica.role = Unattached(epoch=core.epoch, election_deadline_ms=0)
        watch.quorum.check_vote(("broker", 2), core)

    texts = found_after(act)
    assert any("and its own is longer" in text for text in texts)
    assert any("with the vote None, and its node voted for" in text for text in texts)


def test_two_leaders_of_an_epoch_are_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        driver = host.current.broker.raft
        watch.quorum._check_leader(("another", 1), driver.epoch, driver)

    (text,) = found_after(act)
    assert "is led by ('broker', 1) and by ('another', 1)" in text


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("is_beyond", [False, True])
def test_a_leader_without_what_is_committed_is_named_but_for_what_later_epochs_committed(
    is_later: bool, is_beyond: bool
) -> None:
    """A node with a slow disk may come to lead when the next epoch has committed already.

    It deposes nobody, and commits nothing.
    """

    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        witness, driver = watch.quorum, host.current.broker.raft
        last = max(witness.committed)
        offset = driver.log.log.log_end_offset if is_beyond else last
        epoch = driver.epoch + 1 if is_later else driver.epoch - (not is_beyond)
        witness.committed[offset] = witness.committed[last]._replace(
            last_offset=offset, epoch=epoch
        )
        witness._check_leader(("broker", 1), driver.epoch, driver)

    texts = found_after(act)
    assert len(texts) == (not is_later)
    assert all("committed" in text for text in texts)


def test_a_leader_counts_once_it_has_written_down_that_it_leads() -> None:
    """Before that no other node learns of it.

    If the write fails, the node may be elected again in the same epoch.
    """

    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        witness, driver = watch.quorum, host.current.broker.raft
        assert (driver, driver.epoch) in witness.leading
        for is_written in (False, True):
            for noted in (witness.leaders, witness.known, witness.leading):
                noted.clear()
            if is_written:
                witness.leading.add((driver, driver.epoch))
            witness.look(host, host.current)
            assert bool(witness.leaders) is is_written

    assert not found_after(act)


def test_another_batch_at_a_committed_offset_is_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        first = watch.quorum.committed[0]
        other = MetadataBatch(
            base_offset=0,
            last_offset=first.last_offset,
            epoch=first.epoch,  # type: ignore[arg-type]
            timestamp_ms=0,
            size_bytes=0,
        )
        watch.quorum.note_batch(
            ("another", 1), replace(other, records=()), host.current.broker.raft
        )

    texts = found_after(act)
    assert any("for committed at 0" in text for text in texts)


def test_what_a_process_leaves_out_of_what_is_committed_is_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        driver = host.current.broker.raft
        reader = _Reader(watch.quorum, host.name, 2, driver)
        for base_offset in (0, 1, 3):
            batch = MetadataBatch(
                base_offset=base_offset,
                last_offset=base_offset,
                epoch=driver.epoch,
                timestamp_ms=0,
                size_bytes=0,
            )
            watch.quorum.committed.pop(base_offset, None)
            reader.on_batches([batch])

    (text,) = found_after(act)
    assert "hands out what is committed at 3 after all before 2" in text


def test_an_in_sync_replica_that_does_not_live_and_epochs_that_go_back_are_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        image = host.current.broker.image
        partition = image.topics.by_name[TOPIC].partitions[0]
        replicas = (*partition.replicas, NodeId(7))
        watch.metadata._check_partition(
            "a", partition._replace(replicas=replicas, isr=replicas), None, image
        )
        watch.metadata._check_partition(
            "b", partition, partition._replace(partition_epoch=PartitionEpoch(99)), image
        )

    first, second = found_after(act)
    assert "7 is in sync in a, and does not live: None" in first
    assert "the epochs of b went back" in second


OLD_DISK, NEW_DISK = UUID(int=501), UUID(int=777)
LEADERLESS = PartitionRegistration(
    replicas=(NodeId(1), NodeId(2)),
    isr=(),
    leader=NO_LEADER,
    leader_epoch=LeaderEpoch(2),
    partition_epoch=PartitionEpoch(4),
    directories=(UUID(int=500), OLD_DISK),
    last_known_elr=(NodeId(2),),
)
"""Broker 2 led it last, and came back uncleanly; broker 1 is there, and was not in sync."""


@pytest.mark.parametrize(
    ("changes", "place", "log_dirs", "is_named"),
    [
        pytest.param({}, NEW_DISK, (NEW_DISK,), False, id="the last leader's log is lost"),
        pytest.param({}, NEW_DISK, (OLD_DISK, NEW_DISK), True, id="its disk is still there"),
        pytest.param(
            {}, OLD_DISK, (NEW_DISK,), True, id="it has not said where its replica is now"
        ),
        pytest.param(
            {"directories": (UUID(int=500), UNASSIGNED_DIRECTORY)},
            NEW_DISK,
            (NEW_DISK,),
            True,
            id="nobody knew its disk",
        ),
        pytest.param(
            {"directories": (UUID(int=500), LOST_DIRECTORY)},
            NEW_DISK,
            (NEW_DISK,),
            True,
            id="its disk only failed",
        ),
        pytest.param(
            {"last_known_elr": ()},
            NEW_DISK,
            (NEW_DISK,),
            True,
            id="nobody is known to have led last",
        ),
        pytest.param({"isr": (NodeId(2),)}, NEW_DISK, (NEW_DISK,), True, id="it is in sync"),
        pytest.param(
            {"eligible_leader_replicas": (NodeId(2),)},
            NEW_DISK,
            (NEW_DISK,),
            True,
            id="it is eligible",
        ),
    ],
)
def test_another_than_the_last_leader_is_elected_uncleanly_only_where_the_log_of_that_one_is_lost(
    changes: dict[str, Any], place: UUID, log_dirs: tuple[UUID, ...], *, is_named: bool
) -> None:
    texts: list[str] = []
    witness = MetadataWitness(lambda _rule, text: texts.append(text))
    broker = BrokerRegistration(
        node_id=NodeId(2),
        epoch=BrokerEpoch(62),
        incarnation_id=UUID(int=9),
        endpoints={},
        log_dirs=log_dirs,
    )
    elected = LEADERLESS._replace(
        isr=(NodeId(1),),
        leader=NodeId(1),
        leader_epoch=LeaderEpoch(3),
        partition_epoch=PartitionEpoch(5),
        directories=(UUID(int=500), place),
        last_known_elr=(),
        leader_recovery_state=RECOVERING,
    )
    image = with_broker(EMPTY_IMAGE, broker)
    witness._check_election(TOPIC, elected, LEADERLESS._replace(**changes), (image, image))
    assert ["has an unclean leader, and may have none" in text for text in texts] == [
        True
    ] * is_named
    assert witness.unclean_count == 1


@pytest.mark.parametrize("is_again", [False, True])
def test_a_broker_that_leads_while_it_leaves_or_comes_back_without_registering_again_is_named(
    *, is_again: bool
) -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        image = host.current.broker.image
        (broker,) = image.cluster.brokers.values()
        leaving = replace(broker, is_in_controlled_shutdown=True)
        gone = replace(leaving, is_fenced=True)
        if is_again:
            for later in (
                broker,
                replace(broker, is_fenced=True),
                leaving,
                replace(leaving, epoch=BrokerEpoch(broker.epoch + 1)),
            ):
                before = (
                    gone
                    if later.epoch != broker.epoch
                    else replace(gone, is_in_controlled_shutdown=False)
                )
                watch.metadata._check_brokers(
                    ("broker", 1), with_broker(image, later), with_broker(image, before)
                )
            assert not watch.violations
            watch.metadata._check_brokers(
                ("broker", 1), with_broker(image, leaving), with_broker(image, gone)
            )
        else:
            partition = image.topics.by_name[TOPIC].partitions[0]
            watch.metadata._check_partition(
                "a", partition._replace(leader=NO_LEADER), None, with_broker(image, leaving)
            )
            assert not watch.violations
            watch.metadata._check_partition("a", partition, None, with_broker(image, leaving))

    (text,) = found_after(act)
    assert (
        "1 leads again as ('broker', 1) knows it, though it has left"
        if is_again
        else "1 is in sync in a, and does not live"
    ) in text


def test_a_broker_that_is_fenced_twice_for_a_connection_that_ended_is_named() -> None:
    async def act(_host: NodeHost, watch: ClusterWatch) -> None:
        first, second = DeathWatch(200), DeathWatch(200)
        for term in (first, second, first):
            watch.metadata.note_fenced_by_connection(("broker", 1), term, 2, 30)

    (text,) = found_after(act)
    assert "in one term as controller, fences broker 2 of epoch 30 for the 2. time" in text


def test_a_second_change_of_voters_before_the_first_is_committed_is_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        core = host.current.broker.raft.core
        assert core is not None
        end = core.replica.log.end_offset
        for number in (1, 2):
            voters = VoterSet(
                (
                    *core.voters.voters,
                    Voter(node_id=NodeId(number + 5), directory_id=UUID(int=number)),
                )
            )
            core.replica.history.note(VoterChange(offset=end + number, voters=voters))
            watch.quorum._check_open_changes(("broker", 1), core)
        core.replica.history.truncate_to(end)

    (text,) = found_after(act)
    assert "has changes of voters at" in text


def test_a_vote_for_two_candidates_in_one_epoch_is_named() -> None:
    async def act(host: NodeHost, watch: ClusterWatch) -> None:
        assert host.current is not None
        core = host.current.broker.raft.core
        assert core is not None
        for node_id in (7, 8):
            vote = _Vote(core.own, 9, ReplicaKey(node_id))  # type: ignore[arg-type]
            watch.quorum._note_vote(*vote)

    (text,) = found_after(act)
    assert "votes for" in text
