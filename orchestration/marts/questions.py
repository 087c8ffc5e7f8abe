"""Checks the SQL of a project's marts when the project loads: the relations and columns it names.

DuckDB plans the SQL over empty relations with the columns that are known (``result_columns`` of
tables, the results of other marts, dead letters). Their types are not known, so that type errors
are only found by a run. Columns are not checked if a relation's columns are known only after a run,
or if values decide the columns (PIVOT, unnest). Reads no lake and no file.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa

from log_service.config.definition import closest_name
from orchestration.dead_letters.table import DEAD_LETTERS, ENVELOPE
from orchestration.lake.tables import LAKE_PREFIX
from orchestration.quality.conditions import parsed
from orchestration.topics.inputs import MART_PREFIX
from orchestration.transforms.dagster_views.address import SINK_METADATA
from orchestration.transforms.dagster_views.assets import COLUMNS_METADATA
from orchestration.warehouse.store import CONNECTION_SETTINGS, WORD

SQL_METADATA = "tidelog/sql"
"""The label of a mart's SQL in the metadata of its asset."""
OWN_RELATIONS = ("duckdb_", "pg_", "sqlite_")
"""The beginnings of names of DuckDB's own relations."""
NOT_THERE = re.compile(
    r'(?:Referenced column|Column) "(?P<name>[^"]+)" (?:not found|in \w+ list not found|does not'
    r' exist)|named "(?P<of>[^"]+)"'
)
"""DuckDB's messages for a missing column."""
UNFOLDING = re.compile(r"\bunnest\b", re.IGNORECASE)
"""A function whose columns depend on the type of its argument, which is not known."""
SEALED = {
    **CONNECTION_SETTINGS,
    "enable_external_access": "false",
    "python_enable_replacements": "false",
}


def validate_questions(
    assets: Iterable[dg.AssetsDefinition], known: Collection[dg.AssetKey]
) -> None:
    """Refuse marts whose SQL names a relation or a column that does not exist.

    ``known`` are the keys of the project's assets.

    :raises ValueError: names the mart, the relation or column, and what was meant.
    """
    found = tuple(assets)
    relations = Relations(
        names=frozenset({*_relation_names(found, known), DEAD_LETTERS}),
        columns={**_declared_columns(found), DEAD_LETTERS: tuple(ENVELOPE.names)},
        questions={
            key.path[-1]: str(values[SQL_METADATA])
            for key, values in _metadata(found)
            if SQL_METADATA in values
        },
    )
    for mart in sorted(relations.questions):
        relations.validate(mart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The relations that the project's SQL may name, with their columns if they are known."""

    names: frozenset[str]
    columns: Mapping[str, tuple[str, ...]]
    questions: Mapping[str, str]
    """The SQL of each mart."""
    answers: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """The columns of the marts that were checked, None if they are not known."""

    def validate(self, mart: str) -> tuple[str, ...] | None:
        """Check the SQL of a mart, and return the columns of its result, None if not known.

        :raises ValueError: a relation or a column does not exist.
        """
        if mart not in self.answers:
            self.answers[mart] = (
                None  # for marts that read each other in a circle, which Dagster refuses
            )
            self.answers[mart] = self._answer(mart)
        return self.answers[mart]

    def _answer(self, mart: str) -> tuple[str, ...] | None:
        sql = self.questions[mart]
        named = sorted(set(named_relations(sql)))
        for one in named:
            if one not in self.names:
                raise ValueError(self._unknown(mart, one))
        shapes = {one: self._columns(one) for one in named}
        known = {one: columns for one, columns in shapes.items() if columns is not None}
        if len(known) < len(shapes) or not parsed(sql) or UNFOLDING.search(sql):
            return None
        return answered(mart, sql, known)

    def _columns(self, relation: str) -> tuple[str, ...] | None:
        return self.validate(relation) if relation in self.questions else self.columns.get(relation)

    def _unknown(self, mart: str, relation: str) -> str:
        meant = closest_name(relation, self.names)
        guess = f"did you mean {meant}? There are" if meant else "there are"
        return (
            f"the sql of the mart {mart} reads {relation}, which no asset of the project makes:"
            f" {guess} {', '.join(sorted(self.names))}. Where it comes from elsewhere, say so in a"
            f" module: NAME = dg.AssetSpec(['{LAKE_PREFIX}', '{relation}'])"
        )


def named_relations(sql: str) -> Iterator[str]:
    """Yield the relations that a statement reads. CTEs, files and DuckDB's own are left out."""
    tree = parsed(sql)
    own = {
        str(one["key"])
        for node in _nodes(tree)
        for one in (node.get("cte_map") or {}).get("map", ())
    }
    for node in _nodes(tree):
        if (
            node.get("type") == "BASE_TABLE"
            and not node.get("schema_name")
            and not node.get("catalog_name")
        ):
            name = str(node["table_name"])
            if WORD.fullmatch(name) and name not in own and not name.startswith(OWN_RELATIONS):
                yield name


def answered(mart: str, sql: str, columns: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the columns of the result of ``sql``, None if they are not known.

    ``columns`` are those of the relations that it reads.

    :raises ValueError: the SQL names a column that does not exist.
    """
    with duckdb.connect(config=SEALED) as connection:
        for relation, names in columns.items():
            connection.register(
                relation, pa.schema([(name, pa.null()) for name in names]).empty_table()
            )
        try:
            found = tuple(connection.sql(sql).columns)
        except duckdb.Error as error:
            missing = NOT_THERE.search(str(error))
            if missing is None:
                return None
            raise ValueError(_not_there(mart, missing["name"] or missing["of"], columns)) from error
    return found if len({name.lower() for name in found}) == len(found) else None


def _not_there(mart: str, column: str, columns: Mapping[str, tuple[str, ...]]) -> str:
    meant = closest_name(column, {name for names in columns.values() for name in names})
    advice = f"did you mean {meant}? " if meant else ""
    rest = "; ".join(
        f"{relation} has {', '.join(names)}" for relation, names in sorted(columns.items())
    )
    return (
        f"the sql of the mart {mart} names the column {column}, which is not there: {advice}{rest}"
    )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield each node of a statement's syntax tree from DuckDB."""
    if isinstance(tree, dict):
        yield tree
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(one)


def _metadata(
    assets: Iterable[dg.AssetsDefinition],
) -> Iterator[tuple[dg.AssetKey, Mapping[str, Any]]]:
    for asset in assets:
        yield from asset.metadata_by_key.items()


def _relation_names(
    assets: Iterable[dg.AssetsDefinition], known: Collection[dg.AssetKey]
) -> Iterator[str]:
    yield from (key.path[-1] for key in known if key.path[0] in {LAKE_PREFIX, MART_PREFIX})
    yield from (
        str(values[SINK_METADATA]) for _, values in _metadata(assets) if SINK_METADATA in values
    )


def _declared_columns(assets: Iterable[dg.AssetsDefinition]) -> dict[str, tuple[str, ...]]:
    return {
        key.path[-1]: tuple(values[COLUMNS_METADATA])
        for key, values in _metadata(assets)
        if COLUMNS_METADATA in values
    }
