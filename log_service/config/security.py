"""The values of encryption and logins for a listener or a client.

They come from the ``ssl.*`` and ``sasl.*`` keys. This module decides which key applies to one
listener. ``listener.name.<name>.<key>`` wins over ``<key>``. For keys of one mechanism
``listener.name.<name>.<mechanism>.<key>`` wins over both. It opens no file. Passwords, certificates
and private keys are ``SecretText``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from log_service.common.secrets import SecretText


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The ``ssl.*`` keys of one listener or client, by Kafka's names (KIP-651 for PEM)."""

    keystore_type: str
    keystore_location: str | None
    keystore_password: SecretText | None
    keystore_key: SecretText | None
    keystore_certificate_chain: SecretText | None
    key_password: SecretText | None
    truststore_type: str
    truststore_location: str | None
    truststore_password: SecretText | None
    truststore_certificates: SecretText | None
    enabled_protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    client_auth: str
    """``none``, ``requested`` or ``required``; for listeners only."""
    endpoint_identification_algorithm: str
    """Empty: the name in the other side's certificate is not compared with the host.

    For connecting sides only.
    """
    principal_mapping_rules: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """The token checks of a listener.

    Times are in milliseconds. Signing keys come from ``jwks_url``. If it is None, unsigned tokens
    are accepted.
    """

    jwks_url: str | None
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    issuer: str | None
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    """The allowed signature algorithms. Empty allows each algorithm of the token's key."""
    skew_s: int
    scope_claim: str
    subject_claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismConfig:
    """The keys of one mechanism of a listener or client."""

    jaas: SecretText | None
    max_reauth_ms: int
    """How long a login lasts; 0 is for ever (KIP-368)."""
    oauth: OAuthConfig | None
    """How tokens are checked; for OAUTHBEARER only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslConfig:
    """The ``sasl.*`` keys of one listener."""

    mechanisms: Mapping[str, MechanismConfig]
    """The enabled mechanisms, by name."""
    max_receive_bytes: int
    """The largest frame before a login is complete."""
    failed_delay_ms: int
    """How long the broker delays the refusal of a login (KIP-306)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The protection of a listener. ``protocol`` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""

    protocol: str = "PLAINTEXT"
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None


PLAINTEXT_SECURITY = ListenerSecurity()
PROTOCOL_NUMBERS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's numbers of protocols, as brokers and controllers register them."""
PROTOCOLS: Final = tuple(PROTOCOL_NUMBERS)
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms of listeners and clients."""
KERBEROS: Final = "GSSAPI"
"""Kafka's default mechanism, which is not supported."""
TLS_NUMBERS = frozenset({1, 3})


def effective_text(
    texts: Mapping[str, str], key: str, listener: str, mechanism: str | None = None
) -> str | None:
    """Return the text that applies to a listener, and to a mechanism if given, or None.

    None means that no key sets it.
    """
    prefix = f"listener.name.{listener.lower()}."
    names = [f"{prefix}{mechanism.lower()}.{key}"] if mechanism is not None else []
    names += [f"{prefix}{key}", key]
    return next((texts[name] for name in names if name in texts), None)
