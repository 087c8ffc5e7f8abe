"""Delegation tokens (KIP-48): their HMACs, and the credentials that check a login by token.

A token's HMAC is its password. Nodes do not store it. Each node computes it from the cluster's
secret and the token's id.

Invariant: all nodes of a cluster show the same salt for a token, so a client cannot tell a token's
id from an unknown id by comparing nodes.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from log_service.common.access import Principal
from log_service.common.secrets import SecretBytes, SecretText
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism
from log_service.security.sasl.scram import (
    MIN_ITERATIONS,
    credential_from,
    salted_password,
    text_of_bytes,
)


def token_hmac(secret: SecretText, token_id: str) -> SecretBytes:
    """Return the HMAC-SHA-512 of a token's id."""
    return SecretBytes(hmac.digest(secret.reveal().encode(), token_id.encode(), "sha512"))


class TokenIndex:
    """Finds tokens by their HMACs.

    Each token's HMAC is computed once.

    The keys are hashes of HMACs, so neither lookup times nor the node's memory reveal an HMAC.
    """

    def __init__(self, secret: SecretText) -> None:
        self._secret = secret
        self._known: Mapping[str, object] = {}
        self._keys: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"<TokenIndex tokens={len(self._ids)}>"

    def find(self, tokens: Mapping[str, object], given: bytes) -> str | None:
        """Return the id of the token with this HMAC, or None if ``tokens`` (by id) has none."""
        key = hashlib.sha256(given).digest()
        found = self._ids.get(key)
        if (found is None or found not in tokens) and tokens is not self._known:
            self._follow(tokens)
            found = self._ids.get(key)
        return found if found is not None and found in tokens else None

    def _follow(self, tokens: Mapping[str, object]) -> None:
        """Update the index to these tokens."""
        for token_id in self._keys.keys() - tokens.keys():
            del self._ids[self._keys.pop(token_id)]
        for token_id in tokens:
            if token_id not in self._keys:
                key = hashlib.sha256(token_hmac(self._secret, token_id).reveal()).digest()
                self._keys[token_id], self._ids[key] = key, token_id
        self._known = tokens


def token_credential(
    secret: SecretText, token_id: str, mechanism: ScramMechanism
) -> ScramCredential:
    """Return the credential for a login by token, whose password is its HMAC in base64.

    Takes milliseconds.
    """
    token = token_hmac(secret, token_id).reveal()
    password = SecretText(base64.b64encode(token).decode())
    salt = text_of_bytes(
        hmac.digest(token, b"salt of " + mechanism.mechanism_name.encode(), "sha256")
    ).encode()
    return credential_from(
        mechanism, salted_password(mechanism, password, salt, MIN_ITERATIONS), salt, MIN_ITERATIONS
    )


def parse_principal(text: str) -> Principal:
    """Return the principal that the metadata stores as ``Type:name``."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)
