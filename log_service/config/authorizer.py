"""The configuration of a node's authorizer, from its keys (``authorizer_keys``)."""

from log_service.common.errors import ConfigError
from log_service.config.server_values import ServerValues
from log_service.config.views import AuditConfig, AuthorizerConfig

AUDIT_KEYS = ("audit.log.path", "audit.log.topic", "audit.log.allowed.enable")
"""Each of these asks for an audit log."""


def authorizer_config(values: ServerValues, early: frozenset[str]) -> AuthorizerConfig | None:
    """Return the authorizer's configuration, or None if every client may do everything.

    ``early`` are the names of the listeners that may start before the ACLs are known.

    Raises:
        ConfigError: another listener is to start early; or an audit log is configured without an
            authorizer, whose decisions it would contain.
    """
    for name in values.items("early.start.listeners"):
        if name.upper() not in early:
            text = (
                f"early.start.listeners names {name}; only listeners of the controller start before"
                " the ACLs are known"
            )
            raise ConfigError(
                f"{text}; name one of"
                f" {', '.join(sorted(early)) or 'none on a node without a controller'}"
            )
    audit = _audit_config(values)
    if not values.text("authorizer.class.name"):
        if audit is not None:
            asked = next(key for key in AUDIT_KEYS if values.is_set(key))
            raise ConfigError(
                f"{asked} is set, but there is no authorizer whose decisions could be written; set"
                " authorizer.class.name, too"
            )
        return None
    return values.view(AuthorizerConfig, audit=audit)


def _audit_config(values: ServerValues) -> AuditConfig | None:
    """Return the configuration of the audit log, or None if no key enables one."""
    audit = values.view(AuditConfig)
    return audit if audit.path or audit.topic or audit.is_allowed_written else None
