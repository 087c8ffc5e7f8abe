"""The fields of an ACL, and Kafka's numbers for them.

An ACL says that a principal on a host may, or must not, perform an operation on the resources of a
pattern. This module decides nothing. An ACL keeps numbers that are unknown here, because another
product may have written it.
"""

from enum import IntEnum
from typing import Final, Protocol

OPERATION_ANY: Final = 1
OPERATION_ALL: Final = 2
"""The operation of an ACL that applies to every operation."""

WILDCARD: Final = "*"
"""The literal name that matches every resource of its type, and the host that matches every host.
"""
WILDCARD_PRINCIPAL: Final = "User:*"
"""The principal that matches every principal, of any type."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class PatternType(IntEnum):
    """How an ACL's resource name is matched. ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an ACL allows or denies. ANY occurs only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(Protocol):
    """One ACL. ``metadata.access.AclEntry`` implements it, so the index needs no copies."""

    @property
    def resource_type(self) -> int:
        """The resource type."""

    @property
    def resource_name(self) -> str:
        """The resource name, or the prefix of the names."""

    @property
    def pattern_type(self) -> int:
        """LITERAL or PREFIXED."""

    @property
    def principal(self) -> str:
        """The principal as ``Type:name``."""

    @property
    def host(self) -> str:
        """The client's address as Java writes it, or ``*``."""

    @property
    def operation(self) -> int:
        """The number of the operation."""

    @property
    def permission_type(self) -> int:
        """DENY or ALLOW."""


def sort_key(acl: Acl) -> tuple[int, str, str, int, int]:
    """Return the sort key of an ACL among those of one resource name, as in Apache Kafka.

    The order matters because the audit log names the last ACL that allows.
    """
    return (acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)


Place = tuple[int, str, int, str, str, int, int]
"""Resource type and name, pattern type, principal, host, operation, permission."""


def place(acl: Acl) -> Place:
    """Return all fields of an ACL except its id, as a sort key.

    Two ACLs with equal results are equivalent.
    """
    return (acl.resource_type, acl.resource_name, *sort_key(acl))
