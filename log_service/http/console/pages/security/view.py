"""Users, ACLs and quotas as their pages show them.

The ACLs are a matrix for each principal: a row is a pattern of resources, a column is an operation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from log_service.client.admin.access import AclBinding
from log_service.client.admin.values import QuotaEntity

MAX_SHOWN_ACLS = 2_000
OPERATION_ORDER = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "describe_configs",
    "alter_configs",
    "cluster_action",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
)
RESOURCES = ("topic", "group", "cluster", "transactional_id", "delegation_token", "user")
PATTERNS = ("literal", "prefixed")
PERMISSIONS = ("allow", "deny")
QUOTA_KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """One user, with the SCRAM mechanisms of its passwords and their iterations."""

    name: str
    mechanisms: tuple[tuple[str, int], ...]


def user_rows(users: Mapping[str, Mapping[str, int]]) -> tuple[UserRow, ...]:
    """Return the users by name."""
    return tuple(
        UserRow(name=name, mechanisms=tuple(sorted(users[name].items()))) for name in sorted(users)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One operation on a pattern of resources. ``binding`` is None if no ACL is about it."""

    operation: str
    binding: AclBinding | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One row: a pattern of resources, with the ACLs of a principal from one host.

    Either all of them allow, or all of them deny.
    """

    resource_type: str
    name: str
    pattern_type: str
    host: str
    permission: str
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All ACLs of one principal. ``operations`` are the columns."""

    principal: str
    operations: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


def matrices(bindings: Iterable[AclBinding], *, search: str = "") -> tuple[Matrix, ...]:
    """Return a matrix for each principal that has ACLs.

    With a ``search``, only ACLs count whose principal or resource name contains the text.
    """
    needle = search.casefold()
    by_principal: dict[str, list[AclBinding]] = {}
    for each in bindings:
        if needle in each.principal.casefold() or needle in each.name.casefold():
            by_principal.setdefault(each.principal, []).append(each)
    return tuple(_matrix(name, by_principal[name]) for name in sorted(by_principal))


def _matrix(principal: str, bindings: list[AclBinding]) -> Matrix:
    present = {each.operation for each in bindings}
    operations = tuple(each for each in OPERATION_ORDER if each in present)
    operations += tuple(sorted(present.difference(OPERATION_ORDER)))
    by_pattern: dict[tuple[str, str, str, str, str], dict[str, AclBinding]] = {}
    for each in bindings:
        key = (each.resource_type, each.name, each.pattern_type, each.host, each.permission)
        by_pattern.setdefault(key, {})[each.operation] = each
    rows = [
        MatrixRow(
            resource_type=key[0],
            name=key[1],
            pattern_type=key[2],
            host=key[3],
            permission=key[4],
            cells=tuple(
                MatrixCell(operation=operation, binding=by_pattern[key].get(operation))
                for operation in operations
            ),
        )
        for key in sorted(by_pattern)
    ]
    return Matrix(principal=principal, operations=operations, rows=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """The quotas of one entity."""

    entity: QuotaEntity
    label: str
    values: tuple[tuple[str, float], ...]


def quota_rows(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> tuple[QuotaRow, ...]:
    """Return the quotas by entity."""
    rows = [
        QuotaRow(entity=entity, label=str(entity), values=tuple(sorted(values.items())))
        for entity, values in quotas.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.label))
