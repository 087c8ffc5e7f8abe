"""The decision of ACLs about one operation on one resource, by one principal from one host.

It follows Apache Kafka's StandardAuthorizer. A matching DENY decides first. Then a matching ALLOW
decides. A resource without any ACL gets the default. Otherwise the operation is denied. An ALLOW of
READ, WRITE, DELETE or ALTER also allows DESCRIBE, and an ALLOW of ALTER_CONFIGS also allows
DESCRIBE_CONFIGS. A DENY implies nothing. ``User:*`` matches every principal, of any type.

Super users are not known here. The authorizer checks for them before it looks at ACLs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from log_service.common.access import AclOperation
from log_service.security.acls.index import AclIndex
from log_service.security.acls.values import (
    OPERATION_ALL,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    PatternType,
    PermissionType,
)

DENY, ALLOW = int(PermissionType.DENY), int(PermissionType.ALLOW)
IMPLYING: Final = MappingProxyType(
    {
        AclOperation.DESCRIBE: frozenset(
            {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
        ),
        AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
    }
)
"""For each operation, the other operations whose ALLOW implies it."""
NO_OPERATIONS: frozenset[AclOperation] = frozenset()


class Reason(Enum):
    """The reason of a decision. The value is its name in Apache Kafka's audit log."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"
    MATCHING_ACL = "MatchingAcl"


class Decision(NamedTuple):
    """Whether an operation is allowed, and why. ``acl`` is the deciding ACL, or None."""

    is_allowed: bool
    reason: Reason
    acl: Acl | None = None


SUPER_USER = Decision(is_allowed=True, reason=Reason.SUPER_USER)
DEFAULT_ALLOW = Decision(is_allowed=True, reason=Reason.DEFAULT_ALLOW)
DEFAULT_DENY = Decision(is_allowed=False, reason=Reason.DEFAULT_DENY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A principal as ``Type:name``, and its host as Java writes addresses, as in ACLs."""

    principal: str
    host: str

    def is_meant_by(self, acl: Acl) -> bool:
        """Whether an ACL applies to this principal on this host."""
        return acl.principal in (self.principal, WILDCARD_PRINCIPAL) and acl.host in (
            self.host,
            WILDCARD,
        )


def decide(
    index: AclIndex, who: Who, operation: int, resource_type: int, name: str, *, is_open: bool
) -> Decision:
    """Return the decision on an operation. ``is_open`` allows it if the resource has no ACL."""
    return decide_by(index.about(resource_type, name), who, operation, is_open=is_open)


def decide_by(acls: Iterable[Acl], who: Who, operation: int, *, is_open: bool) -> Decision:
    """Return the decision of the ACLs of one resource, given in their order."""
    implying = IMPLYING.get(operation, NO_OPERATIONS)  # type: ignore[call-overload]  # an operation is an int, and so are the keys
    allowing: Acl | None = None
    is_named = False
    for acl in acls:
        is_named = True
        if not who.is_meant_by(acl):
            continue
        if acl.permission_type == DENY:
            if acl.operation in (operation, OPERATION_ALL):
                return Decision(is_allowed=False, reason=Reason.MATCHING_ACL, acl=acl)
        elif acl.permission_type == ALLOW and (
            acl.operation in (operation, OPERATION_ALL) or acl.operation in implying
        ):
            allowing = acl
    if allowing is not None:
        return Decision(is_allowed=True, reason=Reason.MATCHING_ACL, acl=allowing)
    return DEFAULT_ALLOW if is_open and not is_named else DEFAULT_DENY


def is_allowed_somewhere(index: AclIndex, who: Who, operation: int, resource_type: int) -> bool:
    """Whether ACLs allow the operation on some resource of a type (KIP-679).

    This is ``authorizeByResourceType``. The resource need not exist. A DENY on the literal ``*``
    denies, and otherwise an ALLOW on it allows. Failing both, an allowed name counts unless that
    name or a prefix of it is denied. An allowed prefix counts unless that prefix or a shorter one
    is denied. Only ACLs for the operation itself or for ALL are considered.
    """
    found = [
        acl
        for principal in dict.fromkeys((who.principal, WILDCARD_PRINCIPAL))
        for acl in index.of_principal(resource_type, principal)
        if acl.host in (who.host, WILDCARD) and acl.operation in (operation, OPERATION_ALL)
    ]
    denied = {(acl.pattern_type, acl.resource_name) for acl in found if acl.permission_type == DENY}
    allowed = {
        (acl.pattern_type, acl.resource_name) for acl in found if acl.permission_type == ALLOW
    }
    everything = (PatternType.LITERAL, WILDCARD)
    if everything in denied or everything in allowed:
        return everything not in denied
    return any(not _is_covered(pattern_type, name, denied) for pattern_type, name in allowed)


def _is_covered(pattern_type: int, name: str, denied: set[tuple[int, str]]) -> bool:
    if pattern_type == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any(
        (PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)
    )
