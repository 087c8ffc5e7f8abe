"""An issuer is behind HTTPS with a private authority.

A node fetches its keys there, and clients their tokens, in Kafka's own words.

The same files serve our clients, our commands and Apache Kafka's own tool.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ErrorCode,
    KafkaError,
    NewTopic,
    settings_from_file,
)
from tests.helpers.authority import Authority
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.issuer_server import IssuerServer, serving
from tests.integration.command_line import run
from tests.integration.kafka_node import java, skip_unless_kafka_is_there
from tests.integration.login_frames import PACKAGE
from tests.integration.oauth_issuer import SECRET, oauth_issuer

WAIT_SECONDS = 30
TOPIC = "guarded"
MODULE = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Realm:
    """A node, its issuer, the authority of the issuer, and a directory for files of clients."""

    bootstrap: str
    issuer: IssuerServer
    authority: Authority
    directory: Path

    @property
    def trust(self) -> str:
        return f'ssl.truststore.type="PEM" ssl.truststore.location="{self.authority.truststore}"'

    def file(self, name: str, jaas: str, **more: str) -> Path:
        """A client's file with Kafka's keys; those of ``more`` have underscores."""
        texts = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{MODULE} {jaas};",
            "sasl.login.callback.handler.class": f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": f"{self.issuer.base}/token",
            **{key.replace("_", "."): text for key, text in more.items()},
        }
        path = self.directory / f"{name}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in texts.items()))
        path.chmod(0o600)
        return path


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    directory = tmp_path_factory.mktemp("issuer")
    authority = Authority(directory / "authority")
    with oauth_issuer(authority) as issuer:
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{authority.truststore}"'
        properties = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.plaintext.oauthbearer.sasl.jaas.config": f"{MODULE} {trust};",
            "listener.name.plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{issuer.base}/keys",
            "sasl.oauthbearer.allowed.urls": f"{issuer.base}/keys",
            "sasl.oauthbearer.expected.audience": "logs",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:service",
        }
        with BrokerProcess(directory, properties=properties) as broker:
            made = Realm(
                bootstrap=broker.bootstrap, issuer=issuer, authority=authority, directory=directory
            )
            with BlockingAdmin(made.bootstrap, **settings_from_file(in_the_text(made))) as admin:
                admin.create_topics([NewTopic(name=TOPIC, partition_count=1)])
            yield made


def in_the_text(realm: Realm) -> Path:
    """The file that all of Kafka's versions since 3.1 take."""
    return realm.file(
        "text", f'clientId="service" clientSecret="{SECRET}" scope="logs" {realm.trust}'
    )


def in_keys(realm: Realm, secret: str = SECRET) -> Path:
    """The file that Kafka takes since 4.1."""
    own = {
        "sasl_oauthbearer_client_credentials_client_id": "service",
        "sasl_oauthbearer_client_credentials_client_secret": secret,
    }
    return realm.file("keys", realm.trust, **own)


def test_one_token_serves_all_connections_of_a_client(realm: Realm) -> None:
    before = len(realm.issuer.asked)
    with BlockingConsumer(
        realm.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        **settings_from_file(in_keys(realm)),
    ) as consumer:
        consumer.subscribe([TOPIC])
        with BlockingProducer(
            realm.bootstrap, **settings_from_file(in_the_text(realm))
        ) as producer:
            producer.send(TOPIC, value=b"1").wait()
        assert [record.value for record in consumer.poll(timeout_ms=WAIT_SECONDS * 1_000)] == [b"1"]
    tokens = [request.path for request in realm.issuer.asked[before:]]
    assert tokens == ["/token"] * 2, "one for each client"


def test_commands(realm: Realm) -> None:
    for file in (in_the_text(realm), in_keys(realm)):
        told = run(["topics", "list", "--command-config", str(file)], bootstrap=realm.bootstrap)
        assert TOPIC in told.output, told.errors
        assert told.errors == ""


def test_wrong_secret_is_told_with_the_endpoint_and_never_shown(realm: Realm) -> None:
    with (
        pytest.raises(KafkaError) as caught,
        BlockingAdmin(realm.bootstrap, **settings_from_file(in_keys(realm, "wrong"))) as admin,
    ):
        admin.list_topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (
        f"{realm.issuer.base}/token responded with status 401 (invalid_client: no such client)"
        in str(caught.value)
    )
    assert "wrong" not in str(caught.value)


def test_authority_that_is_not_named_is_told_with_where_to_name_it(realm: Realm) -> None:
    file = realm.file("untrusted", f'clientId="service" clientSecret="{SECRET}"')
    with (
        pytest.raises(KafkaError) as caught,
        BlockingAdmin(realm.bootstrap, **settings_from_file(file)) as admin,
    ):
        admin.list_topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert f"certificate of {realm.issuer.base}/token is not trusted" in str(caught.value)
    assert "trusted are the system's authorities" in str(caught.value)
    settings = settings_from_file(file) | {"sasl_oauthbearer_ca": str(realm.authority.truststore)}
    with BlockingAdmin(realm.bootstrap, **settings) as admin:
        assert admin.list_topics()


def test_endpoint_that_is_down_is_asked_again_until_the_call_ends(realm: Realm) -> None:
    with serving(lambda _: (503, b"later")) as busy:
        settings = settings_from_file(in_keys(realm)) | {
            "sasl_jaas_config": None,
            "sasl_oauthbearer_token_endpoint_url": f"{busy.base}/token",
            "default_api_timeout_ms": 2_000,
        }
        with (
            pytest.raises(KafkaError) as caught,
            BlockingAdmin(realm.bootstrap, **settings) as admin,
        ):
            admin.list_topics()
        assert f"{busy.base}/token responded with status 503" in str(caught.value)
        assert caught.value.is_retriable
        assert len(busy.asked) > 1


@pytest.mark.repeats("the commands, from Java")
def test_apache_kafkas_tool_takes_the_same_files(realm: Realm) -> None:
    skip_unless_kafka_is_there()
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={realm.issuer.base}/token"
    for file in (in_the_text(realm), in_keys(realm)):
        tool = (
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            realm.bootstrap,
            "--command-config",
            str(file),
            "--list",
        )
        assert TOPIC in java(allowed, *tool, cwd=realm.directory)
