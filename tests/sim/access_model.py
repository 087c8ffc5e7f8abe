"""Decides by the ACLs of one moment, and looks at each ACL.

Nothing is indexed and nothing is remembered.

This is what simulated clusters are held to. It shares no code with the product's authorizer but the
names of operations and resources. The rules are those of Apache Kafka's StandardAuthorizer: super
users may do everything; a denial that applies decides; else an ACL that allows; else nothing is
allowed. READ, WRITE, DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode

LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL = 2
"""The operation that is every operation."""
IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
CLUSTER_NAME = "kafka-cluster"


class Rule(NamedTuple):
    """One ACL."""

    principal: str
    host: str
    operation: int
    permission: int
    resource: int
    pattern: int
    name: str


class Asker(NamedTuple):
    """The caller's names, as ACLs have them, and its address."""

    principal: str
    host: str


class Need(NamedTuple):
    """One operation on one resource."""

    operation: AclOperation
    resource: AclResource
    name: str

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource.name} {self.name}"


class Step(NamedTuple):
    """One of several needs is enough; where none is met, this is the code that Kafka responds with."""

    needs: tuple[Need, ...]
    refusal: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessState:
    """One node's knowledge at one moment.

    It has the ACLs, the password of each user by its number, and the wall time at which each token
    expires.
    """

    rules: tuple[Rule, ...] = ()
    passwords: Mapping[str, int] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    super_users: frozenset[str] = frozenset()

    def allows(self, asker: Asker, need: Need) -> bool:
        """Whether an operation is allowed."""
        if asker.principal in self.super_users:
            return True
        mine = [rule for rule in self.rules if _is_about(rule, need) and _means(rule, asker)]
        wanted = {int(need.operation), ALL}
        if any(rule.permission == DENY and rule.operation in wanted for rule in mine):
            return False
        wanted |= {int(each) for each in IMPLYING.get(need.operation, ())}
        return any(rule.permission == ALLOW and rule.operation in wanted for rule in mine)

    def verdict(self, asker: Asker, steps: Iterable[Step]) -> ErrorCode:
        """Return the refusal of the first step that is not met; NONE where all are."""
        for step in steps:
            if not any(self.allows(asker, need) for need in step.needs):
                return step.refusal
        return ErrorCode.NONE

    def bits(
        self, asker: Asker, resource: AclResource, name: str, operations: Iterable[AclOperation]
    ) -> int:
        """Return which of the operations are allowed, as bits (KIP-430)."""
        return sum(
            1 << operation
            for operation in operations
            if self.allows(asker, Need(operation, resource, name))
        )


def _is_about(rule: Rule, need: Need) -> bool:
    if rule.resource != need.resource:
        return False
    if rule.pattern == PREFIXED:
        return need.name.startswith(rule.name)
    return rule.name in (need.name, "*")


def _means(rule: Rule, asker: Asker) -> bool:
    return rule.principal in (asker.principal, "User:*") and rule.host in (asker.host, "*")
