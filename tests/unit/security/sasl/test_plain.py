"""PLAIN: whom the broker lets in, with which words it refuses, and what the client sends."""

import hmac
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.access import Principal
from log_service.common.secrets import SecretText
from log_service.security.sasl.mechanisms import Accepted, LoginError, Refused
from log_service.security.sasl.plain import PlainClient, PlainServer

USERS = {
    "alice": SecretText("alice-secret"),
    "m\u00fcller": SecretText("p\u00e4sswort"),
    "empty": SecretText(""),
}


def refusal_of(token: bytes) -> str | None:
    outcome = PlainServer(USERS).evaluate(token)
    assert isinstance(outcome, Refused)
    return outcome.client_text


@pytest.mark.parametrize("token", [b"\0alice\0alice-secret", b"alice\0alice\0alice-secret"])
def test_user_gets_in(token: bytes) -> None:
    assert PlainServer(USERS).evaluate(token) == Accepted(principal=Principal("User", "alice"))


def test_name_and_password_beyond_ascii() -> None:
    assert isinstance(
        PlainServer(USERS).evaluate("\0m\u00fcller\0p\u00e4sswort".encode()), Accepted
    )


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0empty\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0Alice\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0\0"[:-1] + b"x", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0" + bytes([1]) * 7, "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_refusals_in_kafkas_words(token: bytes, text: str) -> None:
    assert refusal_of(token) == text


def test_bytes_that_are_no_text() -> None:
    assert refusal_of(b"\0\xff\xfe\0x") is None


def test_unknown_user_with_a_password_of_zeros_is_unknown() -> None:
    """The comparison for an unknown user is against zeros.

    A NUL cannot stand in a password, but the rule must not rest on that.
    """
    from log_service.security.sasl.plain import _is_password_of

    assert not _is_password_of(None, "\0\0")
    assert not _is_password_of(None, "")


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_an_unknown_user_costs_the_comparison_of_a_known_one(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A password of the right length is compared to its end.

    The function's time does not show where two texts part.
    """
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(
        "log_service.security.sasl.plain.hmac", SimpleNamespace(compare_digest=compare)
    )
    password = "x" * len("alice-secret")
    assert (
        refusal_of(f"\0{name}\0{password}".encode())
        == "Authentication failed: Invalid username or password"
    )
    assert compared == [(len(password), len(password))]


def test_client_sends_what_the_server_takes() -> None:
    client = PlainClient("m\u00fcller", USERS["m\u00fcller"])
    assert isinstance(PlainServer(USERS).evaluate(client.first()), Accepted)
    assert client.is_complete
    assert "p\u00e4sswort" not in repr(client)
    with pytest.raises(LoginError, match="takes one token"):
        client.evaluate(b"more")


@pytest.mark.parametrize(("name", "password"), [("", "x"), ("x", ""), ("a\0b", "x"), ("a", "x\0y")])
def test_client_refuses_what_cannot_be_sent(name: str, password: str) -> None:
    with pytest.raises(LoginError):
        PlainClient(name, SecretText(password)).first()


@given(st.binary(max_size=60))
def test_any_token_is_decided_on(token: bytes) -> None:
    assert isinstance(PlainServer(USERS).evaluate(token), Accepted | Refused)
