"""SCRAM: the vectors of the RFCs, both sides against each other, and what each side refuses."""

import base64
import secrets
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.common.access import Principal
from log_service.common.secrets import SecretBytes, SecretText
from log_service.security import delegation
from log_service.security.delegation import TokenIndex, token_credential, token_hmac
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism
from log_service.security.sasl.mechanisms import Accepted, Challenge, LoginError, Lookup, Refused
from log_service.security.sasl.scram import (
    PLAIN_SHAPE,
    MalformedError,
    Shape,
    client_key,
    client_proof,
    credential_from,
    decoy_credential,
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
    random_text,
    salted_password,
    usual_shape,
)
from log_service.security.sasl.scram_client import MAX_CLIENT_ITERATIONS, SaltingWanted, ScramClient
from log_service.security.sasl.scram_server import WRONG, ScramServer, TokenLogin, TokenWanted
from tests.unit.security.sasl.scram_story import answer, credential, log_in, new_server

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
USERS = {
    mechanism: {"alice": credential(mechanism, "alice-secret")} for mechanism in ScramMechanism
}


def test_vector_of_rfc_7677() -> None:
    """RFC 7677, section 3."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    server = new_server(
        SHA_256,
        {"user": credential(SHA_256, "pencil", salt=salt)},
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    client = ScramClient(SHA_256, "user", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    assert (
        challenge.token
        == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = answer(client, challenge.token, "pencil")
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert final == b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + proof
    accepted = server.evaluate(final)
    assert isinstance(accepted, Accepted)
    assert accepted.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert answer(client, accepted.token, "pencil") == b""


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_right_password_gets_in_and_wrong_one_does_not(mechanism: ScramMechanism) -> None:
    def outcome(password: str) -> object:
        return log_in(
            new_server(mechanism, USERS[mechanism]),
            ScramClient(mechanism, "alice", "abc"),
            password,
        )

    accepted = outcome("alice-secret")
    assert isinstance(accepted, Accepted)
    assert accepted.principal == Principal("User", "alice")
    assert not accepted.is_by_token
    assert outcome("wrong") == Refused(reason=WRONG)


@settings(max_examples=25)
@given(
    st.text(
        alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"),
        min_size=1,
        max_size=12,
    ),
    st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=12),
    st.binary(min_size=1, max_size=40),
    st.sampled_from(ScramMechanism),
)
def test_any_name_password_and_salt(
    name: str, password: str, salt: bytes, mechanism: ScramMechanism
) -> None:
    server = new_server(mechanism, {name: credential(mechanism, password, salt=salt)})
    outcome = log_in(server, ScramClient(mechanism, name, random_text(secrets.randbits)), password)
    assert isinstance(outcome, Accepted)
    assert outcome.principal == Principal("User", name)


# What a stranger learns


def first_response(
    mechanism: ScramMechanism, name: str, users: dict[str, ScramCredential]
) -> bytes:
    outcome = new_server(mechanism, users).evaluate(f"n,,n={name},r=abc".encode())
    assert isinstance(outcome, Challenge)
    return outcome.token


def test_unknown_user_is_refused_at_the_same_step_with_the_same_reason() -> None:
    server = new_server(SHA_256, USERS[SHA_256])
    assert log_in(server, ScramClient(SHA_256, "mallory", "abc"), "alice-secret") == Refused(
        reason=WRONG
    )


@pytest.mark.parametrize("name", ["alice", "mallory"])
def test_a_decoy_is_made_for_known_names_too_because_it_takes_time(name: str) -> None:
    asked: list[tuple[str, bool]] = []

    def decoy(of: str, is_of_token: bool) -> ScramCredential:
        asked.append((of, is_of_token))
        return decoy_credential(SHA_256, of, usual_shape([]), b"secret")

    server = ScramServer(SHA_256, "of-the-server", find=USERS[SHA_256].get, decoy=decoy)
    assert isinstance(server.evaluate(f"n,,n={name},r=abc".encode()), Challenge)
    assert asked == [(name, False)]


def test_unknown_user_gets_a_salt_like_that_of_a_known_one_and_keeps_it() -> None:
    known, unknown = (
        first_response(SHA_256, "alice", USERS[SHA_256]),
        first_response(SHA_256, "mallory", USERS[SHA_256]),
    )
    assert len(known) == len(unknown)
    assert parse_server_first(known).iterations == parse_server_first(unknown).iterations
    assert first_response(SHA_256, "mallory", USERS[SHA_256]) == unknown
    assert (
        parse_server_first(first_response(SHA_256, "trudy", USERS[SHA_256])).salt
        != parse_server_first(unknown).salt
    )
    assert (
        parse_server_first(first_response(SHA_512, "mallory", USERS[SHA_256])).salt
        != parse_server_first(unknown).salt
    )


@pytest.mark.parametrize("salt", [b"0123456789abcdefghijklmnop", bytes(range(200, 216))])
def test_decoy_salt_has_the_alphabet_of_most_salts(salt: bytes) -> None:
    shape = usual_shape([credential(SHA_256, "x", salt=salt, iterations=8192)])
    decoy = decoy_credential(SHA_256, "mallory", shape, b"secret")
    assert len(decoy.salt.reveal()) == len(salt)
    assert decoy.salt.reveal().isalnum() == salt.isalnum()
    assert decoy.iterations == 8192


def test_decoy_without_any_user() -> None:
    decoy = decoy_credential(SHA_512, "mallory", usual_shape([]), b"secret")
    assert len(decoy.salt.reveal()) == 26
    assert decoy.iterations == 4096


def test_decoys_follow_the_many_and_not_the_one() -> None:
    salt = b"0123456789abcdefghijklmnop"
    many = [credential(SHA_256, "x", salt=salt) for _ in range(3)]
    assert (
        usual_shape([*many, credential(SHA_256, "y", salt=bytes(range(200, 216)), iterations=8192)])
        == PLAIN_SHAPE
    )
    changed = [*many[:2], credential(SHA_256, "z", salt=salt[::-1])]
    assert usual_shape(changed) == PLAIN_SHAPE, "another password changes nothing"


def test_decoy_gets_another_salt_with_another_shape_as_a_user_does_with_another_password() -> None:
    before, after = (
        decoy_credential(SHA_256, "mallory", Shape(iterations=count), b"secret")
        for count in (4096, 8192)
    )
    assert before.salt != after.salt


def test_proof_that_fits_the_decoy_does_not_get_in() -> None:
    """The stored key of a decoy is known to all, but no password hashes to it.

    A forged credential of zeros must not help either.
    """
    salted = SecretBytes(bytes(32))
    server = new_server(SHA_256, {})
    client = ScramClient(SHA_256, "mallory", "abc")
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    assert isinstance(client.evaluate(challenge.token), SaltingWanted)
    assert server.evaluate(client.resume(salted)) == Refused(reason=WRONG)


def test_credential_with_too_few_iterations_counts_as_none() -> None:
    weak = credential(SHA_256, "alice-secret", iterations=4095)
    assert log_in(
        new_server(SHA_256, {"alice": weak}), ScramClient(SHA_256, "alice", "abc"), "alice-secret"
    ) == Refused(reason=WRONG)


# What the broker refuses


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,b=x,n=alice,r=abc",
        b"n,a=,n=alice,r=abc",
        b"n,,r=abc,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,,n=al=ice,r=abc",
        b"n,,n=al=2cice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=alice,r=abc,1=x",
        b"n,,n=alice,r=abc,x",
        b"n,,n=alice,r=abc,x=",
        b"n,,n=ali\0ce,r=abc",
        b"\xff\xfe",
    ],
)
def test_malformed_first_message(token: bytes) -> None:
    assert isinstance(new_server(SHA_256, USERS[SHA_256]).evaluate(token), Refused)
    with pytest.raises(MalformedError):
        parse_client_first(token)


def test_extensions_are_passed_over_and_stay_in_the_auth_message() -> None:
    first = parse_client_first(b"n,a=alice,n=a=2Cl=3D,r=abc,any=thing,tokenauth=TRUE")
    assert (first.header, first.bare) == ("n,a=alice,", "n=a=2Cl=3D,r=abc,any=thing,tokenauth=TRUE")
    assert (first.authorization_id, first.name) == ("alice", "a,l=")
    assert first.extensions == {"any": "thing", "tokenauth": "TRUE"}


def test_other_authorization_id_is_told() -> None:
    outcome = new_server(SHA_256, USERS[SHA_256]).evaluate(b"n,a=bob,n=alice,r=abc")
    assert isinstance(outcome, Refused)
    assert outcome.client_text is not None
    assert "authorization id" in outcome.client_text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=!"),
        (b"r=abc", b"r=abd"),
        (b",p=", b",q=x,p=A"),
        (b",p=", b",x=y,p="),
        (b"c=biws,", b""),
    ],
)
def test_changed_last_message_is_refused(old: bytes, new: bytes) -> None:
    server, client = new_server(SHA_256, USERS[SHA_256]), ScramClient(SHA_256, "alice", "abc")
    outcome = log_in(
        server, client, "alice-secret", change_final=lambda token: token.replace(old, new)
    )
    assert isinstance(outcome, Refused)


@pytest.mark.parametrize(
    ("without_proof", "reason"),
    [
        ("c=biws,r=abcof-the-server", None),
        ("c=biws,r=abcof-the-server,x=y", None),
        (
            "c=eSws,r=abcof-the-server",
            "the channel binding of the last SCRAM message is not that of the first",
        ),
        (
            "c=,r=abcof-the-server",
            "the channel binding of the last SCRAM message is not that of the first",
        ),
        ("c=biws,r=abc", "the nonce of the last SCRAM message is not that of the first"),
        (
            "c=biws,r=abcof-the-serverx",
            "the nonce of the last SCRAM message is not that of the first",
        ),
        ("c=biws,r=abcof-another", "the nonce of the last SCRAM message is not that of the first"),
    ],
)
def test_last_message_is_refused_for_what_it_says_though_its_proof_is_right(
    without_proof: str, reason: str | None
) -> None:
    """A proof covers whatever its client says. Apache Kafka does not look at the channel binding,
    which shows a man in the middle.
    """
    server = new_server(SHA_256, USERS[SHA_256])
    challenge = server.evaluate(b"n,,n=alice,r=abc")
    assert isinstance(challenge, Challenge)
    client_text = parse_server_first(challenge.token)
    key = client_key(
        SHA_256,
        salted_password(
            SHA_256, SecretText("alice-secret"), client_text.salt, client_text.iterations
        ),
    )
    proof = client_proof(
        SHA_256, key, f"n=alice,r=abc,{challenge.token.decode()},{without_proof}".encode()
    )
    outcome = server.evaluate(f"{without_proof},p={base64.b64encode(proof).decode()}".encode())
    assert isinstance(outcome, Accepted) if reason is None else outcome == Refused(reason=reason)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_proof_of_another_length_is_refused(length: int) -> None:
    server, client = new_server(SHA_256, USERS[SHA_256]), ScramClient(SHA_256, "alice", "abc")
    proof = base64.b64encode(bytes(length))
    outcome = log_in(
        server,
        client,
        "alice-secret",
        change_final=lambda token: token.partition(b",p=")[0] + b",p=" + proof,
    )
    assert outcome == Refused(reason=WRONG)


def test_no_message_is_taken_twice() -> None:
    server, client = new_server(SHA_256, USERS[SHA_256]), ScramClient(SHA_256, "alice", "abc")
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    final = answer(client, challenge.token, "alice-secret")
    assert isinstance(server.evaluate(final), Accepted)
    assert isinstance(server.evaluate(final), Refused)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_messages_are_decided_on(first: bytes, final: bytes) -> None:
    server = new_server(SHA_256, USERS[SHA_256])
    assert isinstance(server.evaluate(first), Challenge | Refused | Lookup)
    server = new_server(SHA_256, USERS[SHA_256])
    server.evaluate(b"n,,n=alice,r=abc")
    assert isinstance(server.evaluate(final), Refused)
    for parse in (parse_client_first, parse_server_first, parse_client_final, parse_server_final):
        with suppress(MalformedError):
            parse(first)


@pytest.mark.parametrize(
    "after", [{}, {"alice": credential(SHA_256, "another")}], ids=["gone", "changed"]
)
def test_a_user_who_went_in_the_middle_of_a_login_is_not_let_in(
    after: dict[str, ScramCredential],
) -> None:
    """A user who waits with the last message until it is removed must not begin a session.

    The session might have no end.
    """
    users = dict(USERS[SHA_256])
    server, client = new_server(SHA_256, users), ScramClient(SHA_256, "alice", "abc")
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    final = answer(client, challenge.token, "alice-secret")
    users.clear()
    users.update(after)
    assert server.evaluate(final) == Refused(reason=WRONG)


# Delegation tokens


def token_server() -> tuple[object, ...]:
    server = new_server(SHA_512, USERS[SHA_512])
    client = ScramClient(SHA_512, "the-token-id", "abc", is_by_token=True)
    lookup = server.evaluate(client.first())
    assert isinstance(lookup, Lookup)
    assert lookup.wanted == TokenWanted(token_id="the-token-id", mechanism=SHA_512)
    return server, client, lookup


def token_login(*, is_there: bool) -> TokenLogin:
    return TokenLogin(
        owner=Principal("User", "alice"),
        credential=credential(SHA_512, "hmac"),
        expires_at_ms=77,
        is_there=lambda: is_there,
    )


def test_token_logs_in_as_its_owner() -> None:
    server, client, lookup = token_server()
    challenge = lookup.resume(token_login(is_there=True))  # type: ignore[attr-defined]
    outcome = server.evaluate(answer(client, challenge.token, "hmac"))  # type: ignore[attr-defined, arg-type]
    assert (outcome.principal, outcome.expires_at_ms, outcome.is_by_token) == (
        Principal("User", "alice"),
        77,
        True,
    )


def test_a_token_that_went_in_the_middle_of_its_login_lets_nobody_in() -> None:
    server, client, lookup = token_server()
    challenge = lookup.resume(token_login(is_there=False))  # type: ignore[attr-defined]
    assert server.evaluate(answer(client, challenge.token, "hmac")) == Refused(reason=WRONG)  # type: ignore[attr-defined, arg-type]


def test_tokens_show_the_same_salt_on_all_nodes_and_look_like_decoys() -> None:
    secret = SecretText("the-secret-of-the-cluster")
    one, other = (token_credential(secret, token_id, SHA_512) for token_id in ("one", "other"))
    assert one == token_credential(secret, "one", SHA_512)
    assert len({each.salt for each in (one, other, token_credential(secret, "one", SHA_256))}) == 3
    assert usual_shape([one, other]) == PLAIN_SHAPE


def test_a_token_is_found_by_its_hmac_without_computing_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret, computed = SecretText("the-secret-of-the-cluster"), list[str]()

    def counted(secret: SecretText, token_id: str) -> SecretBytes:
        computed.append(token_id)
        return token_hmac(secret, token_id)

    monkeypatch.setattr(delegation, "token_hmac", counted)
    index, tokens = TokenIndex(secret), {f"token-{number}": number for number in range(100)}
    hmacs = {
        token_id: token_hmac(secret, token_id).reveal() for token_id in (*tokens, "new", "none")
    }
    assert index.find(tokens, hmacs["token-7"]) == "token-7"
    assert len(computed) == 100
    renewed = {**tokens, "token-7": 1_000}
    assert index.find(renewed, hmacs["token-7"]) == "token-7"
    assert index.find(renewed, hmacs["none"]) is None
    assert index.find({**tokens, "new": 1}, hmacs["new"]) == "new"
    assert computed[100:] == ["new"]
    removed = {token_id: number for token_id, number in tokens.items() if number >= 50}
    assert index.find(removed, hmacs["token-7"]) is None
    assert repr(index) == "<TokenIndex tokens=50>"
    assert index.find(removed, b"") is None


def test_unknown_token_is_refused_like_an_unknown_user() -> None:
    server, client, lookup = token_server()
    challenge = lookup.resume(None)  # type: ignore[attr-defined]
    assert server.evaluate(answer(client, challenge.token, "hmac")) == Refused(reason=WRONG)  # type: ignore[attr-defined, arg-type]


def test_message_while_the_token_is_looked_up_is_refused() -> None:
    server, _, _ = token_server()
    assert isinstance(server.evaluate(b"n,,n=alice,r=abc"), Refused)  # type: ignore[attr-defined]


# What the client refuses


def client_after_first() -> ScramClient:
    client = ScramClient(SHA_256, "alice", "abc")
    client.first()
    return client


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        (b"r=abcX,s=QQ==,i=4095", "iterations"),
        (f"r=abcX,s=QQ==,i={MAX_CLIENT_ITERATIONS + 1}".encode(), "iterations"),
        (b"r=abcX,s=QQ==,i=2147483647", "iterations"),
        (b"r=abcX,s=QQ==,i=99999999999", "malformed"),
        (b"r=abcX,s=QQ==,i=-1", "malformed"),
        (b"r=abcX,s=,i=4096", "salt"),
        (b"r=abcX,s=" + base64.b64encode(bytes(1025)) + b",i=4096", "salt"),
        (b"r=abcX,s=!,i=4096", "malformed"),
        (b"r=abc,s=QQ==,i=4096", "nonce"),
        (b"r=xyz,s=QQ==,i=4096", "nonce"),
        (b"e=other-error", "malformed"),
        (b"", "malformed"),
    ],
)
def test_client_refuses_a_broker_that_is_weak_absurd_or_malformed(
    token: bytes, complaint: str
) -> None:
    with pytest.raises(LoginError, match=complaint):
        client_after_first().evaluate(token)


@pytest.mark.parametrize(
    "token", [b"v=" + base64.b64encode(bytes(32)), b"v=", b"e=invalid-proof", b"", b"x"]
)
def test_client_refuses_a_broker_that_does_not_know_the_credential(token: bytes) -> None:
    server, client = new_server(SHA_256, USERS[SHA_256]), ScramClient(SHA_256, "alice", "abc")
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    answer(client, challenge.token, "alice-secret")
    with pytest.raises(LoginError):
        client.evaluate(token)
    assert not client.is_complete


def test_client_refuses_a_signature_before_it_has_proved_itself() -> None:
    """A broker that skips the proof must not be taken for one that knows the credential."""
    with pytest.raises(LoginError):
        client_after_first().evaluate(b"v=")


def test_nothing_shows_a_secret() -> None:
    kept = USERS[SHA_256]["alice"]
    wanted = client_after_first().evaluate(b"r=abcX,s=cGxhbnRlZA==,i=4096")
    shown = repr((kept, wanted, new_server(SHA_256, USERS[SHA_256]), Challenge(token=b"planted")))
    assert "planted" not in shown
    assert "cGxhbnRlZA" not in shown
    assert repr(kept.stored_key.reveal()) not in shown


def test_random_text_fits_a_nonce_and_differs() -> None:
    texts = {random_text(secrets.randbits) for _ in range(50)}
    assert len(texts) == 50
    assert all(len(text) == 26 and text.isalnum() for text in texts)


def test_credential_from_a_salted_password_is_that_of_the_password() -> None:
    salted = salted_password(SHA_512, SecretText("alice-secret"), b"salt", 4096)
    assert credential_from(SHA_512, salted, b"salt", 4096) == credential(
        SHA_512, "alice-secret", salt=b"salt"
    )
