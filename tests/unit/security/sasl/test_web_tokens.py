"""A token is trusted by its signature, its key, its claims and the time."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from log_service.config.sasl_keys import TOKEN_ALGORITHMS
from log_service.security.sasl.oauthbearer import TokenRefusedError
from log_service.security.sasl.web_tokens import (
    CURVE_ALGORITHMS,
    RSA_ALGORITHMS,
    UnknownKeyError,
    WebTokenRules,
    check_claims,
    parse_key_set,
    unsigned_claims,
    validate_algorithms,
    validate_token,
)
from tests.unit.security.sasl.issuer import NOW_S, jwk, key_set, part, private_key, token, unsigned

KEYS = parse_key_set(key_set(jwk("rsa"), jwk("ec"), jwk("ed")))
RULES = WebTokenRules()


@pytest.mark.parametrize("kind", ["rsa", "ec", "ed"])
def test_token_of_a_known_key(kind: str) -> None:
    valid = validate_token(token(kind, scope="read write"), KEYS, RULES, NOW_S)
    assert (valid.subject, valid.expires_at_ms, valid.scopes) == (
        "alice",
        (NOW_S + 300) * 1_000,
        frozenset({"read", "write"}),
    )


@pytest.mark.parametrize("algorithm", ["RS384", "PS256", "PS512"])
def test_algorithm_that_fits_the_key(algorithm: str) -> None:
    assert validate_token(token("rsa", algorithm), KEYS, RULES, NOW_S).subject == "alice"


def forged_by_hmac() -> str:
    """A token whose HMAC has the issuer's public key as its secret, as text."""
    public = (
        private_key("rsa")
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    signed = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part({'sub': 'alice', 'iat': NOW_S, 'exp': NOW_S + 300})}"
    digest = hmac.new(public, signed.encode(), hashlib.sha256).hexdigest()
    return f"{signed}.{part(digest)}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "a.b.c",
        "....",
        unsigned(),
        unsigned() + "x",
        f"{part({'alg': 'none', 'kid': 'rsa'})}.{part({'sub': 'alice', 'iat': 1, 'exp': NOW_S + 300})}.c2ln",
        f"{part({'alg': ['RS256'], 'kid': 'rsa'})}.{part({})}.c2ln",
        f"{part({'alg': 'RS256', 'kid': 5})}.{part({})}.c2ln",
        f"{part({'alg': 'RS256', 'kid': 'x' * 1001})}.{part({})}.c2ln",
        f"{part([])}.{part({})}.c2ln",
        forged_by_hmac(),
        token("rsa")[:-8] + "AAAAAAAA",
        token("other rsa", headers={"kid": "rsa"}),
        token("ec", headers={"kid": "rsa"}),
        token("rsa", headers={"kid": "rsa", "crit": ["exp"]}),
        token("rsa", filler="x" * 70_000),
    ],
)
def test_token_that_is_not_trusted(text: str) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        validate_token(text, KEYS, RULES, NOW_S)
    assert not text or text not in str(caught.value)


def test_algorithms_of_the_configuration_are_those_that_keys_take() -> None:
    assert set(TOKEN_ALGORITHMS) == {
        *RSA_ALGORITHMS,
        *(name for names in CURVE_ALGORITHMS.values() for name in names),
    }


@pytest.mark.parametrize(
    ("allowed", "is_taken"),
    [((), True), (("RS256",), True), (("EdDSA", "RS256"), True), (("RS512", "ES256"), False)],
)
def test_algorithm_has_to_be_allowed_beside_fitting_the_key(
    allowed: tuple[str, ...], *, is_taken: bool
) -> None:
    rules = WebTokenRules(algorithms=allowed)
    if is_taken:
        assert validate_token(token("rsa", "RS256"), KEYS, rules, NOW_S).subject == "alice"
        return
    with pytest.raises(TokenRefusedError, match="not allowed"):
        validate_token(token("rsa", "RS256"), KEYS, rules, NOW_S)


def test_an_algorithm_that_is_allowed_fits_no_other_key_for_that() -> None:
    """A key may still refuse an allowed algorithm.

    Examples are an HMAC with a public key, and a signature of another key.
    """
    for text in (forged_by_hmac(), token("ec", headers={"kid": "rsa"}), unsigned()):
        with pytest.raises(TokenRefusedError):
            validate_token(text, KEYS, WebTokenRules(algorithms=("HS256", "ES256", "none")), NOW_S)


def test_keys_that_take_nothing_that_is_allowed_are_no_use() -> None:
    validate_algorithms(KEYS, ())
    validate_algorithms(KEYS, ("RS512", "EdDSA"))
    with pytest.raises(ValueError, match="ES384"):
        validate_algorithms(KEYS, ("ES384",))


def test_claims_changed_after_signing() -> None:
    header, _, signature = token("rsa").split(".")
    claims = part({"sub": "admin", "iat": NOW_S, "exp": NOW_S + 300})
    with pytest.raises(TokenRefusedError):
        validate_token(f"{header}.{claims}.{signature}", KEYS, RULES, NOW_S)


def test_key_that_is_not_known_is_told_apart() -> None:
    with pytest.raises(UnknownKeyError) as caught:
        validate_token(token("other rsa"), KEYS, RULES, NOW_S)
    assert caught.value.key_id == "other rsa"


def test_token_without_a_key_id_is_taken_where_one_key_fits() -> None:
    nameless = token("rsa", headers={})
    assert validate_token(nameless, KEYS, RULES, NOW_S).subject == "alice"
    two = parse_key_set(key_set(jwk("rsa"), jwk("other rsa")))
    with pytest.raises(TokenRefusedError, match="more than one"):
        validate_token(nameless, two, RULES, NOW_S)


@pytest.mark.parametrize(
    "unusable",
    [
        jwk("weak rsa"),
        jwk("rsa", use="enc"),
        jwk("rsa", alg="HS256"),
        jwk("ec", crv="P-255"),
        {"kty": "oct", "kid": "k", "k": "c2VjcmV0"},
        {"kty": "RSA"},
        {"kty": 5},
        {},
    ],
)
def test_key_that_must_not_be_used_is_left_out(unusable: dict[str, Any]) -> None:
    assert len(parse_key_set(key_set(unusable, jwk("ed")))) == 1
    with pytest.raises(ValueError, match="no usable key"):
        parse_key_set(key_set(unusable))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"keys": {}}',
        json.dumps({"keys": [{}] * 101}).encode(),
        b"[" * 100_000,
        b'{"keys": [{"kty": []}]}',
    ],
)
def test_document_that_is_no_key_set(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_key_set(content)


def test_key_that_names_its_algorithm_takes_no_other() -> None:
    keys = parse_key_set(key_set(jwk("rsa", alg="RS512")))
    with pytest.raises(TokenRefusedError):
        validate_token(token("rsa"), keys, RULES, NOW_S)
    assert validate_token(token("rsa", "RS512"), keys, RULES, NOW_S).subject == "alice"


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({"exp": None}, RULES),
        ({"iat": None}, RULES),
        ({"exp": "soon"}, RULES),
        ({"exp": True}, RULES),
        ({"exp": -1}, RULES),
        ({"exp": 1e300}, RULES),
        ({"exp": NOW_S - 30}, RULES),
        ({"nbf": NOW_S + 31}, RULES),
        ({"sub": None}, RULES),
        ({"sub": "  "}, RULES),
        ({"sub": " alice"}, RULES),
        ({"sub": "alice\n"}, RULES),
        ({"sub": "ali\nce"}, RULES),
        ({"sub": "ali\x1bce"}, RULES),
        ({"sub": "alice\u2028"}, RULES),
        ({"sub": "half a character: \ud800"}, RULES),
        ({"sub": 7}, RULES),
        ({"aud": "here"}, RULES),
        ({"aud": "there"}, WebTokenRules(audiences=("here",))),
        ({}, WebTokenRules(audiences=("here",))),
        ({"iss": "other"}, WebTokenRules(issuer="mine")),
        ({}, WebTokenRules(issuer="mine")),
        ({"scope": "a a"}, RULES),
        ({"scope": ["a", " "]}, RULES),
        ({"scope": 5}, RULES),
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any], rules: WebTokenRules) -> None:
    said = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 300, **claims}
    with pytest.raises(TokenRefusedError):
        check_claims(
            {name: value for name, value in said.items() if value is not None}, rules, NOW_S
        )


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({"exp": NOW_S - 29}, RULES),
        ({"nbf": NOW_S + 30}, RULES),
        ({"iat": NOW_S + 500}, RULES),
        ({"aud": ["x", "here"]}, WebTokenRules(audiences=("there", "here"))),
        ({"iss": "mine"}, WebTokenRules(issuer="mine")),
        ({"user": "alice", "sub": 5}, WebTokenRules(subject_claim="user")),
        ({"roles": ["a", "b"], "scope": 5}, WebTokenRules(scope_claim="roles")),
    ],
)
def test_claims_that_are_taken(claims: dict[str, Any], rules: WebTokenRules) -> None:
    assert (
        check_claims(
            {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 300, **claims}, rules, NOW_S
        ).subject
        == "alice"
    )


def test_unsigned_token_is_read_only_where_it_is_asked_for() -> None:
    assert unsigned_claims(unsigned())["sub"] == "alice"
    for text in (token("rsa"), "a.b.c", "", unsigned() + "x"):
        with pytest.raises(TokenRefusedError):
            unsigned_claims(text)


@given(
    st.text(max_size=60),
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=8)),
        max_size=4,
    ),
)
def test_anything_is_refused(text: str, header: dict[str, Any]) -> None:
    for forged in (text, f"{part(header)}.{part({'sub': 'alice'})}.{text}"):
        with pytest.raises(TokenRefusedError):
            validate_token(forged, KEYS, RULES, NOW_S)
