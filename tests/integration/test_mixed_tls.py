"""Clusters of one product and of both have TLS between all nodes, brokers and controllers.

Each node shows a certificate.
"""

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from log_service.common.errors import KafkaError
from tests.helpers.authority import Authority
from tests.helpers.ports import free_ports
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPIC = "orders"
WAIT_SECONDS = 60.0


def protected(nodes: ClusterNodes, authority: Authority) -> ClusterNodes:
    """Give each node a listener for brokers that speaks TLS, and have its controller speak it.

    Clients stay in the clear.
    """
    for node_id, port in zip(NODE_IDS, free_ports(len(NODE_IDS)), strict=True):
        texts = nodes.properties[node_id]
        texts |= authority.issue(f"node-{node_id}").properties()
        texts |= {
            "listeners": f"{texts['listeners']},INSIDE://127.0.0.1:{port}",
            "advertised.listeners": f"{texts['advertised.listeners']},INSIDE://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "INSIDE",
            "ssl.client.auth": "required",
        }
    return nodes


@pytest.fixture(
    scope="module",
    params=[TIDELOG, {1: TIDELOG, 2: TIDELOG, 3: APACHE_KAFKA}],
    ids=["tidelog", "mixed"],
)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterNodes]:
    directory = tmp_path_factory.mktemp("mixed")
    made = ClusterNodes(request.param, directory, is_mixed=request.param != TIDELOG)
    with protected(made, Authority(directory / "authority")) as running:
        yield running


def wait_until_all_lead(nodes: ClusterNodes, admin: BlockingAdmin) -> None:
    """Elect preferred leaders until each node leads.

    A node that was late for a session has lost its leadership.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while {nodes.leader_of(TOPIC, partition) for partition in range(len(NODE_IDS))} != set(
        NODE_IDS
    ):
        assert time.monotonic() < deadline, "leaders of both products are followed"
        time.sleep(0.2)
        with suppress(KafkaError):
            admin.elect_leaders()


def test_nodes_of_either_product_lead_and_copy_over_tls(nodes: ClusterNodes) -> None:
    with BlockingAdmin(nodes.bootstrap, default_api_timeout_ms=60_000) as admin:
        admin.create_topics(
            [NewTopic(name=TOPIC, assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})]
        )
        nodes.wait_until_whole(TOPIC)
        wait_until_all_lead(nodes, admin)
    with BlockingProducer(nodes.bootstrap, delivery_timeout_ms=120_000) as producer:
        for number in range(300):
            producer.send(TOPIC, str(number).encode(), key=str(number).encode())
        producer.flush()
    nodes.wait_until_whole(TOPIC)
    nodes.wait_until_equal(TOPIC)
    lost = nodes.controller()
    nodes.kill(lost)
    assert nodes.controller(besides=(lost,)) != lost
    nodes.start(lost)
    nodes.wait_until_whole(TOPIC)
