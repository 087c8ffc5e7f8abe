"""Keys and certificates from the ``ssl.*`` keys: PEM files, PEM texts, PKCS12 and JKS stores.

This module decides which keys and chains a side may show, in which order, and which certificates it
trusts. All content is converted to PEM, because OpenSSL takes nothing else. Errors are
``ConfigError``, and name the configuration key, the file, and the remedy.

``Read`` returns the bytes of a file. A listener's files are read again for every reload.
``cryptography`` is imported with the first store that needs it.

Invariants: private keys are secrets from the first byte on. The key's own certificate is the first
in its chain.
"""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretBytes, SecretText
from log_service.config.security import TlsConfig
from log_service.security.tls.java_key_store import (
    JavaKeyEntry,
    JavaKeyStore,
    is_java_key_store,
    read_java_key_store,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

Read = Callable[[Path], bytes]
"""Returns the bytes of a file. Raises OSError."""

BLOCK = re.compile(r"-+BEGIN (?P<label>[A-Z0-9 ]+)-+(?P<body>.*?)-+END (?P=label)-+", re.DOTALL)
CERTIFICATE, ENCRYPTED_KEY = "CERTIFICATE", "ENCRYPTED PRIVATE KEY"
KEY_LABELS = frozenset({"PRIVATE KEY", ENCRYPTED_KEY, "RSA PRIVATE KEY", "EC PRIVATE KEY"})
MAX_STORE_BYTES = 8 << 20
MAX_KEYS = 100
"""The most keys of one store. A listener has an OpenSSL context for each."""
LINE_LETTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMaterial:
    """A private key with its chain.

    ``key`` is PEM, encrypted with ``key_password`` if that is set.
    """

    where: str
    """The source, for messages."""
    key: SecretText
    key_password: SecretText | None
    chain: tuple[bytes, ...]
    """Certificates in DER, the key's own first."""

    @property
    def pem(self) -> SecretText:
        """Key and chain in one PEM text, as OpenSSL expects them."""
        return SecretText(self.key.reveal() + "".join(map(pem_of, self.chain)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustMaterial:
    """The certificates that are trusted to sign others, in DER."""

    where: str
    certificates: tuple[bytes, ...]


def read_keys(config: TlsConfig, read: Read) -> tuple[KeyMaterial, ...]:
    """Return the keys that a side may show, empty without a key store.

    Keys of a PEM file keep its order. Keys of a JKS store are ordered by alias. A PKCS12 store
    gives one key.

    Raises:
        ConfigError: the store cannot be read, its password is wrong, or it does not hold keys with
            their certificates.
    """
    if config.keystore_key is not None and config.keystore_certificate_chain is not None:
        text = f"{config.keystore_key.reveal()}\n{config.keystore_certificate_chain.reveal()}"
        return _pem_keys(text, "ssl.keystore.key", config.key_password)
    if config.keystore_location is None:
        return ()
    where = config.keystore_location
    content = _content(where, "ssl.keystore.location", read)
    if config.keystore_type == "PEM":
        return _pem_keys(content.decode("latin-1"), where, config.key_password)
    if is_java_key_store(content):
        return _java_keys(_java_store(content, config.keystore_password, where), where, config)
    return (_pkcs12_key(_pkcs12(content, config.keystore_password, where), where),)


def read_trust(config: TlsConfig, read: Read) -> TrustMaterial | None:
    """Return the trusted certificates, None without a trust store.

    Raises:
        ConfigError: the store cannot be read, its password is wrong, or it holds no certificate.
    """
    if config.truststore_certificates is not None:
        return _trust(
            "ssl.truststore.certificates",
            _certificates(config.truststore_certificates.reveal(), "ssl.truststore.certificates"),
        )
    if config.truststore_location is None:
        return None
    where = config.truststore_location
    content = _content(where, "ssl.truststore.location", read)
    if config.truststore_type == "PEM":
        return _trust(where, _certificates(content.decode("latin-1"), where))
    if is_java_key_store(content):
        return _trust(where, _java_store(content, config.truststore_password, where).trusted)
    return _trust(where, _all_certificates(_pkcs12(content, config.truststore_password, where)))


def files_of(config: TlsConfig) -> tuple[Path, ...]:
    """Return the files that a configuration reads."""
    return tuple(
        Path(location)
        for location in (config.keystore_location, config.truststore_location)
        if location is not None
    )


def pem_of(certificate: bytes) -> str:
    """Return a certificate in DER as PEM."""
    return _wrapped(CERTIFICATE, base64.b64encode(certificate).decode())


def _wrapped(label: str, letters: str) -> str:
    lines = [
        letters[start : start + LINE_LETTERS] for start in range(0, len(letters), LINE_LETTERS)
    ]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _content(location: str, key: str, read: Read) -> bytes:
    try:
        content = read(Path(location))
    except OSError as error:
        raise ConfigError(
            f"{key} names {location}, which cannot be read: {error.strerror or error}"
        ) from error
    if len(content) > MAX_STORE_BYTES:
        raise ConfigError(
            f"{key} names {location}, which has {len(content)} bytes; a store has at most"
            f" {MAX_STORE_BYTES}"
        )
    return content


# PEM


def _pem_keys(text: str, where: str, password: SecretText | None) -> tuple[KeyMaterial, ...]:
    """Return the keys in a PEM text.

    A single key may be anywhere in the text. Of several keys, each must precede its chain.
    """
    keys = [match for match in BLOCK.finditer(text) if match["label"] in KEY_LABELS]
    _validate_count(len(keys), f"{where} holds {len(keys)} private keys in PEM")
    if len(keys) == 1:
        return (_pem_key(keys[0], text, where, password),)
    ends = [*(key.start() for key in keys[1:]), len(text)]
    return tuple(
        _pem_key(
            key, text[key.end() : end], f"{where} (private key {number} of {len(keys)})", password
        )
        for number, (key, end) in enumerate(zip(keys, ends, strict=True), 1)
    )


def _pem_key(
    block: re.Match[str], chain: str, where: str, password: SecretText | None
) -> KeyMaterial:
    is_encrypted = block["label"] == ENCRYPTED_KEY or "ENCRYPTED" in block["body"]
    if is_encrypted and password is None:
        raise ConfigError(f"the private key in {where} is encrypted; set ssl.key.password")
    key = SecretText(_normalized(block, where))
    return KeyMaterial(
        where=where,
        key=key,
        key_password=password if is_encrypted else None,
        chain=_certificates(chain, where),
    )


def _validate_count(count: int, found: str) -> None:
    if not 1 <= count <= MAX_KEYS:
        raise ConfigError(
            f"{found}; there have to be 1 to {MAX_KEYS}, each followed by its certificate chain"
        )


def _normalized(block: re.Match[str], where: str) -> str:
    """Return a PEM block with proper line ends, because a properties file may have lost them."""
    if ":" in block["body"]:  # the headers of an older format
        return block.group().strip() + "\n"
    letters = "".join(block["body"].replace("\\n", "").replace("\\r", "").split())
    try:
        base64.b64decode(letters, validate=True)
    except ValueError as error:
        raise ConfigError(f"{where} holds a {block['label']} that is not PEM: {error}") from error
    return _wrapped(block["label"], letters)


def _certificates(text: str, where: str) -> tuple[bytes, ...]:
    blocks = [match for match in BLOCK.finditer(text) if match["label"] == CERTIFICATE]
    if not blocks:
        raise ConfigError(f"{where} holds no certificate in PEM")
    bodies = [_normalized(block, where).split("-----")[2] for block in blocks]
    return tuple(base64.b64decode(body) for body in bodies)


# Stores in PKCS12 and JKS


def _trust(where: str, certificates: Sequence[bytes]) -> TrustMaterial:
    if not certificates:
        raise ConfigError(f"{where} holds no certificate to trust")
    return TrustMaterial(where=where, certificates=tuple(certificates))


def _java_store(content: bytes, password: SecretText | None, where: str) -> JavaKeyStore:
    try:
        return read_java_key_store(content, password)
    except ConfigError as error:
        hint = (
            f"keytool -importkeystore -srckeystore {where} -destkeystore {where}.p12 -deststoretype"
            " PKCS12"
        )
        raise ConfigError(
            f"{where} cannot be read: {error}; if the password is right, convert it: {hint}"
        ) from error


def _java_keys(store: JavaKeyStore, where: str, config: TlsConfig) -> tuple[KeyMaterial, ...]:
    """Return the keys of a store, ordered by alias because a store keeps no order."""
    _validate_count(len(store.keys), f"{where} holds {len(store.keys)} private keys")
    password = config.key_password or config.keystore_password
    assert password is not None, "config.tls refuses a location without a password"
    return tuple(
        _java_key(entry, where, password)
        for entry in sorted(store.keys, key=lambda entry: entry.alias)
    )


def _java_key(entry: JavaKeyEntry, where: str, password: SecretText) -> KeyMaterial:
    if not entry.chain:
        raise ConfigError(f"{where} holds no certificate for its private key {entry.alias!r}")
    try:
        der = entry.key(password)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return KeyMaterial(where=where, key=_key_pem(der), key_password=None, chain=entry.chain)


def _key_pem(der: SecretBytes) -> SecretText:
    return SecretText(_wrapped("PRIVATE KEY", base64.b64encode(der.reveal()).decode()))


def _pkcs12(content: bytes, password: SecretText | None, where: str) -> "PKCS12KeyAndCertificates":
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see the module's opening
        pkcs12,
    )

    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.reveal().encode())
    except ValueError as error:
        raise ConfigError(
            f"{where} cannot be read: its password is wrong, or it is neither PKCS12 nor JKS"
        ) from error


def _pkcs12_key(store: "PKCS12KeyAndCertificates", where: str) -> KeyMaterial:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    if store.key is None or store.cert is None:
        raise ConfigError(
            f"{where} holds no private key with its certificate; a store of certificates alone is a"
            " trust store"
        )
    der = store.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyMaterial(
        where=where, key=_key_pem(SecretBytes(der)), key_password=None, chain=_chain(store)
    )


def _chain(store: "PKCS12KeyAndCertificates") -> tuple[bytes, ...]:
    """Return the chain in order, because a store may hold the upper certificates in any order."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - as above

    assert store.cert is not None
    chain = [store.cert.certificate]
    others = [each.certificate for each in store.additional_certs]
    while chain[-1].issuer != chain[-1].subject:
        above = next(
            (other for other in others if other.subject == chain[-1].issuer and other not in chain),
            None,
        )
        if above is None:
            break
        chain.append(above)
    return tuple(certificate.public_bytes(Encoding.DER) for certificate in chain)


def _all_certificates(store: "PKCS12KeyAndCertificates") -> tuple[bytes, ...]:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - as above

    found = (
        [store.cert, *store.additional_certs] if store.cert is not None else store.additional_certs
    )
    return tuple(each.certificate.public_bytes(Encoding.DER) for each in found)
