"""The validation of JSON web tokens (RFC 7519): issuer, signature, times, subject.

Keys, rules and the time are arguments. PyJWT checks signatures. It is imported when the first token
arrives.

Invariants: a key's algorithms follow from the key (RFC 7517) and never from the token, so neither
``none`` nor an HMAC with a public key is accepted. The rules may allow fewer algorithms, never
more. Symmetric keys and encryption keys are ignored. RSA keys have at least 2048 bits. A token has
an expiry time and an issue time. A token with an audience is accepted only if that audience is
expected.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from log_service.security.sasl.oauthbearer import MAX_TOKEN_LENGTH, TokenRefusedError, ValidToken

RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVE_ALGORITHMS: Final = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
MIN_RSA_BITS: Final = 2_048
MAX_KEY_COUNT: Final = 100
MAX_KEY_ID_LENGTH: Final = 1_000


class UnknownKeyError(TokenRefusedError):
    """No key with that id is known. It may be new."""

    def __init__(self, key_id: str) -> None:
        super().__init__("the token is signed with a key that is not known")
        self.key_id = key_id


@dataclass(frozen=True, slots=True, kw_only=True)
class WebTokenRules:
    """The rules for tokens, from the ``sasl.oauthbearer.*`` keys.

    ``skew_s`` is the allowed clock skew.
    """

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    """The allowed signature algorithms. Empty allows each algorithm of the token's key."""
    skew_s: float = 30.0
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    required_scopes: frozenset[str] = frozenset()
    """The scopes that every token must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A public key of an issuer, with its algorithms."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any = field(repr=False)


KeySet = tuple[PublicKey, ...]


def parse_key_set(content: bytes) -> KeySet:
    """Return the usable keys of a JWKS document.

    Raises:
        ValueError: the text is not a JWKS document, or has no usable key.
    """
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("the document is nested too deeply for a JWKS") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_KEY_COUNT:
        raise ValueError(
            f"the document is not a JWKS: it has no list of at most {MAX_KEY_COUNT} keys"
        )
    keys = tuple(
        key for each in listed if isinstance(each, dict) and (key := _public_key(each)) is not None
    )
    if not keys:
        raise ValueError(
            "the JWKS has no usable key: RSA with 2048 bits, EC or Ed25519, for signatures"
        )
    return keys


def validate_algorithms(keys: KeySet, allowed: Sequence[str]) -> None:
    """Check that at least one key fits an allowed algorithm.

    An empty ``allowed`` allows all.

    Raises:
        ValueError: no key fits an allowed algorithm.
    """
    if allowed and not any(set(key.algorithms) & set(allowed) for key in keys):
        raise ValueError(
            f"no key of the JWKS takes any of the algorithms that are allowed: {', '.join(allowed)}"
        )


def validate_token(token: str, keys: KeySet, rules: WebTokenRules, now_s: float) -> ValidToken:
    """Validate a token.

    Raises:
        UnknownKeyError: no key of its id is known.
        TokenRefusedError: the token is not trusted, for another reason.
    """
    header, claims = _verified(token, keys, rules.algorithms)
    if "crit" in header:
        raise TokenRefusedError("the token has critical extensions, which are not there")
    return check_claims(claims, rules, now_s)


def check_claims(claims: Mapping[str, Any], rules: WebTokenRules, now_s: float) -> ValidToken:
    """Validate the claims of a token whose signature was checked.

    Raises:
        TokenRefusedError: a claim breaks the rules.
    """
    expires_s, _ = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires_s + rules.skew_s <= now_s:
        raise TokenRefusedError("the token has expired")
    if "nbf" in claims and _seconds(claims, "nbf") - rules.skew_s > now_s:
        raise TokenRefusedError("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefusedError("the token is of another issuer")
    _check_audience(claims.get("aud"), rules.audiences)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip() or not _is_encodable(subject):
        raise TokenRefusedError(f"the token's claim {rules.subject_claim} names no subject")
    if subject != subject.strip() or not subject.isprintable():
        raise TokenRefusedError(
            f"the token's claim {rules.subject_claim} has a control character, or whitespace"
            " around it"
        )
    scopes = _scopes(claims.get(rules.scope_claim))
    if not rules.required_scopes <= scopes:
        raise TokenRefusedError(f"the token lacks the scope {min(rules.required_scopes - scopes)}")
    return ValidToken(subject=subject, expires_at_ms=int(expires_s * 1_000), scopes=scopes)


def unsigned_claims(token: str) -> Mapping[str, Any]:
    """Return the claims of an unsigned token, for test setups that accept such tokens.

    Raises:
        TokenRefusedError: the text is not an unsigned token.
    """
    import jwt  # noqa: PLC0415 - only nodes that take tokens need it

    try:
        decoded = jwt.api_jwt.decode_complete(_bounded(token), options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise TokenRefusedError(f"the token is malformed: {type(error).__name__}") from None
    if str(decoded["header"].get("alg", "")).lower() != "none" or not token.endswith("."):
        raise TokenRefusedError("the token has a signature, and no keys are configured to check it")
    claims: Mapping[str, Any] = decoded["payload"]
    return claims


def _verified(
    token: str, keys: KeySet, allowed: Sequence[str]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    import jwt  # noqa: PLC0415 - as above

    parts = _bounded(token).split(".")
    if len(parts) != 3 or not all(parts):
        raise TokenRefusedError("the token is not made of header, claims and signature")
    try:
        header = jwt.get_unverified_header(token)
        key = _choose(header, keys, allowed)
        options = {
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "verify_aud": False,
            "verify_iss": False,
        }
        options |= {"verify_sub": False, "verify_jti": False}
        claims = jwt.decode(token, key.key, algorithms=list(key.algorithms), options=options)  # type: ignore[arg-type]
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise TokenRefusedError(
            f"the token is malformed or its signature is wrong: {type(error).__name__}"
        ) from None
    return header, claims


def _bounded(token: str) -> str:
    if len(token) > MAX_TOKEN_LENGTH:
        raise TokenRefusedError(f"the token has more than {MAX_TOKEN_LENGTH} characters")
    return token


def _choose(header: Mapping[str, Any], keys: KeySet, allowed: Sequence[str]) -> PublicKey:
    """Return the key that signed a token.

    Without a key id, exactly one key must fit the algorithm.
    """
    key_id, algorithm = header.get("kid"), header.get("alg")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID_LENGTH):
        raise TokenRefusedError("the token's key id is not text of a sane length")
    named = [key for key in keys if key_id is None or key.key_id == key_id]
    if not named:
        raise UnknownKeyError(str(key_id))
    if allowed and algorithm not in allowed:
        raise TokenRefusedError("the token is signed by an algorithm that is not allowed")
    fitting = [key for key in named if algorithm in key.algorithms]
    if len(fitting) != 1:
        raise TokenRefusedError("no key, or more than one, fits the token's algorithm")
    return fitting[0]


def _public_key(jwk: Mapping[str, Any]) -> PublicKey | None:
    """Return a key of a JWKS, or None if it must not be used."""
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm  # noqa: PLC0415 - as above
    from jwt.exceptions import PyJWTError  # noqa: PLC0415 - as above

    kind, algorithms = jwk.get("kty"), _algorithms(jwk)
    readers: dict[Any, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
    if (
        not isinstance(kind, str)
        or kind not in readers
        or not algorithms
        or jwk.get("use", "sig") != "sig"
    ):
        return None
    try:
        key = readers[kind].from_jwk(dict(jwk))
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    key = key.public_key() if hasattr(key, "public_key") else key
    if kind == "RSA" and key.key_size < MIN_RSA_BITS:
        return None
    key_id = jwk.get("kid")
    return PublicKey(
        key_id=key_id if isinstance(key_id, str) else None, algorithms=algorithms, key=key
    )


def _algorithms(jwk: Mapping[str, Any]) -> tuple[str, ...]:
    possible = (
        RSA_ALGORITHMS if jwk.get("kty") == "RSA" else CURVE_ALGORITHMS.get(str(jwk.get("crv")), ())
    )
    named = jwk.get("alg")
    return possible if named is None else tuple(each for each in possible if each == named)


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenRefusedError(f"the token's claim {name} is missing or no time")
    return float(value)


def _is_encodable(text: str) -> bool:
    """Whether a text has a UTF-8 encoding. JSON can hold lone surrogates, which have none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_audience(audience: Any, expected: Sequence[str]) -> None:
    named = (
        [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    )
    if not expected and audience is not None:
        raise TokenRefusedError("the token is for an audience, and none is expected here")
    if expected and not set(expected) & {each for each in named if isinstance(each, str)}:
        raise TokenRefusedError("the token is for another audience")


def _scopes(value: Any) -> frozenset[str]:
    listed = (
        value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else []
    )
    if value is not None and not isinstance(value, str | list):
        raise TokenRefusedError("the token's scope is neither a text nor a list")
    scopes = [each.strip() for each in listed if isinstance(each, str)]
    if len(scopes) != len(listed) or not all(scopes) or len(set(scopes)) != len(scopes):
        raise TokenRefusedError("the token's scopes are blank, repeated or no texts")
    return frozenset(scopes)
