"""A reference table in a SQL database is replaced in one transaction.

It is replaced only when the lake table changed.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import sqlalchemy as sa

from orchestration.databases.owners import Owner
from orchestration.databases.types import chunks
from orchestration.lake.tables import Lake, TableSnapshot, replace_all
from orchestration.marts.database_copy import SqlError, replace_table, sql_table
from orchestration.resources.database import DatabaseResource, open_engine
from orchestration.resources.lake import LakeResource
from orchestration.settings import SettingsError

OWNER = Owner(lake_id="a-lake", asset="sql/airlines", place="here:/lake")


def store(lake: Lake, rows: pa.Table) -> TableSnapshot:
    return replace_all(
        lake.snapshot("airlines") or lake.create("airlines", rows.schema), rows, {}, {}
    )


AIRLINES = pa.table({"carrier": ["AA", "UA"], "name": ["American", "United"]})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'folder' / 'reference.db'}"


def read(url: str, name: str = "airlines") -> list[tuple[object, ...]]:
    engine = open_engine(url)
    with engine.connect() as connection:
        found = [
            tuple(row) for row in connection.execute(sa.text(f"SELECT * FROM {name} ORDER BY 1"))
        ]
    engine.dispose()
    return found


def copy(
    url: str,
    snapshot: TableSnapshot,
    columns: list[str] | None = None,
    key: Sequence[str] = ("carrier",),
) -> bool:
    engine = open_engine(url)
    try:
        return replace_table(engine, "airlines", snapshot, columns, key, owner=OWNER).is_unchanged
    finally:
        engine.dispose()


def test_rows_are_copied_and_an_unchanged_version_is_not_copied_again(lake: Lake, url: str) -> None:
    snapshot = store(lake, AIRLINES)
    assert not copy(url, snapshot)
    assert read(url) == [("AA", "American"), ("UA", "United")]
    assert copy(url, lake.existing("airlines"))
    assert not copy(url, store(lake, AIRLINES.slice(1)))
    assert read(url) == [("UA", "United")]
    assert read(url, "tidelog_versions")[0][2] == 2


def test_readers_see_old_rows_until_all_new_ones_are_there(lake: Lake, url: str) -> None:
    copy(url, store(lake, AIRLINES))
    twice = pa.table({"carrier": ["DL", "DL"], "name": ["Delta", "Delta"]})
    with pytest.raises(sa.exc.IntegrityError):
        copy(url, store(lake, twice))
    assert read(url) == [("AA", "American"), ("UA", "United")]


def test_changed_columns_replace_the_table_in_the_same_transaction(lake: Lake, url: str) -> None:
    copy(url, store(lake, AIRLINES))
    wider = AIRLINES.append_column("seats", pa.array([1, None], pa.int32()))
    assert not copy(url, store(lake, wider))
    assert read(url) == [("AA", "American", 1), ("UA", "United", None)]
    assert not copy(url, lake.existing("airlines"), ["carrier", "seats"])
    assert read(url) == [("AA", 1), ("UA", None)]


def columns_of(url: str) -> tuple[dict[str, str], list[str]]:
    """Return the types of the columns of the SQL table, and those of its primary key."""
    engine = open_engine(url)
    found = sa.inspect(engine)
    kinds = {column["name"]: str(column["type"]) for column in found.get_columns("airlines")}
    key = found.get_pk_constraint("airlines")["constrained_columns"]
    engine.dispose()
    return kinds, key


def run_sql(url: str, *statements: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


NUMBERED = pa.table(
    {"carrier": ["AA", "UA"], "name": ["American", "United"], "seats": pa.array([1, 2], pa.int32())}
)
OTHER_TYPE = NUMBERED.set_column(
    2, "seats", pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))
)


@pytest.mark.parametrize("has_notes", [True, False], ids=["noted", "made by an earlier release"])
def test_a_changed_type_makes_the_table_anew(lake: Lake, url: str, has_notes: bool) -> None:
    copy(url, store(lake, NUMBERED))
    if not has_notes:
        run_sql(url, "DROP TABLE tidelog_shapes")
    snapshot = replace_all(lake.create("others", OTHER_TYPE.schema), OTHER_TYPE, {}, {})
    assert not copy(url, snapshot)
    assert columns_of(url)[0] == {
        "carrier": "VARCHAR(255)",
        "name": "TEXT",
        "seats": "NUMERIC(10, 2)",
    }
    assert copy(url, snapshot), "made anew once"


@pytest.mark.parametrize("has_notes", [True, False], ids=["noted", "made by an earlier release"])
@pytest.mark.parametrize("key", [["carrier", "name"], ["seats"], []], ids=str)
def test_a_changed_primary_key_makes_the_table_anew_though_the_rows_are_the_same(
    lake: Lake, url: str, key: list[str], has_notes: bool
) -> None:
    snapshot = store(lake, NUMBERED)
    copy(url, snapshot)
    if not has_notes:
        run_sql(url, "DROP TABLE tidelog_shapes")
    assert not copy(url, snapshot, key=key)
    assert columns_of(url)[1] == key
    assert read(url) == [("AA", "American", 1), ("UA", "United", 2)]
    assert copy(url, snapshot, key=key), "made anew once"


def test_a_table_of_the_same_types_and_key_keeps_what_was_added_to_it(lake: Lake, url: str) -> None:
    """Also one that an earlier release made, which noted no types."""
    every_type = pa.table(
        {
            "carrier": ["AA"],
            "moment": pa.array([None], pa.timestamp("us", tz="UTC")),
            "local": pa.array([None], pa.timestamp("us")),
            "day": pa.array([None], pa.date32()),
            "price": pa.array([None], pa.decimal128(10, 2)),
            "share": [0.5],
            "count": [2**40],
            "small": pa.array([1], pa.int16()),
            "is_open": [True],
            "raw": [b"\x00"],
            "tags": pa.array([["a"]], pa.list_(pa.string())),
        }
    )
    copy(url, store(lake, every_type))
    run_sql(url, "CREATE INDEX by_hand ON airlines (share)", "DROP TABLE tidelog_shapes")
    for _ in range(2):
        assert not copy(url, store(lake, every_type))
    engine = open_engine(url)
    assert [one["name"] for one in sa.inspect(engine).get_indexes("airlines")] == ["by_hand"]
    engine.dispose()


def test_a_database_may_tell_a_type_by_another_name(lake: Lake, url: str) -> None:
    """MySQL names BOOLEAN as TINYINT.

    The declared type is noted, so that no run makes the table anew for it.
    """
    snapshot = store(lake, AIRLINES)
    copy(url, snapshot)
    run_sql(
        url,
        "DROP TABLE airlines",
        "CREATE TABLE airlines (carrier CHAR(255) PRIMARY KEY, name CLOB)",
    )
    assert copy(url, snapshot)


@pytest.mark.parametrize("name", ["tidelog_versions", "tidelog_shapes"])
def test_a_table_of_notes_cannot_be_a_copy(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' cannot be a table's name"):
        sql_table(name, table="airlines")


def test_types_arrive_as_they_were(lake: Lake, url: str) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    rows = pa.table(
        {
            "carrier": ["AA"],
            "moment": pa.array([moment], pa.timestamp("us", tz="UTC")),
            "day": [date(2026, 1, 2)],
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "share": [0.5],
            "count": [2**40],
            "is_open": [True],
            "raw": [b"\x00\x01"],
            "tags": pa.array([["a", "b"]], pa.list_(pa.string())),
        }
    )
    copy(url, store(lake, rows))
    engine = open_engine(url)
    with engine.connect() as connection:
        found = (
            connection.execute(
                sa.select(sa.Table("airlines", sa.MetaData(), autoload_with=connection))
            )
            .mappings()
            .one()
        )
    engine.dispose()
    assert found["moment"] == moment.replace(tzinfo=None)
    assert (found["day"], found["share"], found["count"], bool(found["is_open"]), found["raw"]) == (
        date(2026, 1, 2),
        0.5,
        2**40,
        True,
        b"\x00\x01",
    )
    assert found["price"] == Decimal("1.50")
    assert found["tags"] == ["a", "b"]


def test_unknown_columns_and_addresses_are_named(lake: Lake, url: str) -> None:
    with pytest.raises(SqlError, match="has no columns nope; it has carrier, name"):
        copy(url, store(lake, AIRLINES), ["carrier", "nope"])
    for wrong in ["no url", "nodialect://x"]:
        with pytest.raises(SettingsError, match="TIDELOG_SQL_URL cannot be used"):
            open_engine(wrong)


def test_bytes_within_json_are_base64_as_spark_writes_them() -> None:
    """As for the headers of a record; moments are texts."""
    kind = pa.list_(
        pa.struct(
            [("key", pa.string()), ("value", pa.binary()), ("at", pa.timestamp("us", tz="UTC"))]
        )
    )
    headers = [
        {"key": "trace", "value": b"\xff1", "at": datetime(2026, 1, 2, tzinfo=UTC)},
        {"key": "none", "value": None, "at": None},
    ]
    (chunk,) = chunks(pa.table({"_headers": pa.array([headers], kind)}), "postgresql")
    assert chunk == [
        {
            "_headers": [
                {"key": "trace", "value": "/zE=", "at": "2026-01-02 00:00:00+00:00"},
                {"key": "none", "value": None, "at": None},
            ]
        }
    ]


def test_a_key_is_the_column_that_it_names_and_not_those_whose_names_are_in_it(
    url: str, lake: Lake
) -> None:
    snapshot = store(lake, pa.table({"order_id": [1, 2], "id": [7, None]}))
    copied = sql_table("orders", table="airlines", primary_key="order_id")
    assert dg.materialize(
        [copied],
        resources={
            "lake": LakeResource(root=str(lake.root)),
            "database": DatabaseResource(url=url),
        },
    ).success
    engine = open_engine(url)
    assert sa.inspect(engine).get_pk_constraint("orders")["constrained_columns"] == ["order_id"]
    with pytest.raises(
        SqlError,
        match="the primary key has no columns number among those that are copied: order_id, id",
    ):
        replace_table(engine, "orders", snapshot, None, ["number"], owner=OWNER)
    engine.dispose()


def test_rows_with_times_that_python_does_not_reach_are_left_out_and_told(
    lake: Lake, url: str
) -> None:
    """An earlier release took epoch milliseconds for seconds, and stored the year 57971.

    The table then stayed as it was for ever.
    """
    far = pa.array([1_769_860_800_000_000_000, 0, None], pa.timestamp("us", tz="UTC"))
    within = pa.array(
        [[{"at": 0}], [{"at": 0}], [{"at": -(10**17)}]],
        pa.list_(pa.struct([("at", pa.timestamp("us"))])),
    )
    snapshot = store(lake, pa.table({"carrier": ["AA", "UA", "DL"], "seen": far, "stops": within}))
    engine = open_engine(url)
    done = replace_table(engine, "airlines", snapshot, None, ("carrier",), owner=OWNER)
    engine.dispose()
    assert (done.rows, done.left_out) == (1, 2)
    assert done.reasons == tuple(
        f"the column {name} has a time beyond the years 1 to 9999" for name in ("seen", "stops")
    )
    assert [row[0] for row in read(url)] == ["UA"]
