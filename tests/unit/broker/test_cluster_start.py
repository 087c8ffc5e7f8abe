"""Nodes of one cluster find each other over the network.

A leader is elected, its controller begins, and brokers of all nodes join.
"""

import pytest

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.controller.controller import Controller
from tests.helpers.cluster import Cluster, node_properties, tell_cluster


@pytest.mark.parametrize("seed", range(3))
def test_three_nodes_elect_a_controller_and_their_brokers_join(seed: int) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in cluster.brokers)
        )
        assert {broker.raft.leader_id for broker in cluster.brokers.values()} == {leader}
        assert sum(broker.rooms.controller.is_active for broker in cluster.brokers.values()) == 1

    tell_cluster(story, seed=seed)


def test_brokers_and_controllers_may_be_apart() -> None:
    async def story(cluster: Cluster) -> None:
        assert await cluster.leader() in {1, 2, 3}
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [4, 5] for each in cluster.brokers)
        )

    controllers = {each: node_properties(each, (1, 2, 3), "controller") for each in (1, 2, 3)}
    brokers = {each: node_properties(each, (1, 2, 3), "broker") for each in (4, 5)}
    tell_cluster(story, {**controllers, **brokers})


def test_another_node_becomes_the_controller_when_one_dies() -> None:
    async def story(cluster: Cluster) -> None:
        first = await cluster.leader()
        cluster.kill(first)
        second = await cluster.leader()
        assert second != first
        others = sorted({1, 2, 3} - {first})
        await cluster.until(lambda: cluster.unfenced(second) == others)
        await cluster.start(first)
        await cluster.until(lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in (1, 2, 3)))

    tell_cluster(story)


def test_logs_tell_who_leads_the_quorum_and_which_brokers_went_and_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "log_service")

    async def story(cluster: Cluster) -> None:
        first = await cluster.leader()
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in cluster.brokers)
        )
        began = [record.getMessage() for record in caplog.records]
        assert {f"Broker {each} serves" for each in (1, 2, 3)} <= set(began), (
            "none of them has served before"
        )
        dead = min({1, 2, 3} - {first})
        cluster.kill(dead)
        await cluster.until(lambda: dead not in cluster.unfenced(first))
        await cluster.start(dead)
        await cluster.until(lambda: dead in cluster.unfenced(first))
        told = [record.getMessage() for record in caplog.records]
        assert any(
            text.startswith(f"Node {first}, this one, leads the metadata quorum in epoch ")
            for text in told
        )
        assert any(
            text.startswith(f"Node {first} leads the metadata quorum in epoch ") for text in told
        )
        gone, back = (
            told.index(f"Broker {dead} is fenced: others lead its partitions"),
            told[::-1].index(f"Broker {dead} serves"),
        )
        assert gone < len(told) - back

    tell_cluster(story)


@pytest.mark.parametrize(
    "refusal",
    [
        StorageError("the cluster has a feature that is not served"),
        KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "too many records"),
    ],
)
def test_a_node_that_cannot_be_the_active_controller_leaves_that_to_another(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that cannot be the active controller resigns.

    Each time that node 1 comes to lead the quorum, it leaves that to another node.
    """
    activate = Controller.activate

    def refuse(self: Controller, *arguments: object) -> None:
        if "node=1 " in repr(self):
            raise refusal
        activate(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Controller, "activate", refuse)

    async def story(cluster: Cluster) -> None:
        for _ in range(6):
            leader = await cluster.leader()
            assert leader != 1
            await cluster.until(
                lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in cluster.brokers)
            )
            if any(
                "cannot be the active controller" in record.getMessage()
                for record in caplog.records
            ):
                break
            await cluster.stop(leader)
            await cluster.leader()
            await cluster.start(leader)
        else:
            raise AssertionError("node 1 never led the quorum")
        assert not cluster.brokers[1].rooms.controller.is_active
        assert not cluster.brokers[1].raft.is_leader

    tell_cluster(story)
