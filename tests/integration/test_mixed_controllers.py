"""The controllers of both products know of each other.

Each registers, each is told, and each says which feature levels it keeps.

Apache Kafka's own tools ask, at the controllers' listeners.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin
from log_service.raft.voters import NO_DIRECTORY
from log_service.storage.partition_metadata import format_uuid
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes
from tests.integration.kafka_node import java
from tests.integration.products_in_turn import let_lead

PRODUCTS = {1: TIDELOG, 2: APACHE_KAFKA, 3: TIDELOG}
TOLD_SECONDS = 4.0
"""Voters tell a new leader of themselves after two seconds."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(PRODUCTS, tmp_path_factory.mktemp("mixed"), is_mixed=True) as running:
        yield running


def told_by(nodes: ClusterNodes, node_id: int) -> dict[int, str]:
    """Return the address of each controller, as one of them says."""
    address = nodes.controllers[node_id]
    told = java(
        "org.apache.kafka.tools.ClusterTool",
        "list-endpoints",
        "--bootstrap-controller",
        address,
        cwd=nodes.directory,
    )
    return {
        int(match[1]): f"{match[2]}:{match[3]}"
        for match in re.finditer(r"(?m)^(\d+)\s+(\S+)\s+(\d+)\s", told)
    }


def test_each_controller_tells_all_of_them_whichever_product_is_active(nodes: ClusterNodes) -> None:
    for product in (APACHE_KAFKA, TIDELOG):
        let_lead(nodes, product)
        for node_id in NODE_IDS:
            assert told_by(nodes, node_id) == nodes.controllers


def test_kafkas_tool_describes_the_quorum_by_a_controller_of_tidelog(nodes: ClusterNodes) -> None:
    command = ("--bootstrap-controller", nodes.controllers[1], "describe", "--status")
    told = java("org.apache.kafka.tools.MetadataQuorumCommand", *command, cwd=nodes.directory)
    assert re.search(rf"LeaderId:\s+{nodes.controller()}\b", told)


@pytest.mark.parametrize(
    "product", [TIDELOG, pytest.param(APACHE_KAFKA, marks=pytest.mark.repeats)]
)
def test_voters_of_the_configuration_become_records_under_either_leader(
    product: str, tmp_path: Path
) -> None:
    """Kafka's own tools raise kraft.version, take a voter out, and see it come back by itself."""
    with ClusterNodes(PRODUCTS, tmp_path / "upgrade", is_mixed=True) as nodes:
        leader = let_lead(nodes, product)
        time.sleep(TOLD_SECONDS)
        upgrade = ("--bootstrap-server", nodes.bootstrap, "upgrade", "--feature", "kraft.version=1")
        java("org.apache.kafka.tools.FeatureCommand", *upgrade, cwd=nodes.directory)
        with BlockingAdmin(nodes.bootstrap) as admin:
            quorum = admin.describe_metadata_quorum()
            assert [voter.node_id for voter in quorum.voters] == [1, 2, 3]
            assert all(voter.directory_id != NO_DIRECTORY for voter in quorum.voters)
        removed = next(voter for voter in quorum.voters if voter.node_id not in {leader, 2})
        removal = (
            "remove-controller",
            "--controller-id",
            str(removed.node_id),
            "--controller-directory-id",
        )
        command = (
            "--bootstrap-server",
            nodes.bootstrap,
            *removal,
            format_uuid(removed.directory_id),
        )
        java("org.apache.kafka.tools.MetadataQuorumCommand", *command, cwd=nodes.directory)
        with BlockingAdmin(nodes.bootstrap) as admin:
            quorum = admin.describe_metadata_quorum()
            assert [voter.node_id for voter in quorum.voters] == sorted(
                {1, 2, 3} - {removed.node_id}
            )
        for node_id in NODE_IDS:
            nodes.kill(node_id)
        nodes.start(*NODE_IDS)
        assert nodes.controller() in NODE_IDS
