"""The component of a mart, the YAML form of ``mart``.

The statement is DuckDB's SQL over tables of the lake and other marts.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.components.attributes import Declaration, Made, example, read_sql
from orchestration.marts.mart import mart


def _example(name: str) -> Mapping[str, Any]:
    sql = "SELECT target, rule, count(*) AS rejected FROM dead_letters GROUP BY ALL"
    return {"name": name, "tables": ["dead_letters"], "sql": sql}


@dg.scaffold_with(example(_example))
class MartComponent(Declaration, dg.Resolvable, dg.Model):
    """A mart: one SELECT in DuckDB's SQL, built into a file of its own.

    It is built whenever a table or mart that it reads changes.
    """

    name: str = Field(description="The mart's name")
    sql: str | None = Field(default=None, description="The statement")
    sql_file: str | None = Field(
        default=None, description="The name of a file beside this one that holds the statement"
    )
    tables: list[str] = Field(default=[], description="The tables of the lake that it reads")
    marts: list[str] = Field(default=[], description="The other marts that it reads")
    description: str = Field(default="", description="What the mart answers")
    is_automated: bool = Field(default=True, description="Whether it is built by itself")
    group_name: str = Field(default="marts", description="Dagster's group")
    tags: dict[str, str] = Field(default={}, description="Dagster's tags")
    owners: list[str] = Field(default=[], description="Dagster's owners")

    def declare(self, context: dg.ComponentLoadContext) -> Made:
        """Return the mart's asset."""
        if not self.tables and not self.marts:
            raise ValueError("a mart reads something: name its tables or marts")
        return mart(
            self.name,
            sql=read_sql(context, self.sql, self.sql_file).strip().rstrip(";"),
            tables=self.tables,
            marts=self.marts,
            description=self.description,
            is_automated=self.is_automated,
            group_name=self.group_name,
            tags=self.tags or None,
            owners=self.owners or None,
        )
