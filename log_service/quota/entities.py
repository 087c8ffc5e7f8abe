"""Finds the quota that applies to a client, and the clients that share it.

A quota is for a user, for a client id or for both together. Each is given by name, or as the
default of all that have no quota by name. Of all matching quotas the first in the order of
``levels`` applies (KIP-55). Clients to which the same quota applies by the same names share it.
A default quota applies to each name separately. Each kind of quota is looked up separately, so a
client may get its byte rate from one entity and its request time from another.
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
"""The kinds of quota that a broker counts.

The controller counts mutations, and the listeners count connections.
"""


class Client(NamedTuple):
    """A user's name and a client id. Either is empty if the client has none."""

    user: str
    client_id: str


class Share(NamedTuple):
    """The clients that share one quota: those of a user, those of a client id, or those of both.

    An empty name matches any name.
    """

    user: str
    client_id: str

    def __str__(self) -> str:
        named = ((USER, self.user), (CLIENT_ID, self.client_id))
        return " ".join(f"{kind}={name}" for kind, name in named if name)


class Limit(NamedTuple):
    """A quota that applies to a client: its bound per second, and the clients that share it."""

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
    """Return the entities that match a client in order of precedence, each with the clients that
    share it.

    A client without a client id matches no quota of client ids, not even the default. The same
    holds for users.
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
"""All quotas of a cluster: numbers by key, by entity."""


def limit_of(quotas: Quotas, key: QuotaKey, client: Client) -> Limit | None:
    """Return the quota of kind ``key`` that applies to a client, or None."""
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
"""Longer names (a client id may have 32,767 bytes) are shortened, so that many of them take little
memory.
"""
SHOWN_OF_LONG_NAME: Final = 64


@dataclass(slots=True)
class KnownLimits:
    """A cache of the limits of clients, under one set of quotas.

    The number of cached clients is bounded. Further clients are looked up each time.
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
