"""Security settings of clients may contradict each other, and no secret shows itself."""

import pickle
from dataclasses import asdict
from typing import Any

import pytest

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.client import AdminConfig
from log_service.config.client_properties import (
    servers_of_file,
    settings_of_environment,
    settings_of_file,
    unknown_warning,
)
from log_service.config.client_security import TokenEndpointConfig

PLANTED = "planted-secret"
LOGIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "alice",
    "sasl_password": PLANTED,
}
SECRETS = {
    "sasl_password": PLANTED,
    "ssl_keystore_key": PLANTED,
    "ssl_keystore_certificate_chain": "chain",
    "ssl_keystore_type": "PEM",
    "ssl_key_password": PLANTED,
}


BY_TOKEN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
URL = "https://issuer.example/token"
BY_ENDPOINT = {
    **BY_TOKEN,
    "sasl_oauthbearer_token_endpoint_url": URL,
    "sasl_oauthbearer_client_credentials_client_id": "shop",
    "sasl_oauthbearer_client_credentials_client_secret": PLANTED,
}


def config_of(**settings: Any) -> AdminConfig:
    return AdminConfig.of("127.0.0.1:9092", settings)


def test_login_over_tls_is_one_value() -> None:
    security = config_of(**LOGIN, ssl_ca="/etc/ca.pem").security()
    assert security.login is not None
    assert (security.login.username, security.login.password) == ("alice", SecretText(PLANTED))
    assert security.tls is not None
    assert (security.tls.truststore_type, security.tls.truststore_location) == (
        "PEM",
        "/etc/ca.pem",
    )
    assert security.tls.endpoint_identification_algorithm == "https"


def test_ca_may_be_the_text_itself() -> None:
    tls = (
        config_of(security_protocol="SSL", ssl_ca="-----BEGIN CERTIFICATE-----\nabc").security().tls
    )
    assert tls is not None
    assert tls.truststore_location is None
    assert tls.truststore_certificates == SecretText("-----BEGIN CERTIFICATE-----\nabc")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"security_protocol": "TLS"}, "security_protocol must be one of"),
        (
            {"sasl_password": PLANTED},
            "sasl_password means nothing with security_protocol=PLAINTEXT: set security_protocol=SASL_SSL",
        ),
        (
            {"ssl_ca": "ca.pem"},
            "ssl_ca means nothing with security_protocol=PLAINTEXT: set security_protocol=SSL",
        ),
        (
            {"security_protocol": "SSL", "sasl_mechanism": "PLAIN"},
            "sasl_mechanism means nothing with security_protocol=SSL",
        ),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        ({**LOGIN, "sasl_mechanism": "GSSAPI"}, "Kerberos is not there"),
        ({**LOGIN, "sasl_mechanism": "MD5"}, "sasl_mechanism must be one of"),
        ({**LOGIN, "sasl_username": None}, "sasl_username is missing"),
        ({**LOGIN, "sasl_password": ""}, "sasl_password is empty"),
        ({**LOGIN, "sasl_jaas_config": PLANTED}, "leave out sasl_username and sasl_password"),
        ({**LOGIN, "sasl_oauthbearer_token": str}, "sasl_oauthbearer_token means nothing with"),
        ({**LOGIN, "sasl_mechanism": "OAUTHBEARER"}, "logs in with a token"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl_oauthbearer_token is missing",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token": 7,
            },
            "is a function without arguments",
        ),
        (
            {**LOGIN, "sasl_oauthbearer_scope": "x"},
            "sasl_oauthbearer_scope means nothing with sasl_mechanism=SCRAM-SHA-512",
        ),
        ({**BY_ENDPOINT, "sasl_oauthbearer_token": "x.jwt"}, "both say where tokens are"),
        (
            {**BY_TOKEN, "sasl_oauthbearer_token": "x.jwt", "sasl_oauthbearer_ca": "a"},
            "means nothing without the http or https URL",
        ),
        (
            {**BY_ENDPOINT, "sasl_oauthbearer_token_endpoint_url": "file:///x.jwt"},
            "sasl_oauthbearer_client_credentials_client_id means nothing without the http or https URL",
        ),
        (
            {**BY_ENDPOINT, "sasl_oauthbearer_client_credentials_client_id": None},
            "or set clientId in sasl_jaas_config",
        ),
        (
            {**BY_ENDPOINT, "sasl_oauthbearer_client_credentials_client_secret": ""},
            "or set clientSecret in sasl_jaas_config",
        ),
        *(
            (
                {**BY_ENDPOINT, "sasl_oauthbearer_token_endpoint_url": url},
                "sasl_oauthbearer_token_endpoint_url must be a URL",
            )
            for url in (
                f"ftp://{PLANTED}",
                PLANTED,
                f"https:///{PLANTED}",
                f"https://a b/{PLANTED}",
                f"https://a:b/{PLANTED}",
                "https://a:0/",
            )
        ),
        (
            {**BY_ENDPOINT, "sasl_oauthbearer_token_endpoint_url": f"https://shop:{PLANTED}@a/"},
            "has a user in it",
        ),
        (
            {"security_protocol": "SSL", "ssl_ca": "a", "ssl_truststore_location": "b"},
            "both say whom to trust",
        ),
        ({"security_protocol": "SSL", "ssl_keystore_key": PLANTED}, "ssl.keystore"),
        ({**LOGIN, "sasl_password": 7}, "sasl_password must be text or None, not what was given"),
    ],
)
def test_contradictions_are_told_at_construction_and_show_no_secret(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(**settings)
    assert told in str(caught.value)
    assert PLANTED not in str(caught.value)


def test_no_secret_shows_itself() -> None:
    for settings in (LOGIN | SECRETS, BY_ENDPOINT):
        config = config_of(**settings)
        security = config.security()
        for value in (config, asdict(config), security, security.tls, security.login):
            assert PLANTED not in repr(value)
        assert PLANTED not in f"{config}"
        with pytest.raises(TypeError, match="not written anywhere"):
            pickle.dumps(config)


def test_file_of_kafkas_tools_is_taken() -> None:
    text = """
    bootstrap.servers=a:9092,b:9092
    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
      username="alice" password="planted";
    ssl.truststore.location=/etc/truststore.p12
    ssl.truststore.type=PKCS12
    ssl.truststore.password=changeit
    ssl.endpoint.identification.algorithm=
    request.timeout.ms=5000
    enable.metrics=false
    key.serializer=org.apache.kafka.common.serialization.StringSerializer
    """
    settings = settings_of_file(text, "client.properties")
    assert servers_of_file(text) == "a:9092,b:9092"
    config = config_of(**settings)
    assert (config.request_timeout_ms, config.enable_metrics) == (5_000, False)
    security = config.security()
    assert security.tls is not None
    assert security.tls.endpoint_identification_algorithm == ""
    assert security.login is not None
    assert security.login.jaas is not None
    assert 'username="alice"' in security.login.jaas.reveal()


def test_keys_of_librdkafka_and_files_of_tokens_are_taken() -> None:
    text = "sasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:///run/token\nssl.ca.location=/ca.pem\n"
    settings = settings_of_file(text, "f")
    assert settings["ssl_ca"] == "/ca.pem"
    login = config_of(security_protocol="SASL_SSL", **settings).security().login
    assert login is not None
    assert (login.token, login.endpoint) == ("/run/token", None)


def test_endpoint_of_tokens_is_named_as_kafka_and_librdkafka_name_it() -> None:
    kafkas = f"""
    sasl.mechanism=OAUTHBEARER
    sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
    sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever
    sasl.oauthbearer.token.endpoint.url={URL}
    sasl.oauthbearer.client.credentials.client.id=shop
    sasl.oauthbearer.client.credentials.client.secret=planted
    sasl.oauthbearer.scope=logs
    sasl.oauthbearer.header.urlencode=true
    sasl.login.retry.backoff.ms=100
    """
    librdkafkas = f"""
    sasl.mechanisms=OAUTHBEARER
    sasl.oauthbearer.method=oidc
    sasl.oauthbearer.token.endpoint.url={URL}
    sasl.oauthbearer.client.id=shop
    sasl.oauthbearer.client.secret=planted
    sasl.oauthbearer.scope=logs
    https.ca.location=/ca.pem
    """
    for text, is_encoded, ca in ((kafkas, True, None), (librdkafkas, False, "/ca.pem")):
        assert unknown_warning(text) is None
        login = (
            config_of(security_protocol="SASL_SSL", **settings_of_file(text, "f")).security().login
        )
        assert login is not None
        assert login.endpoint == TokenEndpointConfig(
            url=URL,
            client_id="shop",
            client_secret=SecretText("planted"),
            scope="logs",
            is_header_encoded=is_encoded,
            ca=ca,
        )


def test_id_and_secret_may_stand_in_the_jaas_text() -> None:
    text = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="a" clientSecret="planted";'
    login = (
        config_of(**BY_TOKEN, sasl_oauthbearer_token_endpoint_url=URL, sasl_jaas_config=text)
        .security()
        .login
    )
    assert login is not None
    assert login.endpoint == TokenEndpointConfig(url=URL)
    assert login.jaas == SecretText(text)


@pytest.mark.parametrize(
    "key", ["sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"]
)
def test_class_that_would_get_the_token_is_not_passed_over(key: str) -> None:
    text = f"sasl.mechanism=OAUTHBEARER\n{key}=com.example.Own\n"
    with pytest.raises(ConfigError, match=rf"mine: {key} names a Java class"):
        settings_of_file(text, "mine")
    assert settings_of_file(text.replace("OAUTHBEARER", "PLAIN"), "mine") == {
        "sasl_mechanism": "PLAIN"
    }


def test_keys_that_no_client_has_are_told_with_what_may_have_been_meant() -> None:
    known = "bootstrap.servers=a:1\nsecurity_protocol=SSL\nssl.ca.location=/ca.pem\nacks=all\ngroup.id=g\nvalue.deserializer=x\n"
    assert unknown_warning(known) is None
    told = unknown_warning(f"{known}ssl.trustore.location=planted\nreceive.buffer.bytes=7\n")
    assert told == (
        "these keys are not known and have no effect: ssl.trustore.location (did you mean ssl.truststore.location?), receive.buffer.bytes"
    )


@pytest.mark.parametrize(
    "line",
    [
        "request.timeout.ms=planted",
        "enable.metrics=planted",
        "sasl.oauthbearer.header.urlencode=planted",
    ],
)
def test_bad_value_in_a_file_is_told_by_its_key(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of_file(line, "client.properties")
    assert "client.properties" in str(caught.value)
    assert line.partition("=")[0] in str(caught.value)
    assert "planted" not in str(caught.value)


def test_environment_names_settings_in_capitals() -> None:
    environ = {
        "TIDELOG_SECURITY_PROTOCOL": "SASL_SSL",
        "TIDELOG_SASL_PASSWORD": "p",
        "TIDELOG_DATA": "x",
        "TIDELOG_SSL_CA": "",
    }
    assert settings_of_environment(environ) == {
        "security_protocol": "SASL_SSL",
        "sasl_password": "p",
    }
    assert settings_of_environment({"TIDELOG_SASL_OAUTHBEARER_HEADER_URLENCODE": "TRUE"}) == {
        "sasl_oauthbearer_header_urlencode": True
    }
    with pytest.raises(
        ConfigError, match="TIDELOG_SASL_OAUTHBEARER_HEADER_URLENCODE must be true or false"
    ):
        settings_of_environment({"TIDELOG_SASL_OAUTHBEARER_HEADER_URLENCODE": "perhaps"})
