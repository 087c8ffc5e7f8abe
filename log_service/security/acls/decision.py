"""What ACLs say about one operation on one resource, by one principal from one host.

Decides as Apache Kafka's StandardAuthorizer: a DENY that applies decides; else an ALLOW that applies; else, where no ACL at all is about
the resource, the default; else the operation is denied. READ, WRITE, DELETE and ALTER that are allowed allow DESCRIBE too, and
ALTER_CONFIGS allows DESCRIBE_CONFIGS; a denial implies nothing. ``User:*`` is every principal, of whatever type.

Knows no super users: they are decided on before ACLs are looked at.
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
        AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
        AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
    }
)
"""The operations that allow another one, too, when they are allowed."""
NO_OPERATIONS: frozenset[AclOperation] = frozenset()


class Reason(Enum):
    """Why a decision is what it is, by the names in Apache Kafka's audit log."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"
    MATCHING_ACL = "MatchingAcl"


class Decision(NamedTuple):
    """Whether an operation is allowed, and why. ``acl`` is the one that decided, if one did."""

    is_allowed: bool
    reason: Reason
    acl: Acl | None = None


SUPER_USER = Decision(is_allowed=True, reason=Reason.SUPER_USER)
DEFAULT_ALLOW = Decision(is_allowed=True, reason=Reason.DEFAULT_ALLOW)
DEFAULT_DENY = Decision(is_allowed=False, reason=Reason.DEFAULT_DENY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A principal as ACLs name it, and its host as Java writes it."""

    principal: str
    host: str

    def is_meant_by(self, acl: Acl) -> bool:
        """Whether an ACL is about this principal on this host."""
        return acl.principal in (self.principal, WILDCARD_PRINCIPAL) and acl.host in (self.host, WILDCARD)


def decide(index: AclIndex, who: Who, operation: int, resource_type: int, name: str, *, is_open: bool) -> Decision:
    """Return the decision on an operation. ``is_open`` allows it where no ACL is about the resource."""
    return decide_by(index.about(resource_type, name), who, operation, is_open=is_open)


def decide_by(acls: Iterable[Acl], who: Who, operation: int, *, is_open: bool) -> Decision:
    """Return the decision that the ACLs of one resource make, in their order."""
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
        elif acl.permission_type == ALLOW and (acl.operation in (operation, OPERATION_ALL) or acl.operation in implying):
            allowing = acl
    if allowing is not None:
        return Decision(is_allowed=True, reason=Reason.MATCHING_ACL, acl=allowing)
    return DEFAULT_ALLOW if is_open and not is_named else DEFAULT_DENY


def is_allowed_somewhere(index: AclIndex, who: Who, operation: int, resource_type: int) -> bool:
    """Whether some resource of a type may exist on which the operation is allowed (``authorizeByResourceType``, KIP-679).

    One literal ``*`` that denies ends it; one that allows decides. Else a name that is allowed must not be denied, by itself or by a
    prefix, and a prefix that is allowed must not be denied by itself or by a shorter one. The operation is the ACL's own, or ALL.
    """
    found = [
        acl
        for principal in dict.fromkeys((who.principal, WILDCARD_PRINCIPAL))
        for acl in index.of_principal(resource_type, principal)
        if acl.host in (who.host, WILDCARD) and acl.operation in (operation, OPERATION_ALL)
    ]
    denied = {(acl.pattern_type, acl.resource_name) for acl in found if acl.permission_type == DENY}
    allowed = {(acl.pattern_type, acl.resource_name) for acl in found if acl.permission_type == ALLOW}
    everything = (PatternType.LITERAL, WILDCARD)
    if everything in denied or everything in allowed:
        return everything not in denied
    return any(not _is_covered(pattern_type, name, denied) for pattern_type, name in allowed)


def _is_covered(pattern_type: int, name: str, denied: set[tuple[int, str]]) -> bool:
    if pattern_type == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
