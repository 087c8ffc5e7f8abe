"""Other people's clients, ours and Apache Kafka's own tool log in to a node by OAUTHBEARER.

Tokens are signed, and keys come from a file.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import admin as librdkafka_admin
from kafka.net.sasl.oauth import AbstractTokenProvider

from log_service.client import BlockingAdmin, ErrorCode, KafkaError, NewTopic
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import WAIT_SECONDS
from tests.integration.kafka_node import java, skip_unless_kafka_is_there
from tests.integration.login_frames import PACKAGE
from tests.unit.security.sasl.issuer import jwk, key_set, token

librdkafka: Any = librdkafka_admin  # it does not say which names are its own
TOPIC = "guarded"
SERVICE, STRANGER = "service", "stranger"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LIFETIME_S = 600


def token_of(name: str, lifetime_s: int = LIFETIME_S, **more: Any) -> str:
    now_s = int(time.time())
    return token("rsa", sub=name, aud="logs", iat=now_s - 5, exp=now_s + lifetime_s, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A node, and a directory for files of clients."""

    bootstrap: str
    directory: Path

    def of_librdkafka(self, name: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _config: (token_of(name), time.time() + LIFETIME_S),
            **more,
        }

    def of_python(self, provider: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
        }

    def token_file(self, name: str, text: str) -> Path:
        path = self.directory / f"{name}.jwt"
        path.write_text(text)
        return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Yield a node that takes tokens of one issuer.

    The service that one of them names may do everything, and others nothing.
    """
    directory = tmp_path_factory.mktemp("oauth")
    keys = directory / "keys.json"
    keys.write_bytes(key_set(jwk("rsa")))
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.allowed.urls": f"file://{keys}",
        "sasl.oauthbearer.expected.audience": "logs",
        "authorizer.class.name": STANDARD,
        "super.users": f"User:{SERVICE}",
    }
    with BrokerProcess(directory, properties=properties) as broker:
        node = Guarded(bootstrap=broker.bootstrap, directory=directory)
        admin = librdkafka.AdminClient(node.of_librdkafka(SERVICE))
        admin.create_topics([librdkafka.NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_SECONDS)
        yield node


def test_librdkafka(guarded: Guarded) -> None:
    delivered: list[Any] = []
    producer = confluent_kafka.Producer(guarded.of_librdkafka(SERVICE))
    producer.produce(TOPIC, b"1", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(WAIT_SECONDS) == 0
    assert delivered == [None]


def test_the_principal_is_the_subject_of_the_token(guarded: Guarded) -> None:
    admin = librdkafka.AdminClient(guarded.of_librdkafka(STRANGER))
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        admin.create_topics([librdkafka.NewTopic("other", 1)])["other"].result(WAIT_SECONDS)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


REFUSED: dict[str, Callable[[], str]] = {
    "expired": lambda: token_of(SERVICE, -100),
    "wrong signature": lambda: token_of(SERVICE).rpartition(".")[0] + ".AAAA",
    "unknown key": lambda: token_of(SERVICE, headers={"kid": "other"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_librdkafka_with_a_token_that_is_refused(guarded: Guarded, what: str) -> None:
    errors: list[Any] = []
    own = {
        "oauth_cb": lambda _config: (REFUSED[what](), time.time() + LIFETIME_S),
        "error_cb": errors.append,
    }
    admin = librdkafka.AdminClient(guarded.of_librdkafka(SERVICE, **own))
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(1)
    assert {error.code() for error in errors} & {confluent_kafka.KafkaError._AUTHENTICATION}


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """A provider of tokens for kafka-python."""

    def token(self) -> str:
        return token_of(SERVICE)


def test_kafka_python(guarded: Guarded) -> None:
    producer = kafka.KafkaProducer(**guarded.of_python(Provider()))
    try:
        assert producer.send(TOPIC, b"2").get(WAIT_SECONDS).topic == TOPIC
    finally:
        producer.close(WAIT_SECONDS)


class AsyncProvider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """A provider of tokens for aiokafka."""

    async def token(self) -> str:
        return token_of(SERVICE)


def test_aiokafka(guarded: Guarded) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(**guarded.of_python(AsyncProvider()))
        await producer.start()
        try:
            assert (await producer.send_and_wait(TOPIC, b"3")).topic == TOPIC
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(main(), WAIT_SECONDS))


def test_our_client_with_a_token_from_a_file(guarded: Guarded) -> None:
    def settings(path: Path) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token": str(path),
        }

    mine = guarded.token_file("mine", token_of(SERVICE) + "\n")
    with BlockingAdmin(guarded.bootstrap, **settings(mine)) as admin:
        admin.create_topics([NewTopic(name="ours", partition_count=1)])
        assert "ours" in {topic.name for topic in admin.list_topics()}
    late = guarded.token_file("late", token_of(SERVICE, -100))
    with (
        pytest.raises(KafkaError) as caught,
        BlockingAdmin(guarded.bootstrap, **settings(late)) as admin,
    ):
        admin.list_topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.repeats("the login of librdkafka, from Java")
def test_java_with_a_token_from_a_file(guarded: Guarded, tmp_path: Path) -> None:
    skip_unless_kafka_is_there()
    url = f"file://{guarded.token_file('java', token_of(SERVICE))}"
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    tool = (
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        guarded.bootstrap,
        "--command-config",
        str(file),
        "--list",
    )
    assert TOPIC in java(allowed, *tool, cwd=tmp_path)
