"""Components: topics, transforms in SQL and marts declared in YAML, for ``dg`` and every project.

A component translates its attributes to the declarations of Python (``TopicSpec``, ``spark_table``,
``mart``) and does nothing else, so it makes the same asset. ``topic``, ``sql_transform`` and
``mart`` hold one component each. ``attributes`` holds their common parts. ``loading`` reads the
YAML files of a project and reports mistakes by file and line. ``dg list components`` finds them by
the entry point ``dagster_dg_cli.registry_modules``.
"""

from orchestration.components.mart import MartComponent
from orchestration.components.sql_transform import SqlTransformComponent
from orchestration.components.topic import TopicComponent

__all__ = ["MartComponent", "SqlTransformComponent", "TopicComponent"]
