"""TLS contexts: the OpenSSL settings of listeners and of connections that we open.

This module decides protocols, suites, the certificates shown and trusted (``material``), and what
is never allowed: renegotiation, compression, and versions before TLS 1.2. Python loads keys only
from files, so a key that is a text is written to a temporary nameless file.

A listener whose store holds several keys has a context for each. The host name that a client sends
(SNI) selects the first certificate for that host. A client that sends no host, or an unknown one,
is shown the first certificate.

Invariant: a returned context works. Its key fits its certificate, which is valid now.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from log_service.common.errors import ConfigError
from log_service.config.security import TlsConfig
from log_service.security.tls.cipher_suites import choose_ciphers
from log_service.security.tls.material import (
    KeyMaterial,
    Read,
    TrustMaterial,
    pem_of,
    read_keys,
    read_trust,
)

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
VERIFY_MODES = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
TICKETS = 0
"""The number of TLS 1.3 session tickets.

A resumed client would show no certificate, even if its own has expired.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """The TLS context of a listener or a client, with its keys and trusted certificates."""

    context: ssl.SSLContext
    keys: tuple[KeyMaterial, ...]
    """The first is shown to servers, and to clients that ask for no known host."""
    trust: TrustMaterial | None

    @property
    def key(self) -> KeyMaterial | None:
        """The first key, or None if there is none."""
        return self.keys[0] if self.keys else None


def server_context(config: TlsConfig, read: Read) -> Contexts:
    """Return the context of a listener.

    Raises:
        ConfigError: a store cannot be read, or has no key; the certificate has expired, or does
            not fit its key; a suite is not known; client certificates are requested, but there is
            no trust store.
    """
    keys, trust = read_keys(config, read), read_trust(config, read)
    if not keys:
        raise ConfigError(
            "a listener with TLS needs a key store: set ssl.keystore.location, or ssl.keystore.key"
            " and its certificate chain"
        )
    if config.client_auth != "none" and trust is None:
        text = (
            f"ssl.client.auth is {config.client_auth}, and there is no trust store: every public"
            " authority would be trusted"
        )
        raise ConfigError(f"{text}; set ssl.truststore.location or ssl.truststore.certificates")
    first, *others = contexts = [_listening(config, key, trust) for key in keys]
    if others:
        first.sni_callback = _chooser(
            [
                (frozenset(host_names(key.chain[0])), each)
                for key, each in zip(keys, contexts, strict=True)
            ]
        )
    return Contexts(context=first, keys=keys, trust=trust)


def _listening(config: TlsConfig, key: KeyMaterial, trust: TrustMaterial | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = TICKETS
    context.verify_mode = VERIFY_MODES[config.client_auth]
    _settle(context, config, key, trust)
    return context


def _chooser(
    named: Sequence[tuple[frozenset[str], ssl.SSLContext]],
) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    def choose(handshake: ssl.SSLObject, host: str | None, _first: ssl.SSLContext) -> None:
        if host is not None:
            found = next((context for names, context in named if is_for_host(names, host)), None)
            if found is not None:
                handshake.context = found

    return choose


def is_for_host(names: frozenset[str], host: str) -> bool:
    """Whether a certificate is for a host, also by ``*`` for its first label (RFC 6125, 6.4.3)."""
    wanted = host.lower().rstrip(".")
    _, _, domain = wanted.partition(".")
    return wanted in names or (bool(domain) and f"*.{domain}" in names)


def host_names(certificate: bytes) -> Iterator[str]:
    """Yield the lower-case host names of a certificate in DER, or else its common name."""
    from cryptography import x509  # noqa: PLC0415 - a node without TLS needs none of it

    parsed = x509.load_der_x509_certificate(certificate)
    try:
        listed = parsed.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        listed = []
    yield from (name.lower() for name in listed)
    if not listed:
        yield from (
            str(each.value).lower()
            for each in parsed.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        )


def client_context(config: TlsConfig, read: Read) -> Contexts:
    """Return the context of connections that we open.

    The default trust is the system's authorities.

    Raises:
        ConfigError: a store cannot be read; the certificate has expired, or does not fit its key; a
            suite is not known.
    """
    keys, trust = read_keys(config, read), read_trust(config, read)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.endpoint_identification_algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED
    if trust is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _settle(context, config, keys[0] if keys else None, trust)
    return Contexts(context=context, keys=keys, trust=trust)


def _settle(
    context: ssl.SSLContext, config: TlsConfig, key: KeyMaterial | None, trust: TrustMaterial | None
) -> None:
    """Apply the settings that both sides share."""
    choice = choose_ciphers(config.enabled_protocols, config.cipher_suites)
    versions = [VERSIONS[protocol] for protocol in choice.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if choice.openssl_names is not None:
        try:
            context.set_ciphers(choice.openssl_names)
        except ssl.SSLError as error:
            raise ConfigError(
                f"ssl.cipher.suites: OpenSSL here has none of {', '.join(config.cipher_suites)}"
            ) from error
    if key is not None:
        _load_key(context, key)
    if trust is not None:
        _load_trust(context, trust)


def _load_key(context: ssl.SSLContext, key: KeyMaterial) -> None:
    validate_times(key)
    password = "" if key.key_password is None else key.key_password.reveal()
    with _nameless_file(key.pem.reveal().encode()) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            raise ConfigError(
                f"{key.where}: {_complaint(error, is_encrypted=key.key_password is not None)}"
            ) from error


def _complaint(error: ssl.SSLError, *, is_encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate that stands first in the chain"
    if is_encrypted:
        return f"ssl.key.password does not open the private key ({error.reason})"
    return f"OpenSSL cannot use the key or its chain ({error.reason or error})"


def _load_trust(context: ssl.SSLContext, trust: TrustMaterial) -> None:
    try:
        context.load_verify_locations(cadata="".join(map(pem_of, trust.certificates)))
    except ssl.SSLError as error:
        raise ConfigError(
            f"{trust.where} holds data that is not a certificate ({error.reason or error})"
        ) from error
    # Each certificate is trusted by itself, as in Java, even if its signer is not in the store.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def validate_times(key: KeyMaterial) -> None:
    """Refuse a certificate that is not valid now.

    Raises:
        ConfigError: the certificate has expired, is not valid yet, or cannot be read.
    """
    from cryptography import x509  # noqa: PLC0415 - a node without TLS needs none of it

    try:
        certificate = x509.load_der_x509_certificate(key.chain[0])
    except ValueError as error:
        raise ConfigError(f"{key.where} holds data that is not a certificate: {error}") from error
    now, begins, ends = (
        datetime.now(UTC),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )
    if now > ends:
        raise ConfigError(
            f"the certificate in {key.where} has expired on {ends:%Y-%m-%d %H:%M} UTC; no client"
            " would accept it"
        )
    if now < begins:
        raise ConfigError(
            f"the certificate in {key.where} is not valid before {begins:%Y-%m-%d %H:%M} UTC; look"
            " at this machine's clock"
        )


def end_of(key: KeyMaterial) -> datetime:
    """Return the time in UTC at which a key's certificate expires. The key must be loaded."""
    from cryptography import x509  # noqa: PLC0415 - a node without TLS needs none of it

    return x509.load_der_x509_certificate(key.chain[0]).not_valid_after_utc


def has_ended(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate in DER has expired at ``now``."""
    from cryptography import x509  # noqa: PLC0415 - a node without TLS needs none of it

    return now > x509.load_der_x509_certificate(certificate).not_valid_after_utc


@contextmanager
def _nameless_file(content: bytes) -> Iterator[str]:
    """Yield a path from which OpenSSL can read ``content``: in memory, or else a temporary file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tidelog-key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(content)
        file.flush()
        yield file.name
