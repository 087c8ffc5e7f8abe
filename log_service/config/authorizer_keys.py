"""The keys of the authorizer: its class, super users, the default without ACLs, and the audit log.

This module declares names, types, defaults and bounds. ``config.authorizer`` decides what they mean
together. ``authorizer.class.name`` names Apache Kafka's StandardAuthorizer, whose rules this node
follows. Without it every client may do everything. Any other class would be Java and is refused,
because a node that ignored it would protect nothing.
"""

import re
from typing import Final

from log_service.common.topic_names import INTERNAL_TOPICS, topic_name_fault
from log_service.config.definition import (
    ConfigKey,
    ConfigType,
    Importance,
    Trait,
    Value,
    at_least,
    no_empty_item,
    path_or_none,
    text_or_none,
    to,
)

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OF_ZOOKEEPER: Final = frozenset(
    {"kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"}
)
ANOTHER_PRINCIPAL: Final = re.compile(r",\s*(?=[A-Za-z]+:)")
"""The separator before a principal that a comma has made part of the previous one."""


def _authorizer_class(value: Value) -> str | None:
    """Accept an empty text and the supported authorizer. Return an error text for any other."""
    if value in ("", STANDARD_AUTHORIZER):
        return None
    if value in OF_ZOOKEEPER:
        return f"it kept its rules in ZooKeeper; the authorizer of KRaft is {STANDARD_AUTHORIZER}"
    return f"a class of Java cannot run here; the authorizer that is there is {STANDARD_AUTHORIZER}"


def _principals(value: Value) -> str | None:
    """Accept principals, separated by semicolons. Return an error text for anything else."""
    wrong = [user for user in split_principals(str(value)) if ":" not in user]
    if not wrong:
        return None
    return (
        f"{wrong[0]!r} is not a principal, which is Type:name, for example User:admin; separate"
        " several with semicolons"
    )


def _audit_topic(value: Value) -> str | None:
    """Accept an empty text and any topic that is not internal, or return an error text."""
    if value in INTERNAL_TOPICS:
        return "brokers keep this topic for themselves; name another"
    return topic_name_fault(str(value)) if value else None


def split_principals(text: str) -> list[str]:
    """Return the principals of ``super.users``."""
    return [user.strip() for user in text.split(";") if user.strip()]


def _super_users(text: str) -> frozenset[str]:
    return frozenset(split_principals(text))


def comma_warning(text: str) -> str | None:
    """Return a warning if a principal of ``super.users`` looks like several, else None.

    A comma alone does not show that, because names in certificates have commas, as in
    User:CN=node,OU=log.
    """
    read = next((user for user in split_principals(text) if ANOTHER_PRINCIPAL.search(user)), None)
    if read is None:
        return None
    meant = ANOTHER_PRINCIPAL.sub(";", read)
    return (
        f"super.users names {read!r} as one principal, because a comma is part of a name; where"
        f" several are meant write {meant}"
    )


AUTHORIZER_KEYS = (
    ConfigKey(
        name="authorizer.class.name",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "The authorizer. org.apache.kafka.metadata.authorizer.StandardAuthorizer decides "
            "by the ACLs in the metadata (KIP-11)."
        ),
        reason="without an authorizer every client may do everything",
        validator=_authorizer_class,
        traits=Trait.ACCESS,
    ),
    ConfigKey(
        name="super.users",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "Principals that may do everything, as Type:name, separated by semicolons. The "
            "nodes of the cluster must be among them."
        ),
        reason="no principal is above the ACLs",
        validator=_principals,
        importance=Importance.HIGH,
        traits=Trait.OWN | Trait.ACCESS,
        fields=to("AuthorizerConfig.super_users", _super_users),
    ),
    ConfigKey(
        name="allow.everyone.if.no.acl.found",
        type=ConfigType.BOOLEAN,
        default="false",
        documentation=(
            "Whether every client may use a resource that has no ACL. The first ACL of a "
            "resource ends this for the resource."
        ),
        reason="an operation that no ACL allows is denied",
        importance=Importance.HIGH,
        traits=Trait.OWN | Trait.ACCESS,
        fields=to("AuthorizerConfig.is_open"),
    ),
    ConfigKey(
        name="early.start.listeners",
        type=ConfigType.LIST,
        default=None,
        documentation=(
            "Listeners that serve requests before the ACLs are loaded. Until then only super "
            "users are allowed (KIP-801)."
        ),
        reason=(
            "the controllers' listeners, because controllers elect a leader over them; other "
            "listeners always wait"
        ),
        validator=no_empty_item,
        traits=Trait.ACCESS,
    ),
    ConfigKey(
        name="audit.log.path",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "The file for decisions of the authorizer, in the format of Kafka's "
            "kafka-authorizer.log. When it rolls, .1 is appended to the name of the previous "
            "file."
        ),
        reason=(
            "decisions go to the node's own log, if the level of kafka.authorizer.logger allows it"
        ),
        traits=Trait.OWN,
        fields=to("AuditConfig.path", path_or_none),
    ),
    ConfigKey(
        name="audit.log.max.bytes",
        type=ConfigType.LONG,
        default="16777216",
        documentation="The size at which the file of audit.log.path rolls.",
        reason="16 MiB hold some 50,000 lines",
        validator=at_least(1024),
        traits=Trait.OWN,
        fields=to("AuditConfig.max_file_bytes"),
    ),
    ConfigKey(
        name="audit.log.max.files",
        type=ConfigType.INT,
        default="10",
        documentation="The number of audit log files that are kept, including the current one.",
        reason="they take 160 MiB at most",
        validator=at_least(1),
        traits=Trait.OWN,
        fields=to("AuditConfig.max_files"),
    ),
    ConfigKey(
        name="audit.log.topic",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "The topic for decisions of the authorizer, as one JSON object per record. A "
            "missing topic is created."
        ),
        reason="decisions are not written to a topic",
        validator=_audit_topic,
        traits=Trait.OWN,
        fields=to("AuditConfig.topic", text_or_none),
    ),
    ConfigKey(
        name="audit.log.allowed.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        documentation="Whether the audit log also has allowed operations, and not only denied ones.",
        reason="allowed operations are very many",
        traits=Trait.OWN,
        fields=to("AuditConfig.is_allowed_written"),
    ),
)
