"""The settings of a REST proxy, under Confluent's keys."""

import pytest

from log_service.common.errors import ConfigError
from log_service.http.rest_proxy.settings import read_rest_settings
from log_service.http.service_settings import ListenAddress

SASL = "client.security.protocol=SASL_SSL\nclient.sasl.mechanism=SCRAM-SHA-512"


def test_an_empty_file_is_enough() -> None:
    """The defaults serve a broker of this machine on the usual port."""
    settings = read_rest_settings("", "a file")
    assert settings.listeners == (ListenAddress(scheme="http", host="127.0.0.1", port=8082),)
    assert settings.bootstrap_servers == "127.0.0.1:9092"
    assert (settings.logins, settings.request_timeout_ms) == (frozenset(), 1_000)


def test_keys_of_the_client_stand_behind_their_prefix() -> None:
    """A user logs in without the login of the proxy."""
    settings = read_rest_settings(
        f"{SASL}\nclient.sasl.jaas.config=own\nauthentication.method=basic\ndebug=true", "a file"
    )
    assert settings.client["sasl_jaas_config"] == "own"
    assert settings.login_client == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
    }
    assert settings.unused == ("debug",)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("listeners=", "listeners names no address"),
        ("schema.registry.colour=red", "no key of the schema registry's client"),
        ("consumer.request.timeout.ms=0", "from 1 to 60000"),
        ("consumer.request.max.bytes=99999999999", "from 1 to"),
        ("consumer.instances.max=many", "from 0 to 10000"),
        ("authentication.method=mtls", "it may be none, basic, bearer"),
        ("authentication.method=basic", "needs a cluster with logins"),
        (
            f"{SASL}\nauthentication.method=basic\nschema.registry.url=https://a,http://r:1",
            "schema.registry.url=http://r:1 has no TLS",
        ),
        (f"{SASL}\nlisteners=http://0.0.0.0:1\nauthentication.method=basic", "needs TLS"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(line: str, complaint: str) -> None:
    """The error names the file, the key and what may stand there."""
    with pytest.raises(ConfigError, match=f"(?s)a file.*{complaint}"):
        read_rest_settings(line, "a file")


def test_a_registry_of_this_machine_gets_logins_without_tls() -> None:
    text = f"{SASL}\nauthentication.method=basic\nschema.registry.url=http://127.0.0.1:8081"
    assert read_rest_settings(text, "a file").registry_url == "http://127.0.0.1:8081"


def test_the_registry_has_a_client_of_its_own() -> None:
    """Its keys stand behind a prefix."""
    text = "schema.registry.url=http://r:1\nschema.registry.basic.auth.user.info=a:b"
    settings = read_rest_settings(text, "a file")
    assert settings.registry_url == "http://r:1"
    assert settings.registry_client == {"basic_auth_user_info": "a:b"}
    assert settings.unused == ()
