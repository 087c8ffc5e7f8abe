"""OAUTHBEARER on the broker: which messages are read, what a refused token costs, and who gets in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.access import Principal
from log_service.security.sasl.mechanisms import Accepted, Challenge, Refused
from log_service.security.sasl.oauthbearer import (
    INVALID_TOKEN,
    OAuthServer,
    TokenRefusedError,
    ValidToken,
    parse_first,
)


def validate(token: str) -> ValidToken:
    if token != "good":
        raise TokenRefusedError("why")
    return ValidToken(subject="alice", expires_at_ms=77)


def message(token: str = "good", authorization: str = "", pairs: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {token}\x01{pairs}\x01".encode()


@pytest.mark.parametrize(
    "first", [message(), message(authorization="a=alice"), message(pairs="traceId=7\x01")]
)
def test_good_token(first: bytes) -> None:
    accepted = OAuthServer(validate).evaluate(first)
    assert accepted == Accepted(principal=Principal("User", "alice"), expires_at_ms=77)


def test_other_authorization_id_is_told() -> None:
    refused = OAuthServer(validate).evaluate(message(authorization="a=bob"))
    assert isinstance(refused, Refused)
    assert refused.client_text is not None


@pytest.mark.parametrize("answer", [b"\x01", message(), b""])
def test_refused_token_costs_the_login_whatever_follows(answer: bytes) -> None:
    """Apache Kafka takes another token then; here one connection gets one try."""
    server = OAuthServer(validate)
    assert server.evaluate(message("bad")) == Challenge(token=INVALID_TOKEN)
    refused = server.evaluate(answer)
    assert isinstance(refused, Refused)
    assert refused.client_text == INVALID_TOKEN.decode()
    assert refused.reason == "the token was refused: why", "for the broker's log alone"
    assert isinstance(server.evaluate(message()), Refused)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"p=x,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good bad\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01trace1=x\x01\x01",
        b"\xff",
        message("x" * 70_000),
    ],
)
def test_malformed_message(first: bytes) -> None:
    assert isinstance(OAuthServer(validate).evaluate(first), Refused)


def test_scheme_in_any_case() -> None:
    assert parse_first(b"n,,\x01auth=bEARER good\x01\x01") == ("", "good")


@given(st.binary(max_size=60))
def test_any_message_is_decided_on(first: bytes) -> None:
    assert isinstance(OAuthServer(validate).evaluate(first), Refused)
    assert "good" not in repr(OAuthServer(validate))
