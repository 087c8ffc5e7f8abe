"""The schema registry of a broker's properties."""

import pytest

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.config.describe import describe_new_topic, describe_topic
from log_service.config.resolve import Layers
from log_service.config.schema_registry import schema_registry_config
from log_service.config.server import parse_server_properties
from log_service.config.topic import log_config, validate_schema_registry, validate_topic_configs
from log_service.config.topic_keys import RECORD_NAME_STRATEGY, TOPIC_NAME_STRATEGY
from log_service.config.views import LogConfig

URL = "confluent.schema.registry.url"
LOGIN = "confluent.basic.auth.user.info"
PEM = "-----BEGIN CERTIFICATE-----"


def test_without_a_url_there_is_no_registry() -> None:
    assert schema_registry_config({}) is None
    assert schema_registry_config({URL: " ", LOGIN: "a:b"}) is None
    config, _ = parse_server_properties({"node.id": "1"})
    assert config.schema_registry is None


def test_urls_and_login() -> None:
    config, settings = parse_server_properties(
        {"node.id": "1", URL: "http://a:8081/, http://b:8081", LOGIN: "ann:pass:word"}
    )
    found = config.schema_registry
    assert found is not None
    assert found.urls == ("http://a:8081", "http://b:8081")
    assert found.tls is None
    assert found.user is not None
    assert found.user.reveal() == "ann:pass:word"
    assert "pass:word" not in repr(config)
    assert settings.unknown_keys == ()


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({URL: "a:8081"}, "it has to look like http://127.0.0.1:8081"),
        ({URL: "ftp://a:8081"}, "it has to look like"),
        ({URL: "http://a:8081?x=1"}, "it has to look like"),
        ({URL: "http://a:99999"}, "it has to look like"),
        ({URL: "http://ann:secret@a:8081"}, f"set {LOGIN}"),
        ({URL: "http://a:8081", LOGIN: "ann"}, "with a colon in between"),
        ({URL: "http://a:8081,,"}, "an item of the list is empty"),
        (
            {URL: "https://a:8081", "confluent.ssl.keystore.location": "x.jks"},
            "of the keys that begin with confluent.ssl: ssl.keystore.password",
        ),
        (
            {"confluent.basic.auth.credentials.source": "SASL_INHERIT"},
            "it must be one of USER_INFO",
        ),
    ],
)
def test_what_cannot_be_is_refused_without_its_secrets(
    properties: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_server_properties({"node.id": "1", **properties})
    assert text in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("truststore.type", "PEM", "truststore_type", "PEM"),
        ("truststore.location", "a.pem", "truststore_location", "a.pem"),
        ("truststore.password", "p", "truststore_password", "p"),
        ("truststore.certificates", PEM, "truststore_certificates", PEM),
        ("keystore.type", "PEM", "keystore_type", "PEM"),
        ("keystore.location", "b.pem", "keystore_location", "b.pem"),
        ("keystore.password", "q", "keystore_password", "q"),
        ("keystore.key", "key", "keystore_key", "key"),
        ("keystore.certificate.chain", PEM, "keystore_certificate_chain", PEM),
        ("key.password", "r", "key_password", "r"),
        ("enabled.protocols", "TLSv1.3", "enabled_protocols", ("TLSv1.3",)),
        ("cipher.suites", "TLS_AES_256_GCM_SHA384", "cipher_suites", ("TLS_AES_256_GCM_SHA384",)),
        ("endpoint.identification.algorithm", "", "endpoint_identification_algorithm", ""),
    ],
)
def test_tls_of_the_registry_has_keys_of_its_own(
    name: str, value: str, field: str, expected: object
) -> None:
    """Each key reaches the connections to the registry, and those of the listeners do not."""
    needed = {
        "truststore.certificates": {"confluent.ssl.truststore.type": "PEM"},
        "keystore.location": {"confluent.ssl.keystore.type": "PEM"},
        "keystore.key": {
            "confluent.ssl.keystore.type": "PEM",
            "confluent.ssl.keystore.certificate.chain": PEM,
        },
        "keystore.certificate.chain": {
            "confluent.ssl.keystore.type": "PEM",
            "confluent.ssl.keystore.key": "key",
        },
    }.get(name, {})
    texts = {
        "node.id": "1",
        URL: "https://a:8081",
        **needed,
        f"confluent.ssl.{name}": value,
        "ssl.truststore.location": "of-listeners",
    }
    config, _ = parse_server_properties(texts)
    assert config.schema_registry is not None
    tls = config.schema_registry.tls
    assert tls is not None
    found = getattr(tls, field)
    assert (found.reveal() if hasattr(found, "reveal") else found) == expected
    assert tls.truststore_location != "of-listeners"


def test_topics_turn_validation_on_by_confluents_names() -> None:
    defaults = LogConfig()
    assert not defaults.is_schema_validated
    assert (
        defaults.value_subject_name_strategy
        == defaults.key_subject_name_strategy
        == TOPIC_NAME_STRATEGY
    )
    config = log_config(
        defaults,
        {
            "confluent.value.schema.validation": "true",
            "confluent.value.subject.name.strategy": RECORD_NAME_STRATEGY,
        },
    )
    assert (
        config.is_schema_validated,
        config.is_value_schema_validated,
        config.is_key_schema_validated,
    ) == (True, True, False)
    assert config.value_subject_name_strategy == RECORD_NAME_STRATEGY
    config = log_config(
        defaults,
        {
            "confluent.key.schema.validation": "true",
            "confluent.key.subject.name.strategy": RECORD_NAME_STRATEGY,
        },
    )
    assert (
        config.is_schema_validated,
        config.is_value_schema_validated,
        config.is_key_schema_validated,
    ) == (True, False, True)
    assert config.key_subject_name_strategy == RECORD_NAME_STRATEGY


def test_a_strategy_that_is_none_is_refused() -> None:
    with pytest.raises(KafkaError, match="it must be one of io"):
        validate_topic_configs({"confluent.value.subject.name.strategy": "com.example.Mine"})


@pytest.mark.parametrize("part", ["key", "value"])
def test_validation_needs_a_registry(part: str) -> None:
    name = f"confluent.{part}.schema.validation"
    validate_schema_registry({name: "true"}, {URL: "http://a:8081"})
    validate_schema_registry({name: "false"}, {})
    with pytest.raises(KafkaError, match=f"{name} cannot be true: set {URL}") as refused:
        validate_schema_registry({name: "TRUE"}, {})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_keys_that_apache_kafka_does_not_know_are_listed_once_they_are_set() -> None:
    """Tools compare the configs of topics with those of Apache Kafka."""
    name = "confluent.value.schema.validation"
    listed = {row.name for row in describe_topic(Layers())}
    assert not [each for each in listed if each.startswith("confluent.")]
    assert name not in {row.name for row in describe_new_topic(Layers())}
    assert [row.value for row in describe_topic(Layers(), [name])] == ["false"]
    of_topic = Layers(topic={name: "true"})
    assert {row.name for row in describe_topic(of_topic)} == {*listed, name}
    assert name in {row.name for row in describe_new_topic(of_topic)}
