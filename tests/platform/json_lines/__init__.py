"""A sixth kind of table: the rows of a topic's transform in a folder of JSON lines, exactly once.

- ``run``, ``replay``: a run, and a replay, without Dagster.
- ``assets``: the decorator, and the asset. ``kind``: its place among kinds, and its replay job.

Nothing in the product knows it. One import of ``json_lines`` is all that a project needs.
"""

from tests.platform.json_lines.assets import json_lines

__all__ = ["json_lines"]
