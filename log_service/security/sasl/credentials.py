"""SCRAM credentials: the values that a broker stores for a password (RFC 5802, section 3).

A broker can check a login with them, but a client cannot log in with them.
"""

from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from log_service.common.secrets import SecretBytes


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms by their numbers in requests and in the metadata (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The SASL name of the mechanism, such as ``SCRAM-SHA-256``."""
        return f"SCRAM-SHA-{256 * self.value}"

    @property
    def hash_name(self) -> str:
        """The name of the hash in ``hashlib``."""
        return f"sha{256 * self.value}"

    @property
    def key_bytes(self) -> int:
        """The length of keys and of salted passwords."""
        return 32 * self.value


SCRAM_MECHANISMS: Final = MappingProxyType(
    {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
)
"""The mechanisms by the names that clients ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """The stored values that check a user's password (RFC 5802)."""

    salt: SecretBytes
    stored_key: SecretBytes
    server_key: SecretBytes
    iterations: int
