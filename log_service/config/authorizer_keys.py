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
    """Accept an empty text and the supported authorizer."""
    if value in ("", STANDARD_AUTHORIZER):
        return None
    if value in OF_ZOOKEEPER:
        return f"it kept its rules in ZooKeeper; the authorizer of KRaft is {STANDARD_AUTHORIZER}"
    return f"a class of Java cannot run here; the authorizer that is there is {STANDARD_AUTHORIZER}"


def _principals(value: Value) -> str | None:
    """Accept principals, separated by semicolons."""
    wrong = [user for user in split_principals(str(value)) if ":" not in user]
    if not wrong:
        return None
    return (
        f"{wrong[0]!r} is not a principal, which is Type:name, for example User:admin; separate"
        " several with semicolons"
    )


def _audit_topic(value: Value) -> str | None:
    """Accept an empty text and any topic that is not internal."""
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

    A comma alone is no sign, because names in certificates have commas, as in User:CN=node,OU=log.
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
            f"Who decides what clients may do: {STANDARD_AUTHORIZER}, by ACLs in the metadata"
            " (KIP-11)."
        ),
        reason="every client may do everything",
        validator=_authorizer_class,
        traits=Trait.ACCESS,
    ),
    ConfigKey(
        name="super.users",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "Principals that may do everything: Type:name, with semicolons between. Nodes of the"
            " cluster must be among them."
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
            "Whether everyone may do what no ACL is about. The first ACL about a resource ends that"
            " for this resource."
        ),
        reason="what is not allowed is denied",
        importance=Importance.HIGH,
        traits=Trait.OWN | Trait.ACCESS,
        fields=to("AuthorizerConfig.is_open"),
    ),
    ConfigKey(
        name="early.start.listeners",
        type=ConfigType.LIST,
        default=None,
        documentation=(
            "Listeners that take requests before the ACLs are known; super users alone are let in"
            " until then (KIP-801)."
        ),
        reason=(
            "those of the controller, because controllers elect a leader over them; the others"
            " always wait"
        ),
        validator=no_empty_item,
        traits=Trait.ACCESS,
    ),
    ConfigKey(
        name="audit.log.path",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "The file that decisions of the authorizer are written into, in the format of Kafka's"
            " kafka-authorizer.log. It rolls: the file before has .1 behind its name."
        ),
        reason=(
            "they go to the node's own log, where the level of kafka.authorizer.logger lets them"
            " through"
        ),
        traits=Trait.OWN,
        fields=to("AuditConfig.path", path_or_none),
    ),
    ConfigKey(
        name="audit.log.max.bytes",
        type=ConfigType.LONG,
        default="16777216",
        documentation="The size at which the file of audit.log.path rolls.",
        reason="16 MiB are some 50,000 lines",
        validator=at_least(1024),
        traits=Trait.OWN,
        fields=to("AuditConfig.max_file_bytes"),
    ),
    ConfigKey(
        name="audit.log.max.files",
        type=ConfigType.INT,
        default="10",
        documentation="How many files audit.log.path keeps, the newest among them.",
        reason="160 MiB in all",
        validator=at_least(1),
        traits=Trait.OWN,
        fields=to("AuditConfig.max_files"),
    ),
    ConfigKey(
        name="audit.log.topic",
        type=ConfigType.STRING,
        default="",
        documentation=(
            "The topic that decisions of the authorizer are written into, one JSON object a record."
            " It is created where it is missing."
        ),
        reason="none",
        validator=_audit_topic,
        traits=Trait.OWN,
        fields=to("AuditConfig.topic", text_or_none),
    ),
    ConfigKey(
        name="audit.log.allowed.enable",
        type=ConfigType.BOOLEAN,
        default="false",
        documentation=(
            "Whether the audit log has the operations that are allowed, too, and not only those"
            " that are denied."
        ),
        reason="there are many of them",
        traits=Trait.OWN,
        fields=to("AuditConfig.is_allowed_written"),
    ),
)
