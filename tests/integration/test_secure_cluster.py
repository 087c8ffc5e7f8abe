"""Three nodes that speak SASL_SSL with everybody, under kills, restarts and new certificates: nothing is lost, nothing is in the clear."""

import os
import socket
import ssl
import time
from collections.abc import Iterator

import pytest
from cryptography import x509

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic
from log_service.common.errors import ErrorCode, KafkaError
from tests.helpers.java_archives import KAFKA_LIBS
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import NODE_IDS
from tests.integration.secure_nodes import GROUP, OPERATOR, SHOP, STRANGER, TOPIC, SecureNodes, password_of
from tests.integration.secure_readers import READS
from tests.integration.secure_writers import Writers
from tests.integration.watched_wire import WatchedWire

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

RELOAD_SECONDS = 60.0


@pytest.fixture(scope="module")
def wire() -> Iterator[WatchedWire]:
    with WatchedWire() as made:
        yield made


@pytest.fixture(scope="module")
def nodes(wire: WatchedWire, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    with SecureNodes(TIDELOG, tmp_path_factory.mktemp("secure"), ways=wire) as running:
        running.grant_least()
        with BlockingAdmin(running.bootstrap, **running.client(OPERATOR)) as operator:
            operator.create_topics([NewTopic(name=TOPIC, partition_count=3, replication_factor=3)])
        yield running


def serial_served_by(nodes: SecureNodes, node_id: int) -> int:
    """The serial number of the certificate that a node shows to new connections."""
    context = ssl.create_default_context(cafile=str(nodes.authority.truststore))
    with (
        socket.create_connection(("127.0.0.1", nodes.ports[node_id]), 10) as bare,
        context.wrap_socket(bare, server_hostname="127.0.0.1") as tls,
    ):
        shown = tls.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def test_nothing_acknowledged_is_lost_while_nodes_die_and_certificates_change(nodes: SecureNodes, wire: WatchedWire) -> None:
    with Writers(nodes, has_java=KAFKA_LIBS in os.environ) as writers:
        writers.wait_for_progress()
        for _ in range(of_a_run(1, whole=3)):
            for lost in (nodes.leader_of(TOPIC, 0), nodes.controller()):
                nodes.kill(lost)
                writers.wait_for_progress()
                nodes.start(lost)
                nodes.wait_until_whole(TOPIC)
        for node_id in NODE_IDS:
            nodes.renew_certificate(node_id)
            nodes.stop(node_id)
            nodes.start(node_id)
            nodes.wait_until_whole(TOPIC)
            writers.wait_for_progress()
    assert not writers.errors
    for name, acked in writers.acked.items():
        assert len(acked) > 10, name
    wanted = {value for acked in writers.acked.values() for value in acked}
    for name, read in READS.items():
        if name != "java" or KAFKA_LIBS in os.environ:
            assert wanted - read(nodes, wanted) == set(), name
    assert wire.connection_count > 10
    assert wire.clear == []


def test_node_shows_a_certificate_that_replaced_its_own_without_a_restart(nodes: SecureNodes) -> None:
    serial = nodes.renew_certificate(1)
    assert serial_served_by(nodes, 1) != serial
    deadline = time.monotonic() + RELOAD_SECONDS
    while serial_served_by(nodes, 1) != serial:
        assert time.monotonic() < deadline, "the new certificate was never shown"
        time.sleep(1)
    with BlockingProducer(nodes.bootstrap, **nodes.client(SHOP)) as producer:
        producer.send(TOPIC, b"after", partition=0).wait()


def test_client_without_rights_is_refused_with_kafkas_codes(nodes: SecureNodes) -> None:
    with BlockingProducer(nodes.bootstrap, **nodes.client(STRANGER)) as producer, pytest.raises(KafkaError) as written:
        producer.send(TOPIC, b"no").wait()
    with BlockingConsumer(nodes.bootstrap, group_id=GROUP, **nodes.client(SHOP)) as consumer:
        consumer.subscribe([TOPIC])
        with pytest.raises(KafkaError) as joined:
            consumer.poll(timeout_ms=20_000)
    with BlockingAdmin(nodes.bootstrap, **nodes.client(OPERATOR)) as operator:
        with pytest.raises(KafkaError) as made:
            operator.create_topics([NewTopic(name="other", partition_count=1, replication_factor=1)])
        with pytest.raises(KafkaError) as altered:
            operator.remove_scram_users([(SHOP, "SCRAM-SHA-512")])
    with BlockingAdmin(nodes.bootstrap, **nodes.client(SHOP, password_of(STRANGER))) as liar, pytest.raises(KafkaError) as named:
        liar.list_topics()
    assert [caught.value.code for caught in (written, joined, made, altered, named)] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    ]


def test_no_node_has_written_a_password_into_its_log(nodes: SecureNodes) -> None:
    for node_id in NODE_IDS:
        assert "planted-secret" not in nodes.log(node_id)
