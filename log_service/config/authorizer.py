"""The authorizer of a node: what its keys (``authorizer_keys``) mean together."""

from log_service.common.errors import ConfigError
from log_service.config.authorizer_keys import split_principals
from log_service.config.server_values import ServerValues
from log_service.config.views import AuthorizerConfig


def authorizer_config(values: ServerValues, early: frozenset[str]) -> AuthorizerConfig | None:
    """Return who decides what clients may do; None where every client may do everything.

    ``early`` are the names of the listeners that start early.

    Raises:
        ConfigError: another listener shall start early.
    """
    for name in values.items("early.start.listeners"):
        if name.upper() not in early:
            text = f"early.start.listeners names {name}; only listeners of the controller start before the ACLs are known"
            raise ConfigError(f"{text}; name one of {', '.join(sorted(early)) or 'none on a node without a controller'}")
    if not values.text("authorizer.class.name"):
        return None
    return AuthorizerConfig(
        super_users=frozenset(split_principals(values.text("super.users"))),
        is_open=values.flag("allow.everyone.if.no.acl.found"),
    )
