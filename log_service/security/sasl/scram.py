"""SCRAM (RFC 5802, RFC 7677, KIP-84), both sides: keys, proofs and its four messages.

    client-first   n,[a=<authorization id>],n=<user name>,r=<nonce>[,<extension>=<value>]...
    server-first   r=<both nonces>,s=<salt>,i=<iterations>
    client-final   c=<channel binding>,r=<both nonces>[,<extension>=<value>]...,p=<proof>
    server-final   v=<signature>

Passwords and names are used unchanged, in UTF-8, without SASLprep, as in Apache Kafka.

Invariants: the auth message is made of the received texts, byte for byte. Keys and proofs are
compared in constant time.
"""

import base64
import binascii
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from log_service.common.secrets import SecretBytes, SecretText
from log_service.security.sasl.credentials import ScramCredential, ScramMechanism

MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
"""The bounds of the iterations that a broker stores, for both mechanisms."""
RANDOM_BITS = 130
"""The random bits of a nonce, and of a generated salt."""

GetBits = Callable[[int], int]
"""Returns an unpredictable number of the given number of bits (``secrets.randbits``)."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOKEN_AUTHENTICATION = "tokenauth"  # noqa: S105 - the name of an extension
"""The extension that marks a login by delegation token (KIP-48)."""


class MalformedError(Exception):
    """A message is malformed. The text quotes no part of it."""


def random_text(get_bits: GetBits) -> str:
    """Return a random nonce or salt of lower-case letters and digits, as Apache Kafka does."""
    return _text_of(get_bits(RANDOM_BITS))


def text_of_bytes(content: bytes) -> str:
    """Convert at least 17 bytes to a text that looks like one of ``random_text``."""
    return _text_of(int.from_bytes(content) & ((1 << RANDOM_BITS) - 1))


def _text_of(number: int) -> str:
    digits = []
    for _ in range(26):  # 36 ** 26 is above 2 ** 130
        number, digit = divmod(number, 36)
        digits.append(DIGITS[digit])
    return "".join(digits)


def salted_password(
    mechanism: ScramMechanism, password: SecretText, salt: bytes, iterations: int
) -> SecretBytes:
    """Return the key derived from a password and a salt.

    Takes milliseconds, so call it in a thread.
    """
    return SecretBytes(
        hashlib.pbkdf2_hmac(mechanism.hash_name, password.reveal().encode(), salt, iterations)
    )


def credential_from(
    mechanism: ScramMechanism, salted: SecretBytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential that a broker stores for a salted password."""
    return ScramCredential(
        salt=SecretBytes(salt),
        stored_key=SecretBytes(_hash(mechanism, client_key(mechanism, salted))),
        server_key=SecretBytes(server_key(mechanism, salted)),
        iterations=iterations,
    )


def client_key(mechanism: ScramMechanism, salted: SecretBytes) -> bytes:
    """Return the key with which a client proves that it knows the password."""
    return _hmac(mechanism, salted.reveal(), b"Client Key")


def server_key(mechanism: ScramMechanism, salted: SecretBytes) -> bytes:
    """Return the key with which a broker proves that it knows the credential."""
    return _hmac(mechanism, salted.reveal(), b"Server Key")


def client_proof(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    """Return the proof that a client has ``client_key``."""
    signature = _hmac(mechanism, _hash(mechanism, key), auth_message)
    return _xor(key, signature)


def is_proof_of(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: bytes, proof: bytes
) -> bool:
    """Whether a proof was made with the key of a credential."""
    if len(proof) != mechanism.key_bytes:
        return False
    stored_key = credential.stored_key.reveal()
    signature = _hmac(mechanism, stored_key, auth_message)
    return hmac.compare_digest(_hash(mechanism, _xor(proof, signature)), stored_key)


def server_signature(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    """Return the proof that a broker has ``server_key``."""
    return _hmac(mechanism, key, auth_message)


class Shape(NamedTuple):
    """The properties of a credential that a client sees before it is authenticated.

    They are the number of iterations and the form of the salt.
    """

    iterations: int = MIN_ITERATIONS
    salt_bytes: int = 26
    is_text: bool = True
    """Whether the salt has only lower-case letters and digits, as Apache Kafka's salts do."""


PLAIN_SHAPE = Shape()
"""The shape of credentials made with Apache Kafka's defaults."""


def usual_shape(credentials: Iterable[ScramCredential]) -> Shape:
    """Return the most common shape of credentials, or ``PLAIN_SHAPE`` without credentials.

    Of several equally common shapes it is the smallest.
    """
    counts = Counter(map(_shape_of, credentials))
    return max(sorted(counts), key=counts.__getitem__, default=PLAIN_SHAPE)


def _shape_of(credential: ScramCredential) -> Shape:
    salt = credential.salt.reveal()
    return Shape(
        max(MIN_ITERATIONS, credential.iterations),
        len(salt),
        salt.isalnum() and salt.lower() == salt,
    )


def decoy_credential(
    mechanism: ScramMechanism, name: str, shape: Shape, secret: bytes
) -> ScramCredential:
    """Return a credential for an unknown name, which no password matches.

    The same name gets the same salt each time, and on every node with the same ``secret``. So a
    client cannot find out that a name is unknown by asking twice. Another shape gives another salt,
    just as a new password does.
    """
    about = f"{mechanism.mechanism_name}\0{shape.iterations}\0{shape.salt_bytes}\0{name}"
    stream = hashlib.shake_256(hmac.digest(secret, about.encode(), "sha512")).digest(
        shape.salt_bytes
    )
    salt = bytes(ord(DIGITS[byte % 36]) for byte in stream) if shape.is_text else stream
    return ScramCredential(
        salt=SecretBytes(salt),
        stored_key=SecretBytes(bytes(mechanism.key_bytes)),
        server_key=SecretBytes(bytes(mechanism.key_bytes)),
        iterations=shape.iterations,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    """A client's first message. ``bare`` is the text after the header."""

    header: str
    bare: str
    authorization_id: str
    name: str
    nonce: str
    extensions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    """A broker's first message."""

    nonce: str
    salt: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    """A client's last message. ``without_proof`` is the text before the proof."""

    without_proof: str
    channel_binding: bytes
    nonce: str
    proof: bytes = field(repr=False)


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse a client's first message.

    Raises:
        MalformedError: the text is not a first message, or demands channel binding.
    """
    text = _decoded(token)
    binding, authorization, bare = _split(text, 3)
    if binding != "n":
        raise MalformedError("the client asks for channel binding, which is not there")
    if authorization and not authorization.startswith("a="):
        raise MalformedError("the header holds something else than an authorization id")
    parts = bare.split(",")
    name, nonce = _attribute(parts, 0, "n"), _attribute(parts, 1, "r")
    _validate_printable(nonce)
    return ClientFirst(
        header=text[: len(text) - len(bare)],
        bare=bare,
        authorization_id=_unescaped(authorization.removeprefix("a=")) if authorization else "",
        name=_unescaped(name),
        nonce=nonce,
        extensions=_extensions(parts[2:]),
    )


def parse_server_first(token: bytes) -> ServerFirst:
    """Parse a broker's first message.

    Raises:
        MalformedError: the text is not such a message.
    """
    parts = _decoded(token).split(",")
    nonce, salt, iterations = (
        _attribute(parts, 0, "r"),
        _attribute(parts, 1, "s"),
        _attribute(parts, 2, "i"),
    )
    _validate_printable(nonce)
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) <= 10):
        raise MalformedError("the number of iterations is not a number")
    return ServerFirst(nonce=nonce, salt=_from_base64(salt), iterations=int(iterations))


def parse_client_final(token: bytes) -> ClientFinal:
    """Parse a client's last message.

    Raises:
        MalformedError: the text is not such a message.
    """
    text = _decoded(token)
    without_proof, mark, proof = text.rpartition(",p=")
    if not mark:
        raise MalformedError("the proof is missing")
    parts = without_proof.split(",")
    binding, nonce = _attribute(parts, 0, "c"), _attribute(parts, 1, "r")
    _extensions(parts[2:])
    return ClientFinal(
        without_proof=without_proof,
        channel_binding=_from_base64(binding),
        nonce=nonce,
        proof=_from_base64(proof),
    )


def parse_server_final(token: bytes) -> bytes:
    """Return the signature in a broker's last message.

    Raises:
        MalformedError: the text is not such a message, or says that the login failed.
    """
    text = _decoded(token)
    if text.startswith("e="):
        raise MalformedError("the broker says that the login failed")
    return _from_base64(_attribute(text.split(","), 0, "v"))


def to_base64(content: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(content).decode()


def escaped(name: str) -> str:
    """Return a name with the escapes that SCRAM messages need."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    if not name:
        raise MalformedError("a name is empty")
    parts = name.split("=")
    if any(not part.startswith(("2C", "3D")) for part in parts[1:]):
        raise MalformedError("a name holds = without 2C or 3D behind it")
    return parts[0] + "".join(
        ("," if part.startswith("2C") else "=") + part[2:] for part in parts[1:]
    )


def _decoded(token: bytes) -> str:
    try:
        text = token.decode()
    except UnicodeDecodeError:
        raise MalformedError("a message is not UTF-8") from None
    if "\0" in text:
        raise MalformedError("a message holds a NUL")
    return text


def _split(text: str, count: int) -> list[str]:
    parts = text.split(",", count - 1)
    if len(parts) != count:
        raise MalformedError("a message ends early")
    return parts


def _attribute(parts: list[str], index: int, name: str) -> str:
    """Return the value of the attribute at an index."""
    if index >= len(parts) or not parts[index].startswith(f"{name}="):
        raise MalformedError(f"attribute {name} is not where it must be")
    return parts[index][2:]


def _extensions(parts: list[str]) -> dict[str, str]:
    extensions: dict[str, str] = {}
    for part in parts:
        key, mark, value = part.partition("=")
        if not (mark and value and key.isascii() and key.isalpha()):
            raise MalformedError("an extension is not a word of letters, = and a value")
        extensions[key] = value
    return extensions


def _validate_printable(nonce: str) -> None:
    if not nonce or not all("!" <= character <= "~" for character in nonce):
        raise MalformedError("a nonce is empty or has characters that cannot be printed")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("an attribute is not base64") from None


def _hash(mechanism: ScramMechanism, content: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, content).digest()


def _hmac(mechanism: ScramMechanism, key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, mechanism.hash_name)


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")
