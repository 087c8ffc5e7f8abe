"""A mirror runs between clusters that want logins over TLS and have an authorizer.

It needs just the rights that its page lists.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from log_service.client import (
    AclBinding,
    BlockingAdmin,
    BlockingProducer,
    ConfigResource,
    NewTopic,
    TopicPartition,
)
from tests.helpers.authority import Authority
from tests.helpers.broker_process import HOST, BrokerProcess
from tests.helpers.ports import free_ports
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.kafka_node import skip_unless_kafka_is_there
from tests.integration.mirrors import committed, mirroring, until, values, write_file
from tests.integration.secure_kafka import ALICE, ALICE_PASSWORD, PLAIN_MODULE, SecureKafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ROUTES = [(TIDELOG, TIDELOG), (APACHE_KAFKA, TIDELOG), (TIDELOG, APACHE_KAFKA)]
TOPIC, REMOTE, GROUP = "orders", "A.orders", "billing"
Right = tuple[str, str, str]
SOURCE_RIGHTS: list[Right] = [
    *(("topic", "*", operation) for operation in ("read", "describe_configs")),
    ("group", "*", "describe"),
]
TARGET_RIGHTS: list[Right] = [
    *(
        ("topic", "*", operation)
        for operation in ("read", "write", "create", "alter", "alter_configs", "describe_configs")
    ),
    ("group", "*", "read"),
    ("transactional_id", "tidelog-mirror.A.B", "write"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A cluster with two addresses.

    The test may do all at one, and the mirror has to log in as ``ALICE`` at the other, who may do
    nothing.
    """

    plain: str
    login: str
    truststore: Path

    def lines(self, alias: str) -> list[str]:
        """Return the part of a mirror's file about logging in."""
        jaas = f'{PLAIN_MODULE} required username="{ALICE}" password="{ALICE_PASSWORD}";'
        settings: Mapping[str, object] = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.truststore,
        }
        return [f"{alias}.{key} = {value}" for key, value in settings.items()]

    def grant(self, rights: list[Right]) -> None:
        with BlockingAdmin(self.plain) as admin:
            admin.create_acls(
                [
                    AclBinding(
                        resource_type=kind,
                        name=name,
                        principal=f"User:{ALICE}",
                        operation=operation,
                    )
                    for kind, name, operation in rights
                ]
            )


@contextmanager
def guarded_tidelog(directory: Path) -> Iterator[Guarded]:
    authority, (plain, login) = Authority(directory / "authority"), free_ports(2)
    properties = {
        **authority.issue("node").properties(),
        "listeners": f"PLAINTEXT://{HOST}:{plain},LOGIN://{HOST}:{login}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{ALICE}="{ALICE_PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(directory / "node", port=plain, properties=properties):
        yield Guarded(
            plain=f"{HOST}:{plain}", login=f"{HOST}:{login}", truststore=authority.truststore
        )


@contextmanager
def guarded_kafka(directory: Path) -> Iterator[Guarded]:
    skip_unless_kafka_is_there()
    secure = SecureKafka(directory)
    with secure.node:
        yield Guarded(
            plain=secure.node.bootstrap,
            login=secure.sasl_ssl,
            truststore=secure.authority.truststore,
        )


@pytest.fixture(params=ROUTES, ids=" to ".join)
def route(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Guarded, Guarded]]:
    kinds: Mapping[str, Callable[[Path], AbstractContextManager[Guarded]]] = {
        TIDELOG: guarded_tidelog,
        APACHE_KAFKA: guarded_kafka,
    }
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(kinds[kind](tmp_path / alias))
            for alias, kind in zip("AB", request.param, strict=True)
        )
        yield source, target


def test_a_mirror_logs_in_on_both_sides_and_needs_just_the_rights_that_the_page_tells(
    route: tuple[Guarded, Guarded], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = route
    with BlockingAdmin(source.plain) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name=TOPIC,
                    partition_count=1,
                    replication_factor=1,
                    configs={"retention.ms": "-1"},
                )
            ]
        )
        admin.alter_group_offsets(GROUP, {TopicPartition(TOPIC, 0): 1})
    with BlockingProducer(source.plain) as producer:
        for value in (b"one", b"two"):
            producer.send(TOPIC, value=value)
    lines = [
        "A->B.enabled = true",
        f"A->B.topics = {TOPIC}",
        f"A->B.groups = {GROUP}",
        *source.lines("A"),
        *target.lines("B"),
    ]
    file = write_file(tmp_path / "m.properties", {"A": source.login, "B": target.login}, *lines)
    with mirroring(file):
        until(
            lambda: "A->B: stopped, and begins again where it was" in caplog.text,
            "the mirror may do nothing yet, and says so",
        )
        source.grant(SOURCE_RIGHTS)
        target.grant(TARGET_RIGHTS)
        until(lambda: values(target.plain, REMOTE) == [b"one", b"two"], "the records are there")
        until(
            lambda: committed(target.plain, GROUP) == {TopicPartition(REMOTE, 0): 1},
            "the group is carried over",
        )
        with BlockingAdmin(target.plain) as admin:
            found = admin.describe_configs([ConfigResource.topic(REMOTE)])[
                ConfigResource.topic(REMOTE)
            ]
        assert found["retention.ms"].value == "-1"
        with BlockingAdmin(source.plain) as admin:
            admin.create_partitions({TOPIC: 2})
            admin.alter_configs({ConfigResource.topic(TOPIC): {"max.message.bytes": "2000000"}})
        with BlockingProducer(source.plain) as producer:
            producer.send(TOPIC, value=b"three", partition=1)
        until(
            lambda: values(target.plain, REMOTE, 1) == [b"three"], "the new partition is mirrored"
        )
