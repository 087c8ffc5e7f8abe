"""Finds the quota that holds for a client, and the clients that share it.

A quota is for a user, for a client id or for both together, by name or as the default of all that
have none by name. Of all that match a client the first holds, in the order of ``levels`` (KIP-55).
Clients for which the same quota holds by the same names use it up together; those for which a
default holds have it each for itself.

Each kind of quota is looked up apart: a client may have its byte rate by one entity and its request
time by another.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from log_service.metadata.access import QuotaEntity, QuotaPart

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class QuotaKey(StrEnum):
    """The kinds of quotas, by Kafka's names."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


CLIENT_KEYS: Final = (
    QuotaKey.PRODUCER_BYTE_RATE,
    QuotaKey.CONSUMER_BYTE_RATE,
    QuotaKey.REQUEST_PERCENTAGE,
)
"""What a broker counts for its clients. The controller counts mutations, the listeners count
connections.
"""


class Client(NamedTuple):
    """A user's name and a client id; empty where it has none."""

    user: str
    client_id: str


class Share(NamedTuple):
    """The clients that use up one quota together: a user's, those of a client id, or a single one.

    An empty name counts for any.
    """

    user: str
    client_id: str

    def __str__(self) -> str:
        named = ((USER, self.user), (CLIENT_ID, self.client_id))
        return " ".join(f"{kind}={name}" for kind, name in named if name)


class Limit(NamedTuple):
    """A quota that holds for a client: its bound per second, and with whom the client shares it."""

    share: Share
    bound: float


def _user(name: str) -> QuotaPart:
    return QuotaPart(USER, name)


def _client(name: str) -> QuotaPart:
    return QuotaPart(CLIENT_ID, name)


ANY_USER: Final = QuotaPart(USER, is_default=True)
ANY_CLIENT: Final = QuotaPart(CLIENT_ID, is_default=True)
ANY_IP: Final = QuotaPart(IP, is_default=True)


def remembered(name: str) -> str:
    """Return a short key for a client's name.

    A long name is kept as its beginning and its digest.
    """
    if len(name) <= MAX_REMEMBERED_NAME:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[:SHOWN_OF_LONG_NAME]}...{digest}"


def levels(client: Client) -> list[tuple[QuotaEntity, Share]]:
    """Return the entities that match a client, the one that counts first, and with whom it shares
    each.

    No quota of a client id, nor the default of client ids, is for a client without one; the same
    goes for users.
    """
    user, client_id = client
    shown_user, shown_id = remembered(user), remembered(client_id)
    both, by_user, by_client = (
        Share(shown_user, shown_id),
        Share(shown_user, ""),
        Share("", shown_id),
    )
    found: list[tuple[QuotaEntity, Share]] = []
    if user and client_id:
        found += [((_client(client_id), _user(user)), both), ((ANY_CLIENT, _user(user)), both)]
    if user:
        found.append(((_user(user),), by_user))
    if user and client_id:
        found += [((_client(client_id), ANY_USER), both), ((ANY_CLIENT, ANY_USER), both)]
    if user:
        found.append(((ANY_USER,), by_user))
    if client_id:
        found += [((_client(client_id),), by_client), ((ANY_CLIENT,), by_client)]
    return found


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""All quotas of a cluster: numbers by their keys, by whom they are for."""


def limit_of(quotas: Quotas, key: QuotaKey, client: Client) -> Limit | None:
    """Return the quota of a kind that holds for a client, None where none does."""
    for entity, share in levels(client):
        bound = quotas.get(entity, {}).get(key)
        if bound is not None:
            return Limit(share, bound)
    return None


def has_any(quotas: Quotas, *keys: QuotaKey) -> bool:
    """Whether a quota of one of these kinds is set for anybody."""
    return any(key in values for values in quotas.values() for key in keys)


MAX_KNOWN_CLIENTS: Final = 10_000
MAX_REMEMBERED_NAME: Final = 256
"""Names that are longer (a client id may have 32,767 bytes) are not kept themselves, so that many
of them take no memory.
"""
SHOWN_OF_LONG_NAME: Final = 64


@dataclass(slots=True)
class KnownLimits:
    """The limits of the clients that were seen, by a set of quotas.

    Bounded: clients that are too many are looked up anew.
    """

    quotas: Quotas
    keys: tuple[QuotaKey, ...]
    _found: dict[Client, tuple[Limit | None, ...]] = field(default_factory=dict)

    @property
    def known_clients(self) -> Collection[Client]:
        """The clients whose limits are remembered. Long names are shortened."""
        return self._found.keys()

    def of(self, client: Client) -> tuple[Limit | None, ...]:
        """Return the client's limits in the order of ``keys``."""
        found = self._found.get(client)  # under its own names, unless they are too long
        if found is not None:
            return found
        place = (
            client
            if len(client.user) + len(client.client_id) <= MAX_REMEMBERED_NAME
            else Client(*map(remembered, client))
        )
        found = self._found.get(place)
        if found is None:
            if len(self._found) >= MAX_KNOWN_CLIENTS:
                self._found.clear()
            found = self._found[place] = tuple(
                limit_of(self.quotas, key, client) for key in self.keys
            )
        return found
