"""The ACLs of the platform and of the registry in a secured installation.

A command creates them before these components start:

    python -m log_service.supervisor.grants SERVERS OPERATOR_FILE [platform|registry]

- topics: read, write, create, and change configs and partitions, because declarations of topics
  need it; never delete.
- groups and transactional ids whose names begin with ``tidelog``: those of tables, sinks and
  sensors. All groups: describe, for their lag.
- the cluster: describe. Never alter, because alter allows to change ACLs, and so to get every other
  right.

The registry reads and writes its own topic, and describes the cluster for the ACLs of others.
"""

import sys
from collections.abc import Sequence

from log_service.client.admin.access import CLUSTER_NAME, AclBinding
from log_service.client.blocking.admin import BlockingAdmin
from log_service.client.settings_files import settings_from_file
from log_service.supervisor.protection import PLATFORM, REGISTRY

PREFIX = "tidelog"
GRANTS: Sequence[tuple[str, str, str, Sequence[str]]] = (
    (
        "topic",
        "*",
        "literal",
        ("read", "write", "create", "alter", "describe_configs", "alter_configs"),
    ),
    ("group", PREFIX, "prefixed", ("read",)),
    ("group", "*", "literal", ("describe",)),
    ("transactional_id", PREFIX, "prefixed", ("write", "describe")),
    ("cluster", CLUSTER_NAME, "literal", ("describe", "describe_configs")),
)
REGISTRY_GRANTS: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("topic", "_schemas", "literal", ("read", "write", "create", "describe_configs")),
    ("group", "schema-registry", "literal", ("read",)),
    ("transactional_id", f"{PREFIX}-schema-registry-", "prefixed", ("write", "describe")),
    ("cluster", CLUSTER_NAME, "literal", ("describe",)),
)
TIMEOUT_MS = 30_000


GRANTS_OF = {PLATFORM: GRANTS, REGISTRY: REGISTRY_GRANTS}


def grants(user: str = PLATFORM) -> list[AclBinding]:
    """Return the ACLs of the platform's user, or of the registry's."""
    return [
        AclBinding(
            resource_type=kind,
            name=name,
            pattern_type=pattern,
            principal=f"User:{user}",
            operation=operation,
        )
        for kind, name, pattern, operations in GRANTS_OF[user]
        for operation in operations
    ]


def main(arguments: Sequence[str]) -> None:
    """Create the ACLs of the users in ``arguments``. Existing ACLs stay."""
    servers, file, *users = arguments
    with BlockingAdmin(
        servers, **settings_from_file(file), default_api_timeout_ms=TIMEOUT_MS
    ) as admin:
        for user in users or [PLATFORM]:
            admin.create_acls(grants(user))


if __name__ == "__main__":
    main(sys.argv[1:])
