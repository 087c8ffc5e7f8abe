"""An issuer of tokens serves tests.

It has keys of several kinds, their JWKS, and tokens that say what a test wants.
"""

import base64
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_S = 1_700_000_000


@cache
def private_key(kind: str) -> Any:
    """A private key, made once: "rsa", "other rsa", "weak rsa", "ec" or "ed"."""
    if kind == "ec":
        return ec.generate_private_key(ec.SECP256R1())
    if kind == "ed":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(
        public_exponent=65537, key_size=1024 if kind.startswith("weak") else 2048
    )


def jwk(kind: str, **more: Any) -> dict[str, Any]:
    """The public half as a member of a JWKS; its id is its kind."""
    algorithm: Any = {"ec": ECAlgorithm, "ed": OKPAlgorithm}.get(kind, RSAAlgorithm)
    return {"kid": kind, **json.loads(algorithm.to_jwk(private_key(kind).public_key())), **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def token(
    kind: str = "rsa",
    algorithm: str | None = None,
    headers: dict[str, Any] | None = None,
    **claims: Any,
) -> str:
    """A signed token; claims that are None are left out."""
    said = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 300, **claims}
    chosen = algorithm or {"ec": "ES256", "ed": "EdDSA"}.get(kind, "RS256")
    named = {"kid": kind} if headers is None else headers
    return jwt.encode(
        {name: value for name, value in said.items() if value is not None},
        private_key(kind),
        chosen,
        headers=named,
    )


def part(value: Any) -> str:
    """A part of a token that is written by hand."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(**claims: Any) -> str:
    return f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': NOW_S + 300, **claims})}."
