"""ACLs are written as tests need them.

A walk over a list of them decides as the documentation of Apache Kafka says.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from log_service.common.access import AclOperation, AclResource


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """An ACL that allows User:ann to read a topic, unless it says something else."""

    resource_type: int = int(AclResource.TOPIC)
    resource_name: str = "orders"
    pattern_type: int = 3
    principal: str = "User:ann"
    host: str = "*"
    operation: int = int(AclOperation.READ)
    permission_type: int = 3


IMPLIED_BY = {8: {3, 4, 6, 7}, 10: {11}}
"""DESCRIBE is allowed with READ, WRITE, DELETE and ALTER, DESCRIBE_CONFIGS with ALTER_CONFIGS."""


def walk(  # noqa: PLR0917 - the question
    acls: Iterable[Acl],
    principal: str,
    host: str,
    operation: int,
    resource_type: int,
    name: str,
    *,
    is_open: bool,
) -> bool:
    """Decide by looking at every ACL."""
    about = [acl for acl in acls if acl.resource_type == resource_type and _is_about(acl, name)]
    meant = [
        acl for acl in about if acl.principal in (principal, "User:*") and acl.host in (host, "*")
    ]
    if any(acl.permission_type == 2 and acl.operation in (operation, 2) for acl in meant):
        return False
    if any(
        acl.permission_type == 3 and acl.operation in {operation, 2, *IMPLIED_BY.get(operation, ())}
        for acl in meant
    ):
        return True
    return is_open and not about


def _is_about(acl: Acl, name: str) -> bool:
    if acl.pattern_type == 4:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")
