"""Filters of DescribeAcls and DeleteAcls, and the ACLs that match them (KIP-290).

The rules are Kafka's. A field that is null or ANY matches every ACL. The pattern type MATCH selects
the ACLs that apply to a resource of the name: literal ones, ACLs of the literal ``*``, and
prefixes of the name. Principals and hosts are compared as text, so a filter for ``User:*`` finds
only that principal. An unknown number matches nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from log_service.security.acls.index import AclIndex, Known
from log_service.security.acls.values import (
    OPERATION_ANY,
    WILDCARD,
    Acl,
    PatternType,
    PermissionType,
)

RESOURCE_ANY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """The fields that an ACL must have. None matches any value."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def find(self, index: AclIndex) -> Iterator[Acl]:
        """Yield the ACLs that match.

        Without a resource type, or without a name and a principal, all are scanned.

        A filter that names the pattern type and further fields reads only a few ACLs of the name.
        Tools that delete an ACL name all its fields, and one name may have thousands of ACLs.
        """
        return filter(self.matches, self._candidates(index))

    def _candidates(self, index: AclIndex) -> Iterable[Acl]:
        if self.resource_type == RESOURCE_ANY:
            return index.all()
        if self.resource_name is not None:
            if self.pattern_type == PatternType.MATCH:
                return index.about(self.resource_type, self.resource_name)
            if self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
                return index.beginning(
                    self.resource_type, self.pattern_type, self.resource_name, self._known()
                )
            literal = index.named(self.resource_type, PatternType.LITERAL, self.resource_name)
            return literal + index.named(
                self.resource_type, PatternType.PREFIXED, self.resource_name
            )
        return (
            index.all()
            if self.principal is None
            else index.of_principal(self.resource_type, self.principal)
        )

    def _known(self) -> Known:
        """Return the leading sort-key fields that the filter sets, up to the first unset field.

        The order is principal, host, operation, permission.
        """
        if self.principal is None:
            return ()
        if self.host is None:
            return (self.principal,)
        if self.operation == OPERATION_ANY:
            return (self.principal, self.host)
        if self.permission_type == PermissionType.ANY:
            return (self.principal, self.host, self.operation)
        return (self.principal, self.host, self.operation, self.permission_type)

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL matches."""
        return (
            self.resource_type in (RESOURCE_ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (OPERATION_ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
            and self._is_pattern_meant(acl)
        )

    def _is_pattern_meant(self, acl: Acl) -> bool:
        if (
            self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            and self.pattern_type != acl.pattern_type
        ):
            return False
        if self.pattern_type not in (
            PatternType.ANY,
            PatternType.MATCH,
            PatternType.LITERAL,
            PatternType.PREFIXED,
        ):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return acl.pattern_type == PatternType.PREFIXED and self.resource_name.startswith(
            acl.resource_name
        )
