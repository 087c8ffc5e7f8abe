"""JKS, Java's own key store format: written by ``keytool`` before Java 9.

JKS is the default of ``ssl.keystore.type``. A file holds keys with their chains, and trusted
certificates. The format is Sun's and was never published as a standard. It has a header, big-endian
entries, and a SHA-1 over a password and all bytes. A key is hidden by XOR with a chain of SHA-1.
That protects little, so ``keytool`` itself advises to convert the file.

Invariants: every length is checked against the remaining bytes. A wrong password and a damaged
file are ``ConfigError``, distinguished if the format allows it.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretBytes, SecretText
from log_service.security.tls.distinguished_names import elements

MAGIC = b"\xfe\xed\xfe\xed"
VERSIONS = (1, 2)
MAX_ENTRIES = 10_000
KEY_ENTRY, TRUSTED_ENTRY = 1, 2
DIGEST_BYTES = 20
WHITENER = b"Mighty Aphrodite"
# The OID 1.3.6.1.4.1.42.2.17.1.1, Sun's own cipher for keys.
KEY_PROTECTOR = bytes.fromhex("2b060104012a02110101")


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaKeyEntry:
    """A hidden private key (PKCS#8, DER) and its certificate chain in DER, its own first."""

    alias: str
    hidden_key: bytes
    chain: tuple[bytes, ...]

    def key(self, password: SecretText) -> SecretBytes:
        """Return the private key, PKCS#8 in DER.

        Raises:
            ConfigError: the password is wrong, or the key is hidden in a way that is not known.
        """
        return SecretBytes(_uncovered(_protected(self.hidden_key), _utf16(password), self.alias))


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaKeyStore:
    """The entries of a file."""

    keys: tuple[JavaKeyEntry, ...]
    trusted: tuple[bytes, ...]
    """Certificates in DER."""


def is_java_key_store(content: bytes) -> bool:
    """Whether these are the bytes of a JKS file."""
    return content.startswith(MAGIC)


def read_java_key_store(content: bytes, password: SecretText | None) -> JavaKeyStore:
    """Return the entries of a JKS file.

    Without a password its integrity is not checked, as in Java.

    Raises:
        ConfigError: the file is damaged, or the password is wrong.
    """
    if len(content) < len(MAGIC) + 8 + DIGEST_BYTES:
        raise ConfigError("the key store ends before its first entry")
    body, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, digest):
            raise ConfigError("the password is wrong, or the key store is damaged")
    try:
        return _entries(_Reader(body))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key store is damaged: {error}") from error


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._content) - self._position:
            raise IndexError(
                f"{size} bytes are announced at position {self._position}, and are not there"
            )
        self._position += size
        return self._content[self._position - size : self._position]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode()


def _entries(reader: _Reader) -> JavaKeyStore:
    reader.take(len(MAGIC))
    version, count = reader.number(), reader.number()
    if version not in VERSIONS or count > MAX_ENTRIES:
        raise IndexError(f"version {version} with {count} entries is not one that can be read")
    keys, trusted = [], []
    for _ in range(count):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # creation time
        if tag == KEY_ENTRY:
            hidden_key = reader.take(reader.number())
            chain = tuple(
                _certificate(reader, version) for _ in range(min(reader.number(), MAX_ENTRIES))
            )
            keys.append(JavaKeyEntry(alias=alias, hidden_key=hidden_key, chain=chain))
        elif tag == TRUSTED_ENTRY:
            trusted.append(_certificate(reader, version))
        else:
            raise IndexError(f"an entry of kind {tag} is not one that can be read")
    return JavaKeyStore(keys=tuple(keys), trusted=tuple(trusted))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version > 1:
        reader.text()  # certificate type, X.509
    return reader.take(reader.number())


def _protected(encrypted_key: bytes) -> bytes:
    """Return the encrypted bytes of the key in an EncryptedPrivateKeyInfo."""
    try:
        algorithm, hidden = elements(next(elements(encrypted_key)).content)
        oid = next(elements(algorithm.content))
    except (ValueError, StopIteration) as error:
        raise ConfigError(f"a private key of the key store is damaged: {error}") from error
    if oid.content != KEY_PROTECTOR:
        raise ConfigError(
            "a private key of the key store is encrypted in a way that is not known; convert the"
            " store to PKCS12"
        )
    return hidden.content


def _uncovered(hidden: bytes, password: bytes, alias: str) -> bytes:
    salt, covered, check = (
        hidden[:DIGEST_BYTES],
        hidden[DIGEST_BYTES:-DIGEST_BYTES],
        hidden[-DIGEST_BYTES:],
    )
    stream = b"".join(_key_stream(password, salt, len(covered)))
    key = bytes(left ^ right for left, right in zip(covered, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(password + key, usedforsecurity=False).digest(), check):
        raise ConfigError(
            f"the password of the key {alias!r} is wrong (ssl.key.password, or else the key"
            " store's)"
        )
    return key


def _key_stream(password: bytes, salt: bytes, size: int) -> Iterator[bytes]:
    for _ in range(0, size, DIGEST_BYTES):
        salt = hashlib.sha1(password + salt, usedforsecurity=False).digest()
        yield salt


def _utf16(password: SecretText) -> bytes:
    return password.reveal().encode("utf-16-be")
