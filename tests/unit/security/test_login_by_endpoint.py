"""A login with a token that an endpoint gives: what a broker is sent, and which failures end a
client.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.secrets import SecretText
from log_service.config.client_security import LoginConfig, TokenEndpointConfig
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from log_service.security.issuer_errors import IssuerError
from log_service.security.login import ClientLogin
from log_service.security.sasl.jaas import OAUTHBEARER_MODULE, SCRAM_MODULE

ENDPOINT = TokenEndpointConfig(
    url="http://issuer/token", client_id="shop", client_secret=SecretText("s")
)


class Broker:
    """A connection to a broker that takes the tokens in ``good``."""

    destination = "broker:9092"

    def __init__(self, *good: str) -> None:
        self.good = good
        self.came: list[Any] = []

    async def negotiate(self) -> None:
        await trio.lowlevel.checkpoint()

    def renew_login_after(self, seconds: float, log_in: Any) -> None:
        raise AssertionError("no session of these tests ends")

    async def request_of_login(self, request: Any, _type: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.came.append(request)
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])
        assert isinstance(request, SaslAuthenticateRequest)
        if request.auth_bytes == b"\x01":
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="invalid_token"
            )
        is_good = any(
            f"auth=Bearer {each}\x01".encode() in request.auth_bytes for each in self.good
        )
        return SaslAuthenticateResponse(
            auth_bytes=b"" if is_good else b'{"status":"invalid_token"}'
        )


class Tokens:
    """An endpoint that hands out what it holds, once fresh and then kept."""

    def __init__(self, *tokens: str | IssuerError) -> None:
        self.tokens = list(tokens)
        self.kept: SecretText | None = None

    async def token(self) -> tuple[SecretText, bool]:
        await trio.lowlevel.checkpoint()
        if self.kept is not None:
            return self.kept, False
        found = self.tokens.pop(0)
        if isinstance(found, IssuerError):
            raise found
        self.kept = SecretText(found)
        return self.kept, True

    def forget(self, token: SecretText) -> None:
        assert token == self.kept
        self.kept = None


def login(tokens: Tokens, jaas: str | None = None) -> ClientLogin:
    text = None if jaas is None else SecretText(jaas)
    made = ClientLogin(
        LoginConfig(mechanism="OAUTHBEARER", endpoint=ENDPOINT, jaas=text), Random(1)
    )
    source: Any = tokens
    made._endpoint = source
    return made


def play(made: ClientLogin, *brokers: Broker) -> None:
    async def main() -> None:
        for broker in brokers:
            connection: Any = broker
            await made.authenticate(connection)

    trio.run(main)


def test_the_same_token_is_shown_to_each_broker() -> None:
    first, second = Broker("a"), Broker("a")
    play(login(Tokens("a")), first, second)
    assert len(first.came) == len(second.came) == 2


def test_extensions_of_the_jaas_text_come_with_the_token() -> None:
    broker = Broker("a")
    play(
        login(
            Tokens("a"),
            f'{OAUTHBEARER_MODULE} required extension_logicalCluster="lkc 1" clientId="x";',
        ),
        broker,
    )
    assert broker.came[-1].auth_bytes == b"n,,\x01auth=Bearer a\x01logicalCluster=lkc 1\x01\x01"


@pytest.mark.parametrize(
    ("jaas", "told"),
    [
        (f"{OAUTHBEARER_MODULE} required extension_auth=x;", "extension_auth"),
        (f"{OAUTHBEARER_MODULE} required extension_a_b=planted;", "extension_a_b"),
        (f'{OAUTHBEARER_MODULE} required extension_a="plänted";', "extension_a"),
        (f"{SCRAM_MODULE} required;", "sasl_mechanism is OAUTHBEARER"),
    ],
)
def test_jaas_text_that_cannot_be_meant(jaas: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        login(Tokens(), jaas)
    assert "planted" not in str(caught.value)


def refused(act: Callable[[], None]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value


def test_fresh_token_that_is_refused_ends_the_client() -> None:
    error = refused(lambda: play(login(Tokens("bad", "a")), Broker("a")))
    assert (error.code, error.is_retriable) == (ErrorCode.SASL_AUTHENTICATION_FAILED, False)
    assert str(error).endswith("was refused: invalid_token; the broker's log says why")


def test_older_token_that_is_refused_is_replaced_by_a_fresh_one() -> None:
    made = login(Tokens("a", "b"))
    error = refused(lambda: play(made, Broker("a"), Broker("b")))
    assert error.is_retriable
    assert "another token is fetched" in str(error)
    play(made, Broker("b"))


@pytest.mark.parametrize(
    ("may_pass", "code"),
    [(True, ErrorCode.NETWORK_EXCEPTION), (False, ErrorCode.SASL_AUTHENTICATION_FAILED)],
)
def test_endpoint_that_fails(may_pass: bool, code: ErrorCode) -> None:
    broker = Broker("a")
    error = refused(
        lambda: play(login(Tokens(IssuerError("issuer is down", may_pass=may_pass))), broker)
    )
    assert error.code is code
    assert "OAUTHBEARER login at broker:9092 has no token: issuer is down" in str(error)
    assert broker.came == [], "no broker waits for an issuer in the middle of a login"
