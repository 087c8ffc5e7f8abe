"""A SCRAM user as given on the command line: ``SCRAM-SHA-256=[name=alice,password=secret]``.

The format is that of Apache Kafka's tools. Inside the brackets are ``key=value`` parts between
commas. A value may be in double quotes. ``name`` is required, and so is one of ``password``,
``passwordfile`` and ``saltedpassword``. ``passwordfile`` is an extension. It names a file whose
first line is the password, or ``-`` for the standard input. So no process list shows the password.
``saltedpassword`` and ``salt`` are base64. ``iterations`` defaults to 4096.

Invariant: no error shows a value.
"""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretBytes, SecretText
from log_service.security.sasl.credentials import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from log_service.security.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    GetBits,
    credential_from,
    random_text,
    salted_password,
)

FORM: Final = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<parts>.*)\]", re.DOTALL)
KEYS: Final = ("name", "password", "passwordfile", "saltedpassword", "salt", "iterations")
SECRETS: Final = ("password", "passwordfile", "saltedpassword")
EXAMPLE: Final = "SCRAM-SHA-512=[name=alice,passwordfile=alice.txt]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramArgument:
    """A user to add. Exactly one of ``password``, ``password_file`` and ``salted`` is set."""

    mechanism: ScramMechanism
    name: str
    password: SecretText | None = None
    password_file: str | None = None
    salted: SecretBytes | None = None
    salt: bytes | None = field(default=None, repr=False)
    iterations: int = MIN_ITERATIONS

    def credential(self, get_bits: GetBits) -> ScramCredential:
        """Return the credential that the metadata stores. Takes milliseconds."""
        salt = self.salt if self.salt is not None else random_text(get_bits).encode()
        salted = self.salted
        if salted is None:
            assert self.password is not None, "the password's file is read before"
            salted = salted_password(self.mechanism, self.password, salt, self.iterations)
        return credential_from(self.mechanism, salted, salt, self.iterations)


def parse_scram_argument(text: str) -> ScramArgument:
    """Parse the argument of a user.

    Raises:
        ConfigError: the argument is not of that form, or a value is not valid for its key.
    """
    match = FORM.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"a SCRAM user is given as MECHANISM=[key=value,...], for example {EXAMPLE}"
        )
    mechanism = SCRAM_MECHANISMS.get(match["mechanism"])
    if mechanism is None:
        raise ConfigError(
            "a SCRAM user has a mechanism that is not there; it must be one of"
            f" {', '.join(SCRAM_MECHANISMS)}"
        )
    parts = _parts(match["parts"])
    if not parts.get("name"):
        raise ConfigError(f"a SCRAM user has no name, for example {EXAMPLE}")
    given = [key for key in SECRETS if key in parts]
    if len(given) != 1:
        raise ConfigError(f"SCRAM user {parts['name']!r} needs exactly one of {', '.join(SECRETS)}")
    if not parts[given[0]]:
        raise ConfigError(f"{given[0]} of SCRAM user {parts['name']!r} is empty")
    if "saltedpassword" in parts and "salt" not in parts:
        raise ConfigError(
            f"SCRAM user {parts['name']!r} has a saltedpassword and no salt; give the salt that it"
            " was made with"
        )
    salted = _bytes(parts, "saltedpassword")
    if salted is not None and len(salted) != mechanism.key_bytes:
        raise ConfigError(
            f"saltedpassword of SCRAM user {parts['name']!r} has {len(salted)} bytes; it must have"
            f" {mechanism.key_bytes}"
        )
    return ScramArgument(
        mechanism=mechanism,
        name=parts["name"],
        password=SecretText(parts["password"]) if "password" in parts else None,
        password_file=parts.get("passwordfile"),
        salted=None if salted is None else SecretBytes(salted),
        salt=_bytes(parts, "salt"),
        iterations=_iterations(parts),
    )


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.split(","):
        key, mark, value = part.strip().partition("=")
        if not mark or key not in KEYS:
            raise ConfigError(
                "a SCRAM user is made of key=value parts between commas, with the keys"
                f" {', '.join(KEYS)}"
            )
        if key in parts:
            raise ConfigError(f"a SCRAM user has {key} twice")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        parts[key] = value[1:-1] if is_quoted else value
    return parts


def _bytes(parts: dict[str, str], key: str) -> bytes | None:
    if key not in parts:
        return None
    try:
        content = base64.b64decode(parts[key], validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{key} of SCRAM user {parts['name']!r} is not base64") from None
    if not content:
        raise ConfigError(f"{key} of SCRAM user {parts['name']!r} is empty")
    return content


def _iterations(parts: dict[str, str]) -> int:
    text = parts.get("iterations", str(MIN_ITERATIONS))
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else -1
    if not MIN_ITERATIONS <= number <= MAX_ITERATIONS:
        raise ConfigError(
            f"iterations of SCRAM user {parts['name']!r} must be {MIN_ITERATIONS} to"
            f" {MAX_ITERATIONS}"
        )
    return number
