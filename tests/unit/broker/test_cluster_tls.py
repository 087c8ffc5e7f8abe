"""Three nodes speak only TLS with each other, in virtual time.

The tests look at the quorum, at replicas, and at deaths that are seen at once.
"""

from pathlib import Path

import pytest
import trio

from log_service.common.types import NodeId
from tests.helpers.authority import Authority
from tests.helpers.cluster import Cluster, host_of, node_properties, replicate_records, tell_cluster

IDS = (1, 2, 3)
PROTOCOLS = "PLAINTEXT:PLAINTEXT,INSIDE:SSL,CONTROLLER:SSL"


def files_of(authority: Authority) -> dict[int, dict[str, str]]:
    """The files of nodes whose certificates are texts: the disks of virtual time hold no files of
    ours.
    """
    files = {}
    for node_id in IDS:
        issued = authority.issue(host_of(node_id), (host_of(node_id),))
        host = host_of(node_id)
        files[node_id] = node_properties(node_id, IDS) | {
            "listeners": f"PLAINTEXT://{host}:9092,INSIDE://{host}:9094,CONTROLLER://{host}:9093",
            "listener.security.protocol.map": PROTOCOLS,
            "inter.broker.listener.name": "INSIDE",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key_text,
            "ssl.keystore.certificate.chain": issued.chain_text,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": issued.truststore_text,
        }
    return files


@pytest.fixture
def files(tmp_path: Path) -> dict[int, dict[str, str]]:
    return files_of(Authority(tmp_path))


def test_records_are_replicated_and_a_death_is_seen_at_once(
    files: dict[int, dict[str, str]],
) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(lambda: cluster.unfenced(leader) == list(IDS))
        registered = cluster.brokers[leader].image.cluster.brokers
        numbers = {
            name: endpoint.security_protocol
            for name, endpoint in registered[NodeId(leader)].endpoints.items()
        }
        assert numbers == {"PLAINTEXT": 0, "INSIDE": 1}
        await replicate_records(cluster, leader)
        victim = next(node_id for node_id in IDS if node_id != leader)
        began = trio.current_time()
        cluster.kill(victim)
        await cluster.until(lambda: victim not in cluster.unfenced(leader))
        assert trio.current_time() - began < 2, "the session would have taken nine seconds"

    tell_cluster(story, files)


def test_a_node_that_others_do_not_trust_is_not_let_in(
    files: dict[int, dict[str, str]], tmp_path: Path
) -> None:
    strange = Authority(tmp_path / "strange").issue(host_of(3), (host_of(3),))
    files[3] |= {
        "ssl.keystore.key": strange.key_text,
        "ssl.keystore.certificate.chain": strange.chain_text,
    }

    async def story(cluster: Cluster) -> None:
        for node_id in IDS:
            cluster.format(node_id)
        with trio.fail_after(60):
            await cluster.start(1, 2)
        cluster.nursery.start_soon(cluster.start, 3)
        await trio.sleep(30)
        assert cluster.unfenced(1) == [1, 2]

    tell_cluster(story, files, is_started=False)
