"""Three nodes' metadata logs elect, append, die and go on.

Their disks and their network are in memory.
"""

from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import LeaderEpoch, NodeId
from log_service.config.views import QuorumConfig
from log_service.protocol.messages import vote
from log_service.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from log_service.raft.voters import VoterEndpoint
from tests.sim.world import World, sim_run
from tests.unit.raft.three_drivers import LISTENER, append, config, three_nodes, until, voters


@pytest.mark.parametrize("seed", range(3))
def test_what_was_committed_survives_the_death_of_its_leader(seed: int) -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            first = await quorum.leader()
            await append(quorum, first, ["1", "2"])
            quorum.kill(first)
            second = await quorum.leader()
            assert second != first
            assert quorum.driver(second).epoch > LeaderEpoch(1)
            await append(quorum, second, ["3"])
            await quorum.start(first)
            expected = [config("1"), config("2"), config("3")]
            await until(lambda: all(quorum.records(each) == expected for each in (1, 2, 3)))
            assert {quorum.driver(each).leader_id for each in (1, 2, 3)} == {second}

    sim_run(seed, main)


@pytest.mark.parametrize(
    "times",
    [
        QuorumConfig(request_timeout_ms=500, fetch_timeout_ms=700),
        QuorumConfig(fetch_timeout_ms=400),
    ],
    ids=["request", "fetch"],
)
def test_a_leader_that_has_nothing_new_goes_on_leading(times: QuorumConfig) -> None:
    """A fetch that the leader held as long as the follower waits for it would always come too late."""

    async def main(world: World) -> None:
        async with three_nodes(world, times) as quorum:
            first = await quorum.leader()
            await append(quorum, first, ["1"])
            epoch = quorum.driver(first).epoch
            await trio.sleep(20)
            assert {
                (quorum.driver(each).leader_id, quorum.driver(each).epoch) for each in (1, 2, 3)
            } == {(first, epoch)}

    sim_run(1, main)


def test_a_leader_without_a_majority_commits_nothing_and_leads_no_more() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            leader = await quorum.leader()
            driver = quorum.driver(leader)
            for other in {1, 2, 3} - {leader}:
                quorum.kill(other)
            driver.append([config("lost")])
            await until(lambda: not driver.is_leader)
            with pytest.raises(KafkaError) as raised:
                driver.append([config("refused")])
            assert raised.value.code is ErrorCode.NOT_CONTROLLER
            assert quorum.records(leader) == []
            for other in sorted({1, 2, 3} - {leader}):
                await quorum.start(other)
            await append(quorum, await quorum.leader(), ["kept"])
            await until(lambda: all(config("kept") in quorum.records(each) for each in (1, 2, 3)))
            assert quorum.records(1) == quorum.records(2) == quorum.records(3)

    sim_run(5, main)


def test_a_node_whose_end_was_cut_starts_again_after_a_crash() -> None:
    """The node stopped in order with records that no majority had, and noted them as durable.

    The next leader has them cut.
    """

    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            first = await quorum.leader()
            await append(quorum, first, ["committed"])
            driver = quorum.driver(first)
            quorum.network.silent.add(f"node{first}")
            driver.append([config(f"lost {number}") for number in range(20)])
            await trio.sleep(0.1)
            await quorum.stop(first)
            quorum.network.silent.clear()
            second = await quorum.leader()
            await quorum.start(first)
            await until(
                lambda: quorum.driver(first).high_watermark == quorum.driver(second).high_watermark
            )
            quorum.kill(first)
            await quorum.start(first)
            await append(quorum, second, ["afterwards"])
            await until(
                lambda: quorum.driver(first).high_watermark == quorum.driver(second).high_watermark
            )
            assert quorum.records(first) == [config("committed"), config("afterwards")]

    sim_run(1, main)


def test_a_leader_whose_disk_is_slow_commits_what_the_others_have_on_theirs() -> None:
    """The others get a record at once, while the leader makes it durable.

    Two disks of three are a majority without its own.
    """

    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            leader = await quorum.leader()
            await append(quorum, leader, ["1"])
            files: Any = world.node_env(f"node{leader}").files
            files.sync_seconds = (60, 60)
            for value in range(10):
                await trio.sleep(0.2)
                began_s = trio.current_time()
                await append(quorum, leader, [str(value)])
                assert trio.current_time() - began_s < 0.05
            assert quorum.driver(leader).is_leader

    sim_run(6, main)


def test_a_leader_that_stops_hands_over_at_once() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            first = await quorum.leader()
            await append(quorum, first, ["1"])
            started_s = trio.current_time()
            await quorum.driver(first).hand_over(5_000)
            assert quorum.driver(first).leader_id not in {-1, first}
            assert trio.current_time() - started_s < 1.0
            await append(quorum, await quorum.leader(), ["2"])

    sim_run(6, main)


def test_a_leader_that_stops_waits_for_no_successor_where_no_majority_is_left() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            first = await quorum.leader()
            driver, others = (
                quorum.driver(first),
                [NodeId(each) for each in (1, 2, 3) if each != first],
            )
            line = quorum.lines[first]
            for refusing_ids, is_gone in (((), False), (others[:1], False), (others, True)):
                line.refusing_ids = tuple(refusing_ids)
                assert driver.is_majority_gone is is_gone
            for each in others:
                quorum.kill(each)
            started_s = trio.current_time()
            await driver.hand_over(5_000)
            assert trio.current_time() - started_s < 1.0

    sim_run(6, main)


def test_kraft_version_is_raised_by_the_leader_alone() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            first = await quorum.leader()
            with pytest.raises(KafkaError) as raised:
                await quorum.driver(first % 3 + 1).upgrade(1)
            assert raised.value.code is ErrorCode.NOT_CONTROLLER
            await quorum.driver(first).upgrade(1)

    sim_run(6, main)


def test_records_that_were_damaged_on_the_way_are_fetched_again_after_a_pause() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            leader = await quorum.leader()
            began_s = trio.current_time()
            await append(quorum, leader, [str(value) for value in range(100)])
            assert trio.current_time() - began_s < 1, (
                "records that are appended are no reason to pause"
            )
            unlucky, network = min({1, 2, 3} - {leader}), quorum.network
            network.spoiled.add(f"node{unlucky}")
            await append(quorum, leader, ["damaged"])
            network.sent.clear()
            await trio.sleep(1)
            asked = [
                receiver
                for _, sender, receiver in network.sent
                if (sender, receiver) == (f"node{unlucky}", f"node{leader}")
            ]
            assert 10 < len(asked) <= 1_000 / QuorumConfig().retry_backoff_ms
            assert config("damaged") not in quorum.records(unlucky)
            network.spoiled.clear()
            await until(lambda: quorum.records(unlucky)[-1:] == [config("damaged")])

    sim_run(6, main)


def test_a_voter_that_is_removed_is_none_for_any_node_and_after_a_restart() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            leader = await quorum.leader()
            await append(quorum, leader, ["1"])
            gone, stays = (each for each in (1, 2, 3) if each != leader)
            named = voters()[gone - 1]
            request = RemoveRaftVoterRequest(
                cluster_id="cluster", voter_id=gone, voter_directory_id=named.directory_id
            )
            response = await quorum.driver(leader).handle(request, listener_name=LISTENER)
            assert response == RemoveRaftVoterResponse(error_message=None)
            remaining = tuple(each for each in voters() if each != named)
            await until(lambda: all(quorum.driver(each).voters == remaining for each in (1, 2, 3)))
            quorum.kill(stays)
            await quorum.start(stays)
            assert quorum.driver(stays).voters == remaining

    sim_run(6, main)


def test_a_node_knows_where_another_leads_and_names_no_address_for_itself() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            assert {quorum.driver(each).leader_endpoint for each in (1, 2, 3)} == {None}, (
                "no leader is known yet"
            )
            leader = await quorum.leader()
            await until(lambda: all(quorum.driver(each).leader_id == leader for each in (1, 2, 3)))
            own, led = (
                VoterEndpoint(LISTENER, f"node{leader}", 9093),
                [quorum.driver(each).leader_endpoint for each in (1, 2, 3)],
            )
            assert led == [None if each == leader else own for each in (1, 2, 3)]

    sim_run(6, main)


def test_a_replica_that_comes_late_begins_with_a_snapshot() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            leader = await quorum.leader()
            late = min({1, 2, 3} - {leader})
            quorum.kill(late)
            for value in range(4):
                await append(quorum, leader, [str(value)])
                await quorum.driver(leader).write_snapshot([config(str(value))])
            await append(quorum, leader, ["last"])
            await quorum.start(late)
            await until(lambda: quorum.records(late) == [config("3"), config("last")])
            assert quorum.replayed[late].snapshots[-1].voters == voters()
            quorum.kill(late)
            await quorum.start(late)
            await append(quorum, leader, ["more"])
            await until(
                lambda: quorum.records(late) == [config("3"), config("last"), config("more")]
            )

    sim_run(7, main)


def test_a_snapshot_of_a_later_epoch_is_gone_on_from_by_a_replica_that_knew_an_earlier_one() -> (
    None
):
    """The epochs of the replaced log say nothing of the new one.

    The replica's next fetch would name them else, for ever.
    """

    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            first = await quorum.leader()
            await append(quorum, first, ["early"])
            late = min({1, 2, 3} - {first})
            await until(lambda: quorum.records(late) == [config("early")])
            quorum.kill(late)
            quorum.kill(first)
            await quorum.start(first)
            leader = await quorum.leader()
            for value in range(3):
                await append(quorum, leader, [str(value)])
                await quorum.driver(leader).write_snapshot([config(str(value))])
            await append(quorum, leader, ["last"])
            await quorum.start(late)
            await until(lambda: quorum.records(late) == [config("2"), config("last")])

    sim_run(9, main)


def test_a_request_for_another_cluster_is_refused_whole() -> None:
    async def main(world: World) -> None:
        async with three_nodes(world) as quorum:
            response = await quorum.driver(1).handle(
                vote.VoteRequest(cluster_id="another"), listener_name=LISTENER
            )
            assert response == vote.VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
            response = await quorum.driver(1).handle(
                vote.VoteRequest(cluster_id="cluster"), listener_name=LISTENER
            )
            assert response == vote.VoteResponse(error_code=ErrorCode.INVALID_REQUEST)

    sim_run(8, main)
