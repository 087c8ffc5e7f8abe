"""The settings of a registry, under Confluent's keys."""

import pytest

from log_service.common.errors import ConfigError
from log_service.http.schema_registry.settings import read_registry_settings
from log_service.http.schema_registry.values import CompatibilityLevel
from log_service.http.service_settings import ListenAddress

HTTPS = "listeners=https://127.0.0.1:8081\nssl.keystore.type=PEM\nssl.keystore.location=/none.pem"


def test_an_empty_file_is_enough() -> None:
    """The defaults serve a broker of this machine on the usual port."""
    settings = read_registry_settings("", "a file")
    assert settings.listeners == (ListenAddress(scheme="http", host="127.0.0.1", port=8081),)
    assert (settings.topic, settings.group, settings.level) == (
        "_schemas",
        "schema-registry",
        CompatibilityLevel.BACKWARD,
    )
    assert settings.replication_factor is None
    assert settings.logins == frozenset()


def test_a_file_of_confluents_registry_is_understood() -> None:
    """Whoever comes from there brings the file along."""
    settings = read_registry_settings(
        """
        listeners=http://0.0.0.0:8085,https://0.0.0.0:8086
        host.name=registry.example
        inter.instance.protocol=http
        kafkastore.bootstrap.servers=PLAINTEXT://one:9092,PLAINTEXT://two:9092
        kafkastore.topic=my_schemas
        kafkastore.topic.replication.factor=2
        kafkastore.security.protocol=SASL_PLAINTEXT
        kafkastore.sasl.mechanism=PLAIN
        master.eligibility=false
        avro.compatibility.level=full_transitive
        ssl.keystore.location=/tmp/none.pem
        ssl.keystore.type=PEM
        debug=true
        """,
        "a file",
    )
    assert settings.advertised == ListenAddress(scheme="http", host="registry.example", port=8085)
    assert settings.bootstrap_servers == "one:9092,two:9092"
    assert (settings.topic, settings.replication_factor) == ("my_schemas", 2)
    assert not settings.is_eligible
    assert settings.level is CompatibilityLevel.FULL_TRANSITIVE
    assert settings.client["security_protocol"] == "SASL_PLAINTEXT"
    assert settings.tls is not None
    assert settings.unused == ("debug",)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("listeners=", "listeners names no address"),
        ("listeners=127.0.0.1:8081", "an address looks like"),
        ("listeners=http://127.0.0.1", "an address looks like"),
        ("listeners=http://127.0.0.1:99999", "no address"),
        ("listeners=ftp://127.0.0.1:21", "an address looks like"),
        ("inter.instance.protocol=https", "no listener speaks it"),
        ("inter.instance.protocol=gopher", "may be http or https"),
        ("kafkastore.topic.replication.factor=0", "a number from 1"),
        ("schema.compatibility.level=sideways", "it may be NONE, BACKWARD"),
        ("leader.eligibility=perhaps", "true or false"),
        ("authentication.method=telepathy", "it may be none, basic, bearer, mtls"),
        ("authorizer=oracle", "it may be none, acl"),
        (
            "listeners=http://0.0.0.0:8081\nauthentication.method=basic",
            "needs TLS on http://0.0.0.0:8081",
        ),
        ("listeners=http://192.0.2.1:8081\nauthentication.method=bearer", "needs TLS"),
        ("authentication.method=mtls", "mtls needs https"),
        (f"{HTTPS}\nauthentication.method=mtls", "ssl.client.auth=required or requested"),
        (
            f"{HTTPS}\nauthentication.method=basic,mtls\nssl.client.auth=none",
            "ssl.client.auth=required or requested",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(line: str, complaint: str) -> None:
    """The error names the file, the key and what may stand there."""
    with pytest.raises(ConfigError, match=f"(?s)a file.*{complaint}"):
        read_registry_settings(line, "a file")


def test_options_win_over_the_file() -> None:
    """The command line has the last word."""
    settings = read_registry_settings("kafkastore.topic=a", "a file", {"kafkastore.topic": "b"})
    assert settings.topic == "b"


def test_passwords_are_checked_without_the_login_of_the_registry() -> None:
    """Its own user beside that of a client would be a contradiction."""
    settings = read_registry_settings(
        """
        authentication.method=basic
        kafkastore.bootstrap.servers=SASL_SSL://one:9092, SASL_SSL://two:9092
        kafkastore.security.protocol=SASL_SSL
        kafkastore.sasl.mechanism=SCRAM-SHA-512
        kafkastore.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="r" password="p";
        kafkastore.ssl.truststore.location=/trust.pem
        """,
        "a file",
    )
    assert settings.login_servers == settings.bootstrap_servers == "one:9092,two:9092"
    assert settings.client["sasl_jaas_config"]
    assert settings.login_client == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "ssl_truststore_location": "/trust.pem",
    }
