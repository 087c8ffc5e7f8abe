"""The configuration of a node's authorizer, from its keys (``authorizer_keys``)."""

from pathlib import Path

from log_service.common.errors import ConfigError
from log_service.config.authorizer_keys import split_principals
from log_service.config.server_values import ServerValues
from log_service.config.views import AuditConfig, AuthorizerConfig

AUDIT_KEYS = ("audit.log.path", "audit.log.topic", "audit.log.allowed.enable")
"""Each of these asks for an audit log."""


def authorizer_config(values: ServerValues, early: frozenset[str]) -> AuthorizerConfig | None:
    """Return the authorizer's configuration, None if every client may do everything.

    ``early`` are the names of the listeners that start early.

    Raises:
        ConfigError: another listener shall start early; there is an audit log, and no authorizer
            whose decisions it could have.
    """
    for name in values.items("early.start.listeners"):
        if name.upper() not in early:
            text = f"early.start.listeners names {name}; only listeners of the controller start before the ACLs are known"
            raise ConfigError(f"{text}; name one of {', '.join(sorted(early)) or 'none on a node without a controller'}")
    audit = _audit_config(values)
    if not values.text("authorizer.class.name"):
        if audit is not None:
            asked = next(key for key in AUDIT_KEYS if values.is_set(key))
            raise ConfigError(
                f"{asked} is set, but there is no authorizer whose decisions could be written; set authorizer.class.name, too"
            )
        return None
    return AuthorizerConfig(
        super_users=frozenset(split_principals(values.text("super.users"))),
        is_open=values.flag("allow.everyone.if.no.acl.found"),
        audit=audit,
    )


def _audit_config(values: ServerValues) -> AuditConfig | None:
    """Return the configuration of the audit log, None if no key asks for one."""
    path, topic = values.optional_text("audit.log.path"), values.optional_text("audit.log.topic")
    is_allowed_written = values.flag("audit.log.allowed.enable")
    if path is None and topic is None and not is_allowed_written:
        return None
    return AuditConfig(
        path=None if path is None else Path(path),
        max_file_bytes=values.number("audit.log.max.bytes"),
        max_files=values.number("audit.log.max.files"),
        topic=topic,
        is_allowed_written=is_allowed_written,
    )
