"""OAUTHBEARER on a listener: each key of it acts, and what a node does not start with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.security.oauth import OAuthOffer
from log_service.security.sasl.jaas import OAUTHBEARER_MODULE, parse_jaas
from log_service.security.sasl.oauthbearer import TokenRefusedError
from tests.helpers.ports import free_port
from tests.unit.security.sasl.issuer import NOW_S, jwk, key_set, token, unsigned

P = "sasl.oauthbearer."
NOTHING: Mapping[str, str] = {}


class FixedTime:
    def wall_ms(self) -> int:
        return NOW_S * 1_000

    def monotonic_ms(self) -> int:
        return 0


class World:
    clock = FixedTime()


def offer(
    directory: Path | None, options: str = "", more: Mapping[str, str] = NOTHING, **texts: str
) -> OAuthOffer:
    """An offer whose keys are in a file, with keys named by underscores."""
    named = {f"{P}{name.replace('_', '.')}": text for name, text in texts.items()}
    if directory is not None:
        path = directory / "keys.json"
        path.write_bytes(key_set(jwk("rsa")))
        named = {
            f"{P}jwks.endpoint.url": f"file://{path}",
            f"{P}allowed.urls": f"http://x,file://{path}",
            **named,
        }
    jaas = f"{OAUTHBEARER_MODULE} required {options};"
    general = {
        "node.id": "1",
        "listeners": "A://127.0.0.1:1",
        "listener.security.protocol.map": "A:SASL_PLAINTEXT",
        "inter.broker.listener.name": "A",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.a.oauthbearer.sasl.jaas.config": jaas,
    }
    sasl = parse_server_properties({**general, **named, **more})[0].listeners[0].security.sasl
    assert sasl is not None
    world: Any = World()
    config = sasl.mechanisms["OAUTHBEARER"].oauth
    assert config is not None
    made = OAuthOffer("A", config, parse_jaas(jaas), world.clock)
    trio.run(made.fetch_keys)
    return made


def is_taken(made: OAuthOffer, **claims: Any) -> bool:
    try:
        return made.validate(token("rsa", **claims)).subject == "alice"
    except TokenRefusedError:
        return False


def test_signed_token_is_taken_and_no_other(tmp_path: Path) -> None:
    made = offer(tmp_path)
    assert is_taken(made)
    for text in (unsigned(), token("other rsa", headers={"kid": "rsa"})):
        with pytest.raises(TokenRefusedError):
            made.validate(text)


def test_claims_that_the_keys_ask_for(tmp_path: Path) -> None:
    made = offer(tmp_path, expected_audience="here,there", expected_issuer="mine")
    assert is_taken(made, aud="there", iss="mine")
    assert not is_taken(made, aud="there")
    assert not is_taken(made, iss="mine")


@pytest.mark.parametrize(
    ("named", "warned_of"),
    [
        ({}, ["expected.issuer", "expected.audience"]),
        ({f"{P}expected.issuer": "mine"}, ["expected.audience"]),
        ({f"{P}expected.audience": "here"}, ["expected.issuer"]),
        ({f"{P}expected.issuer": "mine", f"{P}expected.audience": "here"}, []),
    ],
)
def test_what_is_not_asked_of_a_token_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, named: Mapping[str, str], warned_of: list[str]
) -> None:
    """A node warns if it checks no issuer or no audience of tokens.

    Apache Kafka allows that, too. One document of keys may serve many issuers and audiences,
    and any of their tokens would be let in.
    """
    offer(tmp_path, more=named)
    assert [
        line.rpartition("; set sasl.oauthbearer.")[2]
        for line in caplog.messages
        if "OAUTHBEARER on listener A" in line
    ] == warned_of


def test_keys_that_come_in_the_clear_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    url = f"http://127.0.0.1:{free_port()}/keys"
    with pytest.raises(ConfigError, match="cannot be reached"):
        offer(None, jwks_endpoint_url=url, allowed_urls=url)
    assert "fetched without TLS" in caplog.text


def test_algorithms_that_are_allowed(tmp_path: Path) -> None:
    """An allowed algorithm must fit a key.

    The issuer's key takes six algorithms, and the configuration may allow fewer.
    """
    made = offer(tmp_path, allowed_algorithms="PS256, RS512")
    assert made.validate(token("rsa", "PS256")).subject == "alice"
    with pytest.raises(TokenRefusedError, match="an algorithm that is not allowed"):
        made.validate(token("rsa", "RS256"))
    with pytest.raises(
        ConfigError, match="no key of the JWKS takes any of the algorithms that are allowed: ES256"
    ):
        offer(tmp_path, allowed_algorithms="ES256")
    with pytest.raises(
        ConfigError, match=r"allowed\.algorithms: 'HS256' is none of RS256, .* EdDSA"
    ):
        offer(tmp_path, allowed_algorithms="RS256,HS256")
    with pytest.raises(ConfigError, match=r"allowed\.algorithms says how they are signed"):
        offer(None, allowed_algorithms="RS256", unsecured_tokens_allowed="true")


def test_names_of_claims(tmp_path: Path) -> None:
    made = offer(tmp_path, sub_claim_name="user", scope_claim_name="roles")
    assert is_taken(made, sub="bob", user="alice", scope=5)
    assert not is_taken(made, user="alice", roles=5)
    assert not is_taken(made)


def test_skew_of_clocks(tmp_path: Path) -> None:
    assert is_taken(offer(tmp_path), exp=NOW_S - 20)
    assert not is_taken(offer(tmp_path, clock_skew_seconds="10"), exp=NOW_S - 20)


def test_times_of_fetching(tmp_path: Path) -> None:
    made = offer(
        tmp_path,
        jwks_endpoint_refresh_ms="1",
        jwks_endpoint_retry_backoff_ms="2",
        jwks_endpoint_retry_backoff_max_ms="3",
    )
    assert made.jwks is not None
    config = made.jwks._config
    assert (config.refresh_ms, config.retry_backoff_ms, config.retry_backoff_max_ms) == (1, 2, 3)


def test_url_has_to_be_allowed(tmp_path: Path) -> None:
    assert is_taken(offer(tmp_path))
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.allowed\.urls"):
        offer(tmp_path, allowed_urls="file:///elsewhere")


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer/keys/",
        "https://issuer",
        "HTTPS://issuer/keys",
        "ftp://issuer/keys",
        "issuer/keys",
    ],
)
def test_only_what_is_listed_exactly_is_fetched(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url is"):
        offer(None, jwks_endpoint_url=url, allowed_urls="https://issuer/keys,file:/keys")


@pytest.mark.parametrize(
    ("key", "value"), [("clock_skew_seconds", "-1"), ("jwks_endpoint_refresh_ms", "soon")]
)
def test_values_of_the_keys_are_judged_with_the_prefix_of_a_listener_too(
    tmp_path: Path, key: str, value: str
) -> None:
    name = f"listener.name.a.oauthbearer.{P}{key.replace('_', '.')}"
    with pytest.raises(ConfigError, match=key.replace("_", r"\.")):
        offer(tmp_path, more={name: value})


def test_keys_that_cannot_be_fetched_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be fetched"):
        offer(
            None,
            jwks_endpoint_url=f"file://{tmp_path}/none",
            allowed_urls=f"file://{tmp_path}/none",
        )


def test_tokens_without_signatures_only_where_they_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no keys to check tokens with"):
        offer(None)
    with pytest.raises(ConfigError, match="remove one of them"):
        offer(tmp_path, unsecured_tokens_allowed="true")
    made = offer(
        None, 'unsecuredValidatorPrincipalClaimName="user"', unsecured_tokens_allowed="true"
    )
    assert made.validate(unsigned(user="alice")).subject == "alice"
    for text in (unsigned(), unsigned(user="alice", exp=NOW_S - 1), token("rsa", user="alice")):
        with pytest.raises(TokenRefusedError):
            made.validate(text)


@pytest.mark.parametrize(
    ("scope", "is_enough"),
    [
        ("write more read", True),
        (["read", "write"], True),
        (None, False),
        ("read", False),
        ([], False),
        ("read,write", False),
    ],
)
def test_scopes_that_tokens_without_signatures_must_have(scope: object, is_enough: bool) -> None:
    made = offer(
        None, 'unsecuredValidatorRequiredScope="read write"', unsecured_tokens_allowed="true"
    )
    if is_enough:
        assert made.validate(unsigned(scope=scope)).subject == "alice"
        return
    with pytest.raises(TokenRefusedError, match="lacks the scope"):
        made.validate(unsigned(scope=scope))


@pytest.mark.parametrize(
    "key", ["sasl.server.callback.handler.class", "sasl.oauthbearer.jwt.validator.class"]
)
def test_java_classes(tmp_path: Path, key: str) -> None:
    name = "OAuthBearerValidatorCallbackHandler" if "handler" in key else "DefaultJwtValidator"
    offer(tmp_path, more={key: f"org.apache.kafka.common.security.oauthbearer.{name}"})
    with pytest.raises(ConfigError, match="Java class"):
        offer(tmp_path, more={key: "com.example.Own"})
