"""The names of overrides: a key with the prefix of a listener, and perhaps of a mechanism.

The declaration of a key gives its traits, and the level at which it may change (Apache Kafka 4.3,
KIP-226). A name that is not a key of Kafka's is accepted and kept, as in Kafka, because it may
belong to a plug-in.
"""

from functools import cache

from log_service.config.definition import PER_BROKER, Trait
from log_service.config.server_keys import SERVER_KEYS

OAUTH_PREFIX = "sasl.oauthbearer."
"""Every key of this prefix is about access, and may be one of a mechanism."""
LISTENER_PREFIX = "listener.name."


def keys_with(traits: Trait) -> frozenset[str]:
    """Return the names of the keys that have at least one of ``traits``."""
    return frozenset(name for name, key in SERVER_KEYS.items() if key.traits & traits)


def traits_of(name: str) -> Trait:
    """Return the traits of a key of the server properties. Another name has none."""
    key = SERVER_KEYS.get(name)
    return Trait.NONE if key is None else key.traits


_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")


@cache
def _keys_of_listeners() -> frozenset[str]:
    """Return the keys that may follow a listener's name, for names of listeners with dots.

    Other keys end in ``.listeners``, too. Most files have no override, so a start does not collect
    these keys.
    """
    acting = keys_with(Trait.LISTENER | Trait.LISTENER_LIMIT | Trait.ACCESS | Trait.MECHANISM)
    return (
        acting | {name for name, key in SERVER_KEYS.items() if key.update_mode is PER_BROKER}
    ) - {"listeners"}


@cache
def _most_words() -> int:
    return max(key.count(".") + 1 for key in _keys_of_listeners())


def base_name(name: str) -> str:
    """Return the key that a listener's override belongs to, or the name itself."""
    override = _override(name)
    return name if override is None else override[1]


def _override(name: str) -> tuple[str, str] | None:
    """Return listener and key of an override, or None if the name is not an override.

    The name of a listener may have dots (``EXT.A``), and keys have dots, too. So the listener's
    name ends where a key begins that listeners can have. Before any other key it ends at its first
    dot, as in Apache Kafka.
    """
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, key = _split(name.removeprefix(LISTENER_PREFIX))
    if not key:
        return None
    may_have_mechanism = Trait.MECHANISM in traits_of(key) or key.startswith(OAUTH_PREFIX)
    for mechanism in _MECHANISMS:
        if may_have_mechanism and listener.endswith(f".{mechanism}"):
            return listener.removesuffix(f".{mechanism}"), key
        if key.startswith(f"{mechanism}."):
            return listener, key.removeprefix(f"{mechanism}.") or key
    return listener, key


def _split(rest: str) -> tuple[str, str]:
    """Split an override, whose ``listener.name.`` is already removed, into listener and key.

    Only the last words are tried, so that a name of any length costs little.
    """
    start = rest.find(f".{OAUTH_PREFIX}")
    if start > 0:
        return rest[:start], rest[start + 1 :]
    words = rest.rsplit(".", _most_words())
    for position in range(1, len(words)):
        key = ".".join(words[position:])
        if key in _keys_of_listeners() and len(key) + 1 < len(rest):
            return rest[: -len(key) - 1], key
    listener, _, key = rest.partition(".")
    return listener, key


def is_about_access(name: str) -> bool:
    """Whether a key decides who may log in, under which user, or the broker's own identity."""
    base = base_name(name)
    return Trait.ACCESS in traits_of(base) or base.startswith(OAUTH_PREFIX)


def counts_from_file_alone(name: str) -> bool:
    """Whether only the file can set a key, so that a request to set it changes nothing.

    A request can set a JAAS text of PLAIN, which changes the users.
    """
    base = base_name(name)
    return Trait.FILE_ALONE in traits_of(base) or (
        base == "sasl.jaas.config" and not name.endswith(".plain.sasl.jaas.config")
    )


def listener_name(name: str) -> str | None:
    """Return the upper-case listener of a key, or None for a key without a listener's prefix."""
    override = _override(name)
    return None if override is None else override[0].upper()
