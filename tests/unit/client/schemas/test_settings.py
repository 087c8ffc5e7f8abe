"""The settings of a registry client are checked at the start, and no error shows a secret."""

from typing import Any

import pytest

from log_service.client import ConfigError
from log_service.client.schemas.settings import RegistryClientSettings


def test_several_urls_are_a_list_or_a_text_with_commas() -> None:
    """A slash at the end does not count."""
    expected = ("http://one:8081", "https://two/registry")
    assert RegistryClientSettings.of("http://one:8081/, https://two/registry/", {}).urls == expected
    assert RegistryClientSettings.of(expected, {}).urls == expected


@pytest.mark.parametrize(
    ("given", "headers"),
    [
        ({}, {}),
        (
            {"basic_auth_user_info": "ann:pass:word"},
            {"Authorization": "Basic YW5uOnBhc3M6d29yZA=="},
        ),
        ({"bearer_auth_token": "abc"}, {"Authorization": "Bearer abc"}),
        (
            {
                "bearer_auth_token": lambda: "def",
                "bearer_auth_logical_cluster": "lsrc-1",
                "bearer_auth_identity_pool_id": "pool-1",
            },
            {
                "Authorization": "Bearer def",
                "target-sr-cluster": "lsrc-1",
                "Confluent-Identity-Pool-Id": "pool-1",
            },
        ),
    ],
)
def test_logins_become_headers(given: dict[str, Any], headers: dict[str, str]) -> None:
    """The settings of logins are those of Confluent's clients."""
    settings = RegistryClientSettings.of("http://one", given)
    assert settings.login_headers() == headers
    assert "pass" not in repr(settings)
    assert "abc" not in repr(settings)


@pytest.mark.parametrize(
    ("url", "given", "text"),
    [
        ("", {}, "url names no schema registry"),
        ("one:8081", {}, "is 'one:8081'"),
        ("ftp://one", {}, "http://127.0.0.1:8081"),
        ("http://one?x=1", {}, "http://127.0.0.1:8081"),
        ("http://[one", {}, "http://127.0.0.1:8081"),
        ("http://one", {"timeout": 0}, "timeout is 0; it has to be a number from 0.001 to 3600"),
        ("http://one", {"max_retries": True}, "max_retries is True"),
        ("http://one", {"cache_capacity": "9"}, "cache_capacity is '9'"),
        (
            "http://one",
            {"cache_capacty": 9},
            "no setting 'cache_capacty'; did you mean cache_capacity?",
        ),
        ("http://one", {"basic_auth_user_info": "secret"}, "a colon in between"),
        ("http://ann:secret@one", {"basic_auth_user_info": "ann:secret"}, "both name a user"),
        (
            "http://one",
            {"basic_auth_user_info": "ann:secret", "bearer_auth_token": "t"},
            "both log in",
        ),
        ("http://one", {"ssl_ca": "ca.pem"}, "ssl_ca means nothing without an https URL"),
        (
            "https://one",
            {"ssl_ca": "ca.pem", "ssl_truststore_location": "x"},
            "both say whom to trust",
        ),
    ],
)
def test_mistakes_are_named(url: str, given: dict[str, Any], text: str) -> None:
    """With the better value, where there is one."""
    with pytest.raises(ConfigError) as raised:
        RegistryClientSettings.of(url, given)
    assert text in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_bad_url_with_a_user_is_not_shown() -> None:
    """Its password may stand in it."""
    with pytest.raises(ConfigError) as raised:
        RegistryClientSettings.of("ann:secret@one", {})
    assert "secret" not in str(raised.value)


def test_an_https_url_has_tls_with_the_usual_settings() -> None:
    """Without any of them the system's authorities are trusted."""
    assert RegistryClientSettings.of("http://one", {}).tls is None
    tls = RegistryClientSettings.of("http://one,https://two", {"ssl_ca": "ca.pem"}).tls
    assert tls is not None
    assert tls.truststore_location == "ca.pem"
