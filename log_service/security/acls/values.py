"""What an ACL is: a principal on a host may, or must not, perform an operation on the resources of a pattern.

Decides nothing. The numbers are Kafka's: an ACL keeps those that are not known here, because another product may have written it.
"""

from enum import IntEnum
from typing import Final, Protocol

OPERATION_ANY: Final = 1
OPERATION_ALL: Final = 2
"""The operation of an ACL that means every operation."""

WILDCARD: Final = "*"
"""The name of a literal pattern that means every resource of its type, and the host that means every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
"""The principal that means every principal, of whatever type."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of the type CLUSTER."""


class PatternType(IntEnum):
    """How the name of an ACL's resource is meant. ANY and MATCH stand in filters alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an ACL allows or denies. ANY stands in filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(Protocol):
    """One ACL. ``metadata.access.AclEntry`` is one: the index keeps the metadata's own values and no copies."""

    @property
    def resource_type(self) -> int:
        """The kind of resource."""

    @property
    def resource_name(self) -> str:
        """The name, or the beginning of the names, of its resources."""

    @property
    def pattern_type(self) -> int:
        """LITERAL or PREFIXED."""

    @property
    def principal(self) -> str:
        """Who, as ``Type:name``."""

    @property
    def host(self) -> str:
        """From where: an address as Java writes it, or ``*``."""

    @property
    def operation(self) -> int:
        """What."""

    @property
    def permission_type(self) -> int:
        """DENY or ALLOW."""


def sort_key(acl: Acl) -> tuple[int, str, str, int, int]:
    """Return what orders the ACLs of one resource name, as in Apache Kafka: the audit log names the last one that allows."""
    return (acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)


Place = tuple[int, str, int, str, str, int, int]
"""Resource type and name, pattern type, principal, host, operation, permission."""


def place(acl: Acl) -> Place:
    """Return all of an ACL but its id, which orders ACLs by their resources: two ACLs with one place say the same."""
    return (acl.resource_type, acl.resource_name, *sort_key(acl))
