"""Nodes of a cluster stop in seconds, whoever of the others is left, and also while they start."""

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from log_service.broker.broker import Broker
from log_service.broker.lifecycle import BrokerLifecycle
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch
from log_service.metadata.features import unserved_levels
from log_service.metadata.image import EMPTY_IMAGE
from tests.helpers.cluster import Cluster, host_of, node_properties, tell_cluster
from tests.helpers.metrics_page import fetch
from tests.unit.broker.context import configuration


async def settled(cluster: Cluster) -> int:
    """Wait until all brokers lead, and return the active controller."""
    leader = await cluster.leader()
    await cluster.until(
        lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in cluster.brokers)
    )
    return leader


async def seconds_to_stop(cluster: Cluster, node_id: int) -> float:
    began = trio.current_time()
    await cluster.stop(node_id)
    return trio.current_time() - began


def test_nodes_that_stop_one_after_the_other_do_not_wait_for_those_that_are_gone() -> None:
    async def story(cluster: Cluster) -> None:
        await settled(cluster)
        taken = [await seconds_to_stop(cluster, each) for each in (1, 2, 3)]
        assert max(taken[:2]) < 2
        assert taken[2] < 4  # alone: it finds out that none is left who could let it go

    tell_cluster(story)


def test_nodes_that_stop_together_do_not_wait_for_each_other() -> None:
    async def story(cluster: Cluster) -> None:
        await settled(cluster)
        taken: list[float] = []

        async def stop(node_id: int) -> None:
            taken.append(await seconds_to_stop(cluster, node_id))

        async with trio.open_nursery() as nursery:
            for node_id in (1, 2, 3):
                nursery.start_soon(stop, node_id)
        assert max(taken) < 4

    tell_cluster(story)


@pytest.mark.parametrize("leads", [True, False])
def test_a_node_without_a_quorum_stops_soon(*, leads: bool) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        left = leader if leads else min({1, 2, 3} - {leader})
        for node_id in {1, 2, 3} - {left}:
            cluster.kill(node_id)
        assert await seconds_to_stop(cluster, left) < 6

    tell_cluster(story)


def test_the_leader_of_the_quorum_knows_that_the_others_came_back() -> None:
    """It had found them gone, and has had nothing to ask of them since: they fetch from it. A stop
    in order would not be waited for.
    """

    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        others = sorted({1, 2, 3} - {leader})
        for node_id in others:
            cluster.kill(node_id)
            await trio.sleep(3)
            await cluster.start(node_id)
            assert await settled(cluster) == leader
        assert not cluster.brokers[leader].raft.is_majority_gone

    tell_cluster(story)


def test_a_controller_that_does_not_respond_is_waited_for_a_while() -> None:
    class Silent:
        def spoken_versions(self) -> None:
            return None

        async def request(self, *_: object) -> None:
            await trio.sleep_forever()

    async def main() -> float:
        lifecycle = BrokerLifecycle(configuration({})[0], Silent(), lambda: EMPTY_IMAGE)  # type: ignore[arg-type]
        lifecycle.broker_epoch = BrokerEpoch(5)
        began = trio.current_time()
        with pytest.raises(KafkaError, match="no controller has responded"):
            await lifecycle.leave()
        return trio.current_time() - began

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == pytest.approx(5, abs=0.1)


def test_a_refusal_of_the_controller_reaches_who_stops_the_node() -> None:
    class Stale:
        def spoken_versions(self) -> None:
            return None

        async def request(self, *_: object) -> None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "broker 1 is not registered")

    async def main() -> None:
        lifecycle = BrokerLifecycle(configuration({})[0], Stale(), lambda: EMPTY_IMAGE)  # type: ignore[arg-type]
        lifecycle.broker_epoch = BrokerEpoch(5)
        with pytest.raises(KafkaError, match="broker 1 is not registered"):
            await lifecycle.leave()

    trio.run(main)


def test_a_stop_while_a_node_waits_for_its_quorum_ends_it_at_once_and_it_starts_again() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in (1, 2, 3):
            cluster.format(node_id)
        config, texts = cluster.config(1)
        broker = Broker(cluster.world.node_env(host_of(1)), config, static_texts=texts)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nursery.start, broker.run)
            await trio.sleep(20)
            began = trio.current_time()
            await broker.stop()
            assert trio.current_time() - began < 1
        assert (broker.is_started, broker.is_stopped_gracefully) == (False, True)
        await cluster.start()
        await settled(cluster)

    tell_cluster(story, is_started=False)


def test_a_controller_without_a_broker_has_a_metrics_page() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.leader()
        assert cluster.brokers[1].metrics_address is not None
        with trio.fail_after(10):
            page = await fetch(cluster.world.client_env().network, host_of(1), 9100)
        assert page.startswith("HTTP/1.1 200")
        assert "tidelog_" in page

    files = {
        each: node_properties(
            each, (1, 2, 3), "controller", metrics_listener=f"{host_of(each)}:9100"
        )
        for each in (1, 2, 3)
    }
    tell_cluster(story, {**files, 4: node_properties(4, (1, 2, 3), "broker")})


def test_a_registration_that_is_refused_for_a_level_names_it() -> None:
    class Refusing:
        def spoken_versions(self) -> None:
            return None

        async def request(self, *_: object) -> None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION")

    config = replace(configuration({})[0], initial_registration_timeout_ms=0)
    image = replace(EMPTY_IMAGE, features={"metadata.version": 30, "streams.version": 2})
    lifecycle = BrokerLifecycle(config, Refusing(), lambda: image)  # type: ignore[arg-type]

    async def main() -> None:
        with pytest.raises(
            KafkaError, match=r"feature streams\.version at level 2, this version serves 0 to 1"
        ):
            await lifecycle.register(
                cluster_id="c",
                incarnation_id=config.node_id,  # type: ignore[arg-type]
                endpoints={},
                log_dirs=(),
            )

    trio.run(main)
    assert unserved_levels({"metadata.version": 30}) == []
