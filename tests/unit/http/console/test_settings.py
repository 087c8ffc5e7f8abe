"""The settings of a console: what they mean, and what is refused."""

import pytest

from log_service.common.errors import ConfigError
from log_service.http.console.settings import ConsoleSettings, read_console_settings


def read(**given: str) -> ConsoleSettings:
    over = {name.replace("_", "."): value for name, value in given.items()}
    return read_console_settings("", "console.properties", over)


def test_the_defaults_are_for_this_machine_alone() -> None:
    settings = read()
    assert [str(each) for each in settings.listeners] == ["http://127.0.0.1:8080"]
    assert settings.bootstrap_servers == "127.0.0.1:9092"
    assert not settings.logins
    assert not settings.unused


@pytest.mark.parametrize("address", ["http://0.0.0.0:8080", "http://10.0.0.1:1", "http://[::]:1"])
def test_a_console_without_logins_is_reached_by_nobody_else(address: str) -> None:
    with pytest.raises(ConfigError, match="authentication"):
        read(listeners=address)


def test_logins_need_tls_where_others_listen() -> None:
    with pytest.raises(ConfigError, match="TLS"):
        read(listeners="http://0.0.0.0:8080", authentication_method="basic")
    assert read(authentication_method="basic").logins == {"basic"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"authentication_method": "bearer"}, "none, basic"),
        ({"listeners": "ftp://127.0.0.1:1"}, "listeners"),
        ({"listeners": ""}, "listeners"),
    ],
)
def test_a_value_that_has_no_meaning_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read(**given)


def test_a_registry_is_named_with_its_authority() -> None:
    settings = read(
        schema_registry_url="https://registry:8081",
        schema_registry_ssl_truststore_location="/ca.pem",
        nonsense="1",
    )
    assert settings.registry_url == "https://registry:8081"
    assert settings.registry_client == {"ssl_truststore_location": "/ca.pem"}
    assert settings.unused == ("nonsense",)


def test_the_client_of_the_registry_takes_the_keys_of_the_rest_proxy() -> None:
    """The registry's client has one set of keys in every service. An unknown one is refused."""
    settings = read(
        schema_registry_url="https://registry:8081",
        schema_registry_basic_auth_user_info="ann:secret",
        schema_registry_ssl_keystore_location="/console.pem",
    )
    assert settings.registry_client == {
        "basic_auth_user_info": "ann:secret",
        "ssl_keystore_location": "/console.pem",
    }
    with pytest.raises(ConfigError, match="no key of the schema registry's client"):
        read(schema_registry_colour="red")


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("", False),
        ("https://registry:8081", False),
        ("http://127.0.0.1:8081", False),
        ("http://localhost:8081", False),
        ("http://[::1]:8081", False),
        ("http://registry:8081", True),
        ("HTTP://10.0.0.1:8081", True),
        ("http://127.0.0.1.example", True),
        ("https://a:1, http://b:1", True),
        ("http://[", True),
    ],
)
def test_passwords_do_not_go_to_a_registry_in_clear_text(url: str, *, is_refused: bool) -> None:
    """The console logs in to the registry with the password that a person has at the cluster."""
    assert read(schema_registry_url=url).registry_url == url, "no password goes there"
    if not is_refused:
        assert read(authentication_method="basic", schema_registry_url=url).logins
        return
    with pytest.raises(ConfigError, match="clear text"):
        read(authentication_method="basic", schema_registry_url=url)


def test_the_metrics_pages_of_the_nodes_are_named_once_each() -> None:
    urls = "http://broker1:9404/metrics, https://broker2/metrics,http://broker1:9404/metrics"
    found = read(metrics_urls=urls).metrics_urls
    assert found == ("http://broker1:9404/metrics", "https://broker2/metrics")
    assert read().metrics_urls == ()


@pytest.mark.parametrize("url", ["broker1:9404", "file:///etc/passwd", "http://[", "http://"])
def test_a_metrics_page_has_an_address(url: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.urls"):
        read(metrics_urls=url)
