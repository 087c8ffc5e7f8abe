"""The Dagster resources of the platform's assets.

Each field of a resource is optional. A missing one is read from ``orchestration.settings`` when a
run or a tick first uses the resource.

- ``log_service``: the cluster. ``spark``: Spark sessions.
- ``lake``: the Delta tables. ``warehouse``: the marts. ``database``: the SQL database.
- ``declared``: refuses a run whose config names another cluster, lake or database than the project.
"""

from typing import Any

from orchestration.resources.database import DatabaseResource
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.resources.warehouse import WarehouseResource

__all__ = [
    "DatabaseResource",
    "LakeResource",
    "LogServiceResource",
    "SparkResource",
    "WarehouseResource",
    "default_resources",
]


def default_resources() -> dict[str, Any]:
    """Return the resources by the names that the platform's assets request."""
    return {
        "log_service": LogServiceResource(),
        "spark": SparkResource(),
        "lake": LakeResource(),
        "warehouse": WarehouseResource(),
        "database": DatabaseResource(),
    }
