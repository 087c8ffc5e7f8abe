"""Lines and records of the audit log, in the format of Apache Kafka's StandardAuthorizer.

This module decides how a decision is written, not when. Names come from clients. A control
character in a name, such as a line feed, is escaped so that no client can forge a line.
"""

import json
from dataclasses import dataclass
from typing import Final

from log_service.common.access import AclOperation, AclResource, Principal
from log_service.common.log_lines import escaped
from log_service.security.acls.decision import Decision
from log_service.security.acls.values import Acl, PatternType, PermissionType

LOGGER_NAME: Final = "kafka.authorizer.logger"
TYPE_NAMES: Final = {each: each.name.title().replace("_", "") for each in AclResource}
"""The resource types in Pascal case, such as ``TransactionalId``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One decision, to be written later.

    ``level`` is the log level of the line. ``count`` is how often the request named the resource.
    """

    wall_ms: int
    level: str
    principal: Principal
    decision: Decision
    operation: AclOperation
    host: str
    resource: AclResource
    name: str
    api: str
    count: int

    @property
    def size(self) -> int:
        """The approximate number of characters in the entry."""
        return len(self.name) + len(self.principal.name) + len(self.host)

    def line(self) -> str:
        """Return the line of the audit log."""
        return audit_line(
            self.principal,
            self.decision,
            self.operation,
            self.host,
            self.resource,
            self.name,
            self.api,
            self.count,
        )

    def to_json(self, node_id: int) -> bytes:
        """Return the decision as a JSON object in UTF-8, for the audit topic."""
        fields = {
            "time_ms": self.wall_ms,
            "node_id": node_id,
            "principal": str(self.principal),
            "host": self.host,
            "operation": self.operation.name,
            "resource_type": self.resource.name,
            "resource_name": self.name,
            "api": self.api,
            "count": self.count,
            "allowed": self.decision.is_allowed,
            "rule": _rule(self.decision),
        }
        return json.dumps(fields, separators=(",", ":")).encode()


def audit_line(  # noqa: PLR0917 - the parts of a line, in its order
    principal: Principal,
    decision: Decision,
    operation: AclOperation,
    host: str,
    resource: AclResource,
    name: str,
    api: str,
    count: int,
) -> str:
    """Return the line for a decision. ``count`` is how often the request named the resource."""
    verdict = "Allowed" if decision.is_allowed else "Denied"
    return (
        f"Principal = {escaped(str(principal))} is {verdict} operation = {operation.name} from host"
        f" = {escaped(host)} on resource = {TYPE_NAMES[resource]}:LITERAL:{escaped(name)} for"
        f" request = {api} with resourceRefCount = {count} based on rule {_rule(decision)}"
    )


def _rule(decision: Decision) -> str:
    return (
        decision.reason.value
        if decision.acl is None
        else f"MatchingAcl(acl={acl_text(decision.acl)})"
    )


def acl_text(acl: Acl) -> str:
    """Return an ACL as Apache Kafka's StandardAcl writes it."""
    return (
        f"StandardAcl[resourceType={_name(AclResource, acl.resource_type)},"
        f" resourceName={escaped(acl.resource_name)},"
        f" patternType={_name(PatternType, acl.pattern_type)}, principal={escaped(acl.principal)},"
        f" host={escaped(acl.host)}, operation={_operation_name(acl.operation)},"
        f" permissionType={_name(PermissionType, acl.permission_type)}]"
    )


def _operation_name(number: int) -> str:
    return "ALL" if number == 2 else _name(AclOperation, number)


def _name(
    names: type[AclResource] | type[AclOperation] | type[PatternType] | type[PermissionType],
    number: int,
) -> str:
    try:
        return names(number).name
    except ValueError:
        return str(number)
