"""Three nodes speak SASL_SSL with everybody, under kills, restarts and new certificates.

Nothing is lost, and nothing is in the clear.
"""

import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from log_service.client import (
    AclBinding,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    NewTopic,
)
from log_service.common.errors import ErrorCode, KafkaError
from tests.chaos.load import wait_for_readers
from tests.chaos.verdicts import commits_stand, group_got_everything, judge, read_log
from tests.helpers.java_archives import KAFKA_LIBS
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG
from tests.integration.clients_of_a_cluster import (
    PAUSE_SECONDS,
    ProgramReader,
    ProgramWriter,
    franz_go,
    wait_for_progress,
)
from tests.integration.cluster_nodes import NODE_IDS
from tests.integration.secure_nodes import (
    BILLING,
    GROUP,
    NODE,
    OPERATOR,
    SCRAM,
    SHOP,
    STRANGER,
    TOPIC,
    SecureNodes,
    password_of,
)
from tests.integration.secure_readers import READS
from tests.integration.secure_writers import Writers
from tests.integration.watched_wire import WatchedWire

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

RELOAD_SECONDS = 60.0
FRANZ_GO_TOPIC, FRANZ_GO_PARTITIONS = "sold", 3
PATIENCE_SECONDS = 120.0


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


def test_nothing_acknowledged_is_lost_while_nodes_die_and_certificates_change(
    nodes: SecureNodes, wire: WatchedWire
) -> None:
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


def begin_in_go(nodes: SecureNodes, folder: Path) -> tuple[ProgramWriter, ProgramReader]:
    """Let User:shop write a topic with franz-go, and User:billing read it in a group; neither may
    do more.
    """
    command = franz_go(folder)
    topics = {FRANZ_GO_TOPIC: FRANZ_GO_PARTITIONS}
    may = [(SHOP, "topic", "write"), (BILLING, "topic", "read")]
    acls = [
        AclBinding(
            resource_type=kind, name=FRANZ_GO_TOPIC, principal=f"User:{user}", operation=what
        )
        for user, kind, what in may
    ]
    with BlockingAdmin(nodes.bootstrap, **nodes.client(NODE)) as admin:
        admin.create_acls(acls)
        admin.create_topics(
            [
                NewTopic(
                    name=FRANZ_GO_TOPIC, partition_count=FRANZ_GO_PARTITIONS, replication_factor=3
                )
            ]
        )
    writer = ProgramWriter("franz-go", nodes.bootstrap, 1, topics, pause_seconds=PAUSE_SECONDS)
    reader = ProgramReader("franz-go group", nodes.bootstrap, topics, group=f"{GROUP}-franz-go")
    for client, user in ((writer, SHOP), (reader, BILLING)):
        said = {
            "authority": str(nodes.authority.truststore),
            "mechanism": SCRAM,
            "user": user,
            "password": password_of(user),
        }
        file = folder / f"{user}.json"
        file.write_text(json.dumps(said))
        client.command = [*command, f"--security={file}"]
        client.start()
    return writer, reader


def test_franz_go_writes_and_reads_while_nodes_die(nodes: SecureNodes, tmp_path: Path) -> None:
    writer, reader = begin_in_go(nodes, tmp_path)
    try:
        wait_for_progress(writer, PATIENCE_SECONDS)
        for lost in of_a_run((nodes.leader_of(FRANZ_GO_TOPIC, 0),), whole=NODE_IDS):
            nodes.kill(lost)
            wait_for_progress(writer, PATIENCE_SECONDS)
            nodes.start(lost)
            nodes.wait_until_whole(FRANZ_GO_TOPIC)
            wait_for_progress(writer, PATIENCE_SECONDS)
    finally:
        writer.stop()
        judge_login = {
            name.replace(".", "_"): text
            for name, text in nodes.librdkafka(NODE).items()
            if name != "bootstrap.servers"
        }
        log = read_log(nodes.bootstrap, reader.topics, **judge_login)
        wait_for_readers(log, [reader], PATIENCE_SECONDS)
        reader.stop()
    assert judge(log, [writer], [reader]) == []
    assert [
        *group_got_everything(log, [reader]),
        *commits_stand(nodes.bootstrap, [reader], **judge_login),
    ] == []
    assert reader.committed


def test_node_shows_a_certificate_that_replaced_its_own_without_a_restart(
    nodes: SecureNodes,
) -> None:
    serial = nodes.renew_certificate(1)
    assert serial_served_by(nodes, 1) != serial
    deadline = time.monotonic() + RELOAD_SECONDS
    while serial_served_by(nodes, 1) != serial:
        assert time.monotonic() < deadline, "the new certificate was never shown"
        time.sleep(1)
    with BlockingProducer(nodes.bootstrap, **nodes.client(SHOP)) as producer:
        producer.send(TOPIC, b"after", partition=0).wait()


def test_client_without_rights_is_refused_with_kafkas_codes(nodes: SecureNodes) -> None:
    with (
        BlockingProducer(nodes.bootstrap, **nodes.client(STRANGER)) as producer,
        pytest.raises(KafkaError) as written,
    ):
        producer.send(TOPIC, b"no").wait()
    with BlockingConsumer(nodes.bootstrap, group_id=GROUP, **nodes.client(SHOP)) as consumer:
        consumer.subscribe([TOPIC])
        with pytest.raises(KafkaError) as joined:
            consumer.poll(timeout_ms=20_000)
    with BlockingAdmin(nodes.bootstrap, **nodes.client(OPERATOR)) as operator:
        with pytest.raises(KafkaError) as made:
            operator.create_topics(
                [NewTopic(name="other", partition_count=1, replication_factor=1)]
            )
        with pytest.raises(KafkaError) as altered:
            operator.remove_scram_users([(SHOP, "SCRAM-SHA-512")])
    with (
        BlockingAdmin(nodes.bootstrap, **nodes.client(SHOP, password_of(STRANGER))) as liar,
        pytest.raises(KafkaError) as named,
    ):
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
