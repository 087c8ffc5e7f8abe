"""Warnings about a new cluster that no client could log in to or manage.

Decides by the configuration and by the SCRAM users of the new cluster. If clients of any name may
log in (by certificates or tokens), there is no warning about names. Apache Kafka starts such a node
without a message. Therefore these are only warnings, and the node starts.
"""

from collections.abc import Collection, Iterator
from typing import Final

from log_service.common.access import ANONYMOUS, Principal
from log_service.config.views import ListenerConfig, NodeConfig

BEGIN_ANEW: Final = "begin anew, with `tidelog storage format --add-scram` over empty log.dirs"


def lockout_warning(config: NodeConfig, scram_users: Collection[str] = ()) -> str | None:
    """Return a warning if no client can ever log in to a new cluster, or none may manage it.

    Return None if some client can log in and manage it.

    Raises:
        ConfigError: a JAAS text is not valid.
    """
    known: set[str] | None = set()
    for listener in (*config.listeners, *config.controller_listeners):
        names = _names(listener, scram_users)
        known = None if known is None or names is None else known | names
    if known is not None and not known:
        text = (
            "no user can ever log in to this new cluster: its listeners let users of SCRAM or PLAIN"
            " in, and there is none"
        )
        return (
            f"{text}; {BEGIN_ANEW}, or name users of PLAIN (user_<name> in the JAAS text of a"
            " listener)"
        )
    authorizer = config.authorizer
    if (
        authorizer is None
        or authorizer.is_open
        or (authorizer.super_users if known is None else authorizer.super_users & known)
    ):
        return None
    text = "no client may ever do anything on this new cluster: there is no ACL yet, and "
    if not authorizer.super_users:
        return f"{text}super.users, which may make the first one, names no principal; set it"
    listed = ", ".join(sorted(authorizer.super_users))
    return (
        f"{text}of super.users ({listed}), which may make the first one, none can log in;"
        f" {BEGIN_ANEW}, or name another"
    )


def _names(listener: ListenerConfig, scram_users: Collection[str]) -> set[str] | None:
    """Return the principals that can log in on a listener, or None if any name can."""
    security = listener.security
    if security.sasl is None:
        is_named = security.tls is not None and security.tls.client_auth != "none"
        return None if is_named else {str(ANONYMOUS)}
    if "OAUTHBEARER" in security.sasl.mechanisms:
        return None
    return {str(Principal("User", name)) for name in _users(listener, scram_users)}


def _users(listener: ListenerConfig, scram_users: Collection[str]) -> Iterator[str]:
    from log_service.security.sasl.jaas import (  # noqa: PLC0415 - nodes without logins have no use for it
        parse_jaas,
    )

    assert listener.security.sasl is not None
    for name, mechanism in listener.security.sasl.mechanisms.items():
        if name != "PLAIN":
            yield from scram_users
        elif mechanism.jaas is not None:
            yield from parse_jaas(mechanism.jaas.reveal()).plain_users()
