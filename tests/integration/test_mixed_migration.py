"""A protected cluster of Apache Kafka becomes one of tidelog under load.

It has SASL_SSL on every listener, SCRAM users and ACLs.

A producer and a group that may do just what they do go on while one node after the other is
replaced over its directory, with its file. Users, passwords and ACLs hold on every node of either
product, those of the other product too, and who was shut out stays shut out.
"""

import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic, ScramUser
from log_service.common.errors import ErrorCode, KafkaError
from tests.chaos.load import ConfluentWriter, ConsumerProtocolReader, wait_for_readers
from tests.chaos.verdicts import group_got_everything, judge, read_log
from tests.chaos.waits import waits_between
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS
from tests.integration.secure_nodes import (
    BILLING,
    GROUP,
    NODE,
    SCRAM,
    SHOP,
    STRANGER,
    TOPIC,
    SecureNodes,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PLACES = list(permutations(NODE_IDS))
TOPICS = {TOPIC: len(PLACES)}
NEWCOMER, SECRET = "newcomer", "made-by-tidelog"
WAIT_SECONDS = 60.0


@pytest.mark.repeats("the story of a cluster that is not protected, with logins and rights")
def test_a_protected_cluster_of_kafka_becomes_one_of_tidelog_and_goes_back(tmp_path: Path) -> None:
    with SecureNodes(APACHE_KAFKA, tmp_path) as nodes:
        nodes.grant_least()
        with BlockingAdmin(nodes.bootstrap, **nodes.client(NODE)) as admin:
            admin.create_topics([NewTopic(name=TOPIC, assignments=dict(enumerate(PLACES)))])
        nodes.wait_until_whole(TOPIC)
        writer = ConfluentWriter(
            "rdkafka", nodes.bootstrap, 1, TOPICS, pause_seconds=0.02, **nodes.librdkafka(SHOP)
        )
        reader = ConsumerProtocolReader(
            "reader", nodes.bootstrap, TOPICS, group=GROUP, **nodes.librdkafka(BILLING)
        )
        for client in (writer, reader):
            client.start()
        wait_until_acknowledged(writer, 100)
        begin = time.monotonic()
        for node_id in NODE_IDS:
            nodes.replace(node_id, TIDELOG)
            nodes.wait_until_whole(TOPIC)
            assert_who_comes_in(nodes, node_id, {SHOP: None})
        waited = waits_between(writer.told_at, begin, time.monotonic())
        print(f"over to tidelog, protected: {waited}")  # noqa: T201 - for docs/migration.md
        with BlockingAdmin(nodes.bootstrap, **nodes.client(NODE)) as admin:
            admin.set_scram_users([ScramUser(name=NEWCOMER, mechanism=SCRAM, password=SECRET)])
        for node_id in NODE_IDS:
            nodes.replace(node_id, APACHE_KAFKA)
            nodes.wait_until_whole(TOPIC)
            assert_who_comes_in(nodes, node_id, {SHOP: None, NEWCOMER: SECRET})
        writer.stop()
        log = read_log(nodes.bootstrap, TOPICS, **nodes.librdkafka(NODE))
        wait_for_readers(log, [reader], WAIT_SECONDS)
        reader.stop()
        nodes.wait_until_equal(TOPIC)
        segments = {
            (TOPIC, partition): nodes.segments(1, TOPIC, partition)
            for partition in range(len(PLACES))
        }
        assert [
            *judge(log, [writer], [reader], segments),
            *group_got_everything(log, [reader]),
        ] == []
        assert writer.acknowledged_counts() == writer.sent_count, (
            "a request did not succeed in the end"
        )
        assert len(writer.acknowledged) > 200


def wait_until_acknowledged(writer: ConfluentWriter, count: int) -> None:
    """Wait until all goes its usual way.

    The cost of a first login and of a new group is none of the migration.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while len(writer.acknowledged) < count:
        assert time.monotonic() < deadline, writer.failures
        time.sleep(0.1)


def assert_who_comes_in(nodes: SecureNodes, node_id: int, users: dict[str, str | None]) -> None:
    """These users log in at a node; a wrong password does not, and a user without rights gets none."""
    address = f"127.0.0.1:{nodes.ports[node_id]}"

    def refusal(
        user: str, password: str | None, ask: Callable[[BlockingAdmin], object]
    ) -> ErrorCode | None:
        with BlockingAdmin(address, **nodes.client(user, password)) as admin:
            try:
                ask(admin)
            except KafkaError as error:
                return error.code
        return None

    for user, password in users.items():
        assert refusal(user, password, BlockingAdmin.list_topics) is None
    assert refusal(SHOP, "wrong", BlockingAdmin.list_topics) is ErrorCode.SASL_AUTHENTICATION_FAILED
    wanted = [NewTopic(name="theirs", partition_count=1, replication_factor=1)]
    made = refusal(
        STRANGER, None, lambda admin: admin.create_topics(wanted, is_validated_only=True)
    )
    assert made is ErrorCode.TOPIC_AUTHORIZATION_FAILED
