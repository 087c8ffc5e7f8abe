"""Declarations of tables in a database that follow a topic.

A declaration holds the topic, the function, the table and its key, and is checked as soon as it is
made. Decides which values a database cannot hold. Knows no run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from orchestration.databases.types import KEY_LENGTH
from orchestration.dead_letters.table import Rejection
from orchestration.lake.tables import TABLE_NAME
from orchestration.transforms.declarations import TopicTable
from orchestration.values.times import rows_beyond_years
from orchestration.values.unwritten import unwritten_rows

Engine = Literal["sql", "duckdb"]
STORED_RULE = "storable"
KEEPS_NUL = frozenset({"sqlite", "duckdb"})
"""Databases whose texts may hold the letter NUL."""
RESERVED = ("tidelog_", "_tidelog_")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTable:
    """A table in a database.

    ``follower`` holds everything that it shares with lake tables from topics: name, topic,
    function, checks, limits, key. ``table`` is its name in the database. The follower's name is
    that of its ledger in the lake, and of its dead letters.
    """

    follower: TopicTable
    table: str
    kind: Engine

    def __post_init__(self) -> None:
        if not TABLE_NAME.fullmatch(self.table) or self.table.startswith(RESERVED):
            raise ValueError(
                f"{self.table!r} cannot be a table's name: letters, digits and underscores, not"
                " starting with a digit or with tidelog_"
            )
        if self.follower.unique_by or self.follower.is_evolving:
            raise ValueError(
                f"{self.name}: a table in a database has a key, and columns that only you add: no"
                " unique_by, no is_evolving"
            )

    @property
    def name(self) -> str:
        """Return the follower's name."""
        return self.follower.name


def validate_apart(tables: Iterable[DatabaseTable]) -> None:
    """Refuse two declarations that name the same table of one database.

    Otherwise each of two followers would change and count the other's rows.

    :raises ValueError: the text says which, and what to do.
    """
    owners: dict[tuple[Engine, str], str] = {}
    for each in tables:
        other = owners.setdefault((each.kind, each.table.lower()), each.name)
        if other != each.name:
            where = "the warehouse" if each.kind == "duckdb" else "the SQL database"
            raise ValueError(
                f"{other} and {each.name} cannot both be the table {each.table} of {where}: give"
                " one of them another table="
            )


def not_storable(rows: pa.Table, keys: tuple[str, ...], dialect: str) -> tuple[Rejection, ...]:
    """Return the rejections of records whose rows the database cannot hold.

    Such rows have times beyond the years 1 to 9999, texts with the letter NUL, texts that are too
    long for a key, or NaN or infinity inside a value that is stored as JSON.
    """
    found: dict[tuple[int, int], Rejection] = {}
    if dialect != "duckdb":
        for number, name in rows_beyond_years(rows).items():
            place = (rows["_partition"][number].as_py(), rows["_offset"][number].as_py())
            reason = f"{name} is a time beyond the years 1 to 9999"
            found.setdefault(
                place,
                Rejection(partition=place[0], offset=place[1], reason=reason, rule=STORED_RULE),
            )
        nested = [field.name for field in rows.schema if pa.types.is_nested(field.type)]
        for number, why in unwritten_rows(rows.select(nested)).items():
            place = (rows["_partition"][number].as_py(), rows["_offset"][number].as_py())
            found.setdefault(
                place,
                Rejection(
                    partition=place[0],
                    offset=place[1],
                    reason=f"the column {why}",
                    rule=STORED_RULE,
                ),
            )
    for name in rows.column_names:
        if not (pa.types.is_string(rows[name].type) or pa.types.is_large_string(rows[name].type)):
            continue
        if dialect not in KEEPS_NUL:
            _note(
                found,
                rows,
                pc.match_substring(rows[name], "\0"),
                f"{name} holds the letter NUL, which {dialect} has none of in texts",
            )
        if name in keys and dialect != "duckdb":
            is_long = pc.greater(pc.utf8_length(rows[name]), KEY_LENGTH)
            _note(found, rows, is_long, f"{name} is a key and longer than {KEY_LENGTH} letters")
    return tuple(found.values())


def _note(
    found: dict[tuple[int, int], Rejection], rows: pa.Table, chosen: pa.ChunkedArray, reason: str
) -> None:
    unfit = rows.filter(pc.fill_null(chosen, False))
    for partition, offset in zip(
        unfit["_partition"].to_pylist(), unfit["_offset"].to_pylist(), strict=True
    ):
        found.setdefault(
            (partition, offset),
            Rejection(partition=partition, offset=offset, reason=reason, rule=STORED_RULE),
        )
