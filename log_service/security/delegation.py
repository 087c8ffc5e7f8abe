"""Delegation tokens (KIP-48): the HMAC that stands for a token, and the credential that a login by it is checked against.

A token's HMAC is its password. No node keeps it: each one computes it from the secret of the cluster and the token's id.
"""

import base64
import hmac

from log_service.common.access import Principal
from log_service.common.secrets import SecretBytes, SecretText
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism
from log_service.security.sasl.scram import MIN_ITERATIONS, GetBits, credential_from, random_text, salted_password


def token_hmac(secret: SecretText, token_id: str) -> SecretBytes:
    """Return the HMAC-SHA-512 of a token's id."""
    return SecretBytes(hmac.digest(secret.reveal().encode(), token_id.encode(), "sha512"))


def is_hmac_of(secret: SecretText, token_id: str, given: bytes) -> bool:
    """Whether bytes are the HMAC of a token, compared in constant time."""
    return hmac.compare_digest(token_hmac(secret, token_id).reveal(), given)


def token_credential(secret: SecretText, token_id: str, mechanism: ScramMechanism, get_bits: GetBits) -> ScramCredential:
    """Return what a login by a token is checked against: its password is its HMAC in base64. Takes milliseconds."""
    password = SecretText(base64.b64encode(token_hmac(secret, token_id).reveal()).decode())
    salt = random_text(get_bits).encode()
    return credential_from(mechanism, salted_password(mechanism, password, salt, MIN_ITERATIONS), salt, MIN_ITERATIONS)


def parse_principal(text: str) -> Principal:
    """Return the principal that the metadata writes as ``Type:name``."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)
