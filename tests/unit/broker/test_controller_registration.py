"""The metadata names each registered process of a controller (KIP-919).

It also has the listeners and feature levels.
"""

from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from log_service.broker.controller_registration import ControllerRegistrar
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import EMPTY_IMAGE, ControllerRegistration, Endpoint, MetadataImage
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from log_service.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from log_service.protocol.stored.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    RegisterControllerRecord,
)
from tests.helpers.cluster import CONTROLLER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.unit.broker.context import RawClient

OWN, OTHER = UUID(int=71), UUID(int=72)
LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


class Script:
    """An active controller that answers as it is told: ``None`` takes a registration, an error
    refuses it.
    """

    def __init__(self, *answers: ErrorCode | None) -> None:
        self.requests: list[ControllerRegistrationRequest] = []
        self.times: list[float] = []
        self._answers = list(answers)

    def spoken_versions(self) -> None:
        return None

    async def request(self, request: Any, _response_type: Any, _caller: Any = None) -> Any:
        self.requests.append(request)
        self.times.append(trio.current_time())
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            raise KafkaError(answer, "not now")
        return ControllerRegistrationResponse(error_message=None)


def image(*records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta.build(offset=len(records), epoch=1)


def known(incarnation_id: UUID) -> MetadataImage:
    return image(LEVEL, RegisterControllerRecord(controller_id=3, incarnation_id=incarnation_id))


def play(script: Script, *images: MetadataImage, seconds: float = 10) -> Script:
    """Publish images, one every ten seconds, to a registrar that runs."""

    async def main() -> None:
        registrar = ControllerRegistrar(
            node_id=NodeId(3),
            incarnation_id=OWN,
            endpoints={"CONTROLLER": Endpoint(host="c3", port=9093, security_protocol=1)},
            channel=script,
            rng=Random(1),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registrar.run)
            for published in images:
                registrar.on_image(MetadataDelta(published), published)
                await trio.sleep(seconds)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return script


def test_a_process_tells_where_it_listens_and_what_it_keeps() -> None:
    (request,) = play(Script(), image(LEVEL)).requests
    assert (request.controller_id, request.incarnation_id) == (3, OWN)
    listeners = [
        (each.name, each.host, each.port, each.security_protocol) for each in request.listeners
    ]
    assert listeners == [("CONTROLLER", "c3", 9093, 1)]
    told = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    assert told == SUPPORTED_FEATURES


def test_a_process_that_the_metadata_names_is_silent() -> None:
    assert not play(Script(), known(OWN)).requests


def test_nothing_is_said_before_the_metadata_has_a_version() -> None:
    assert not play(Script(), image()).requests


def test_another_process_of_the_controller_is_replaced() -> None:
    assert len(play(Script(), known(OTHER)).requests) == 1
    assert len(play(Script(), image(LEVEL), known(OWN), known(OTHER)).requests) == 2


def test_two_processes_under_one_id_do_not_race() -> None:
    """Each image names the other process: one registration a second and no more."""
    script = play(Script(), *[known(OTHER)] * 100, seconds=0.1)
    assert 9 <= len(script.requests) <= 11


def test_a_refused_registration_is_sent_again_after_growing_pauses() -> None:
    script = play(
        Script(ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION),
        image(LEVEL),
    )
    pauses = [second - first for first, second in zip(script.times, script.times[1:], strict=False)]
    assert len(script.requests) == 4
    assert pauses == sorted(pauses)
    assert pauses[0] >= 0.08


# In a cluster


def registered(cluster: Cluster, node_id: int) -> dict[NodeId, ControllerRegistration]:
    return dict(cluster.brokers[node_id].image.cluster.controllers)


async def told_controllers(cluster: Cluster, node_id: int) -> DescribeClusterResponse:
    client = RawClient(
        await cluster.world.client_env().network.connect(host_of(node_id), CONTROLLER_PORT)
    )
    response: DescribeClusterResponse = await client.ask(DescribeClusterRequest(endpoint_type=2), 2)
    return response


ROLES = {
    "together": {each: node_properties(each, (1, 2, 3)) for each in (1, 2, 3)},
    "apart": {
        **{each: node_properties(each, (1, 2, 3), "controller") for each in (1, 2, 3)},
        4: node_properties(4, (1, 2, 3), "broker"),
    },
}


@pytest.mark.parametrize("roles", ROLES)
def test_every_controller_of_a_cluster_is_in_the_metadata_and_told(roles: str) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(
            lambda: all(set(registered(cluster, each)) == {1, 2, 3} for each in cluster.brokers)
        )
        for node_id in (1, 2, 3):
            told = await told_controllers(cluster, node_id)
            assert told.controller_id == leader
            assert [(each.broker_id, each.host, each.port) for each in told.brokers] == [
                (each, host_of(each), 9093) for each in (1, 2, 3)
            ]
        assert all(
            dict(each.features) == SUPPORTED_FEATURES
            for each in registered(cluster, leader).values()
        )

    tell_cluster(story, ROLES[roles])


def test_the_next_process_of_a_controller_registers_with_whichever_controller_is_active() -> None:
    async def story(cluster: Cluster) -> None:
        first = await cluster.leader()
        await cluster.until(lambda: set(registered(cluster, first)) == {1, 2, 3})
        before = registered(cluster, first)
        cluster.kill(first)
        second = await cluster.leader()
        await cluster.start(first)
        await cluster.until(
            lambda: (
                registered(cluster, second)[NodeId(first)].incarnation_id
                != before[NodeId(first)].incarnation_id
            )
        )
        others = {each: before[each] for each in before if each != first}
        assert {each: registered(cluster, second)[each] for each in others} == others

    tell_cluster(story)
