"""Other people's clients log in to a node by PLAIN and both kinds of SCRAM.

Their own tools made the users.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import admin as librdkafka_admin

from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import WAIT_SECONDS
from tests.integration.kafka_node import java, skip_unless_kafka_is_there
from tests.integration.login_frames import (
    ADMIN,
    ADMIN_PASSWORD,
    ALICE,
    ALICE_PASSWORD,
    CAROL,
    CAROL_PASSWORD,
    LOGIN_PROPERTIES,
    PACKAGE,
)

librdkafka: Any = librdkafka_admin  # it does not say which names are its own
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOPIC = "guarded"


def user_of(mechanism: str) -> tuple[str, str]:
    return (ALICE, ALICE_PASSWORD) if mechanism == "PLAIN" else (CAROL, CAROL_PASSWORD)


def of_librdkafka(bootstrap: str, mechanism: str, name: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


def of_python(mechanism: str, name: str, password: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": password,
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node with a topic and the user carol, both made by librdkafka's admin
    client.
    """
    with BrokerProcess(tmp_path_factory.mktemp("guarded"), properties=LOGIN_PROPERTIES) as broker:
        admin = librdkafka.AdminClient(
            of_librdkafka(broker.bootstrap, "PLAIN", ADMIN, ADMIN_PASSWORD)
        )
        changes = [
            librdkafka.UserScramCredentialUpsertion(
                CAROL, librdkafka.ScramCredentialInfo(mechanism, 4096), CAROL_PASSWORD.encode()
            )
            for mechanism in (
                librdkafka.ScramMechanism.SCRAM_SHA_256,
                librdkafka.ScramMechanism.SCRAM_SHA_512,
            )
        ]
        for change in changes:
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(WAIT_SECONDS)
        told = admin.describe_user_scram_credentials().result(WAIT_SECONDS)
        assert [len(user.scram_credential_infos) for user in told.values()] == [2]
        admin.create_topics([librdkafka.NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_SECONDS)
        yield broker.bootstrap


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(guarded: str, mechanism: str) -> None:
    settings = of_librdkafka(guarded, mechanism, *user_of(mechanism))
    delivered: list[Any] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(
        TOPIC,
        mechanism.encode(),
        on_delivery=lambda error, record: delivered.append((error, record.offset())),
    )
    assert producer.flush(WAIT_SECONDS) == 0
    ((error, offset),) = delivered
    assert error is None
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": mechanism, "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, offset)])
    record = consumer.poll(WAIT_SECONDS)
    assert record is not None
    assert record.value() == mechanism.encode()
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_the_wrong_password(guarded: str, mechanism: str) -> None:
    errors: list[Any] = []
    settings = of_librdkafka(guarded, mechanism, user_of(mechanism)[0], "wrong")
    admin = librdkafka.AdminClient({**settings, "error_cb": errors.append})
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=1)
    admin.poll(1)
    assert {error.code() for error in errors} & {confluent_kafka.KafkaError._AUTHENTICATION}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(guarded: str, mechanism: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=guarded, **of_python(mechanism, *user_of(mechanism))
    )
    try:
        assert producer.send(TOPIC, mechanism.encode()).get(WAIT_SECONDS).topic == TOPIC
    finally:
        producer.close(WAIT_SECONDS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(guarded: str, mechanism: str) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=guarded, **of_python(mechanism, *user_of(mechanism))
        )
        await producer.start()
        try:
            assert (await producer.send_and_wait(TOPIC, mechanism.encode())).topic == TOPIC
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(main(), WAIT_SECONDS))


def test_java_sets_a_user_and_logs_in_as_it(guarded: str, tmp_path: Path) -> None:
    """Apache Kafka's own tools log in. kafka-configs makes a user by a PLAIN login, and
    kafka-topics logs in as that user by SCRAM.
    """
    skip_unless_kafka_is_there()

    def client(name: str, mechanism: str, module: str, user: str, password: str) -> str:
        path = tmp_path / f"{name}.properties"
        jaas = f'{PACKAGE}.{module} required username="{user}" password="{password}";'
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        )
        return str(path)

    admin = client("admin", "PLAIN", "plain.PlainLoginModule", ADMIN, ADMIN_PASSWORD)
    dave = client("dave", "SCRAM-SHA-512", "scram.ScramLoginModule", "dave", "dave-secret")
    user = ("--entity-type", "users", "--entity-name", "dave")
    change = (
        "--alter",
        *user,
        "--add-config",
        "SCRAM-SHA-512=[iterations=8192,password=dave-secret]",
    )
    java(
        "kafka.admin.ConfigCommand",
        "--bootstrap-server",
        guarded,
        "--command-config",
        admin,
        *change,
        cwd=tmp_path,
    )
    listed = java(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        guarded,
        "--command-config",
        dave,
        "--list",
        cwd=tmp_path,
    )
    assert TOPIC in listed
