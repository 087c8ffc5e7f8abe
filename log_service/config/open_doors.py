"""Warnings about access that a configuration leaves open although it looks protected.

Each warning is one sentence, which the operator sees at the start. They are warnings and not
refusals, because Apache Kafka starts such a node. ``config.sasl`` warns of logins that an observer
of the network can read, and ``broker.first_logins`` of users that can never log in.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from log_service.common.access import ANONYMOUS
from log_service.config.views import ListenerConfig, NodeConfig

CLIENT_AUTH: Final = "ssl.client.auth"


def open_doors(config: NodeConfig, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield one warning for each access left open. ``texts`` are the keys that were set."""
    listeners = (*config.listeners, *config.controller_listeners)
    yield from _nameless_super_users(config, listeners)
    yield from _unheeded_client_auth(listeners, texts)


def _nameless_super_users(config: NodeConfig, listeners: Sequence[ListenerConfig]) -> Iterator[str]:
    """Yield a warning if unnamed clients can connect and the anonymous user is a super user."""
    if config.authorizer is None or str(ANONYMOUS) not in config.authorizer.super_users:
        return
    nameless = [each.name for each in listeners if _lets_in_without_a_name(each)]
    if nameless:
        where = f"listener{'s' if len(nameless) > 1 else ''} {', '.join(nameless)}"
        yield (
            f"super.users has {ANONYMOUS}: each client that reaches {where} may do everything,"
            f" because it needs no name there; take {ANONYMOUS} out once no node and no client of"
            " yours comes without a name"
        )


def _lets_in_without_a_name(listener: ListenerConfig) -> bool:
    security = listener.security
    return security.sasl is None and (
        security.tls is None or security.tls.client_auth != "required"
    )


def _unheeded_client_auth(
    listeners: Sequence[ListenerConfig], texts: Mapping[str, str]
) -> Iterator[str]:
    """Yield a warning if a key requests client certificates, but has no effect (KIP-684)."""
    asked = texts.get(CLIENT_AUTH, "").strip().lower()
    with_tls = [each for each in listeners if each.security.tls is not None]
    without_own_key = [
        each for each in with_tls if f"listener.name.{each.name.lower()}.{CLIENT_AUTH}" not in texts
    ]
    with_logins = [each.name for each in without_own_key if each.security.sasl is not None]
    is_heeded = len(with_logins) < len(without_own_key)
    if asked in {"", "none"} or not with_logins or is_heeded:
        return
    yield (
        f"{CLIENT_AUTH}={asked} has no effect: on a listener with logins, as"
        f" {', '.join(with_logins)}, only the key with the listener's prefix counts, and clients"
        f" need no certificate; set listener.name.{with_logins[0].lower()}.{CLIENT_AUTH}"
    )
