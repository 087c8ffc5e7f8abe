"""Rows and offsets of a database's table move together, and an older writer commits nothing.

A sentence refuses values that do not fit.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa

from orchestration.databases.owners import NotOwnerError
from orchestration.databases.refusals import StoreError
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import CommitConflictError, Lake, replace_all
from orchestration.marts.database_copy import SqlError, replace_table
from orchestration.offsets.planning import Checkpoint, ProgressError
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.resources.database import open_engine
from orchestration.rows.latest import KeyedTable, newest
from orchestration.transforms.to_database import bulk, duckdb_store, sql_store
from orchestration.transforms.to_database.stores import Batch, Store
from tests.platform.databases import KINDS, OWNER, Database, database

pytestmark = pytest.mark.platform
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.int32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


@pytest.fixture(scope="module", params=KINDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    with database(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    """A table of the test's own."""
    return "".join(
        letter for letter in request.node.originalname.removeprefix("test_") if letter.isalpha()
    )[:40]


def rows(*found: tuple[str, int, int], partition: int = 0, topic_id: str = "T") -> pa.Table:
    """Rows of (id, value, offset)."""
    made = [
        {
            "id": i,
            "v": v,
            "at": NOW,
            "tags": ["a"],
            "_topic_id": topic_id,
            "_partition": partition,
            "_offset": o,
            "_timestamp": NOW,
        }
        for i, v, o in found
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def batch(
    start: int, end: int, data: pa.Table, *, partition: int = 0, topic_id: str = "T", **more: Any
) -> Batch:
    ranges = OffsetRanges(
        topic="t",
        topic_id=topic_id,
        ranges=(OffsetRange(partition=partition, start=start, end=end),),
    )
    return Batch(
        **{
            "ranges": ranges,
            "leader_epochs": {0: 3},
            "letters": 7,
            "run_id": "r",
            "at": NOW,
            "rows": data,
            **more,
        }
    )


def commit(store: Store, made: Batch) -> None:
    with store.writer() as writer:
        writer.commit(made)


def commit_changes(store: Store, start: int, data: pa.Table, deleted: pa.Table) -> None:
    """Commit what rows and deletions change, as a run does."""
    names = ["id", "_topic_id", "_partition", "_offset", "_timestamp"]
    places = data.select(names).schema
    keys = (
        pa.concat_tables([data.select(["id"]), deleted.select(["id"])]).group_by("id").aggregate([])
    )
    with store.writer() as writer:
        found, remembered = writer.held(keys, places)
        held = KeyedTable(snapshot=found, deletions=remembered)
        changes = newest(data, deleted.select(names), ["id"], held, "T", log_starts={0: 0})
        writer.commit(
            batch(start, start + 10, changes.rows, changes=changes, keys=keys, log_starts={0: 0})
        )


def test_rows_and_offsets_are_there_together(place: Database, table: str) -> None:
    with place.store(table, follower=table) as store:
        with store.writer() as writer:
            assert writer.progress("T").checkpoints == {}
            writer.commit(batch(0, 5, rows(("a", 1, 0), ("b", 2, 4))))
        commit(store, batch(5, 9, rows(("a", 3, 8))))
        with store.writer() as writer:
            progress = writer.progress("T")
            assert writer.progress("another").letters is None
    assert place.rows(table, "id", "v", "_offset") == [("a", 1, 0), ("a", 3, 8), ("b", 2, 4)]
    assert progress.checkpoints == {0: Checkpoint(next_offset=9, leader_epoch=3)}
    assert (progress.letters, progress.run_id, progress.topic_ids) == (7, "r", ("T",))


def test_a_replay_replaces_what_came_from_its_ranges_and_moves_no_offset(
    place: Database, table: str
) -> None:
    with place.store(table, follower=table) as store:
        commit(store, batch(0, 5, rows(("a", 1, 0), ("b", 2, 4))))
        commit(store, batch(0, 5, rows(("x", 1, 0), partition=1), partition=1))
        commit(store, batch(5, 9, rows(("a", 3, 8))))
        commit(store, batch(2, 8, rows(("c", 7, 2), ("c", 8, 7)), letters=8, is_replay=True))
        with store.writer() as writer:
            progress = writer.progress("T")
    assert place.rows(table, "id", "v", "_partition", "_offset") == [
        ("a", 1, 0, 0),
        ("a", 3, 0, 8),
        ("c", 7, 0, 2),
        ("c", 8, 0, 7),
        ("x", 1, 1, 0),
    ]
    assert {number: one.next_offset for number, one in progress.checkpoints.items()} == {0: 9, 1: 5}
    assert progress.letters == 8


def test_rows_and_deletions_of_ranges_are_told_with_those_of_keys(
    place: Database, table: str
) -> None:
    with place.store(table, ("id",), table) as store:
        commit_changes(
            store, 0, rows(("a", 1, 0), ("b", 1, 1), ("c", 1, 2)), rows(("d", 0, 3), ("e", 0, 4))
        )
        ranges = OffsetRanges(
            topic="t", topic_id="T", ranges=(OffsetRange(partition=0, start=1, end=4),)
        )
        places = SCHEMA.remove(1).remove(1).remove(1)
        with store.writer() as writer:
            found, remembered = writer.held(pa.table({"id": ["a", "b", "z"]}), places, ranges)
    assert sorted(found.rows["id"].to_pylist()) == ["a", "b", "c"]
    assert remembered["id"].to_pylist() == ["d"]


OF_SQL = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=[1, 1_000], ids=["staged", "by-key"])
def staged_from(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, place: Database
) -> int:
    """How many rows go by way of a temporary table; DuckDB has no such way, and is not asked to."""
    monkeypatch.setattr(bulk, "STAGED_FROM", request.param)
    return int(request.param)


def test_rows_are_updated_and_deleted_by_key_and_late_ones_change_nothing(
    place: Database, table: str, staged_from: int
) -> None:
    table = f"{table}_{staged_from}"
    with place.store(table, ("id",), table) as store:
        commit_changes(store, 0, rows(("a", 1, 0), ("b", 1, 1), ("c", 1, 2)), rows())
        commit_changes(
            store, 10, rows(("a", 2, 10), ("d", 1, 11)), rows(("b", 0, 12), ("x", 0, 13))
        )
        assert place.rows(table, "id", "v") == [("a", 2), ("c", 1), ("d", 1)]
        commit_changes(store, 20, rows(("b", 9, 5), ("a", 9, 6)), rows())
        assert place.rows(table, "id", "v") == [("a", 2), ("c", 1), ("d", 1)]
        commit_changes(store, 30, rows(("b", 3, 31)), rows(("c", 0, 30)))
        assert place.rows(table, "id", "v") == [("a", 2), ("b", 3), ("d", 1)]


@OF_SQL
def test_values_are_the_same_by_way_of_a_temporary_table(
    place: Database, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = pa.schema(
        [
            *SCHEMA,
            ("price", pa.decimal128(10, 2)),
            ("raw", pa.binary()),
            ("share", pa.float64()),
            ("on", pa.bool_()),
            ("day", pa.date32()),
        ]
    )
    found = []
    for number, staged in enumerate((1, 1_000)):
        monkeypatch.setattr(bulk, "STAGED_FROM", staged)
        name = f"{table}_{number}"
        with place.store(name, ("id",), name) as store:
            for offset, text in enumerate(("tab\t, quote ' and \\N", "Ünïcode\n")):
                values = rows(("a", offset, offset), (text, 1, 10 + offset)).to_pylist()
                more = {
                    "price": Decimal("12.50"),
                    "raw": b"\x00\\x",
                    "share": 0.1,
                    "on": True,
                    "day": NOW.date(),
                }
                nothing = {**dict.fromkeys(more), "tags": None}
                commit_changes(
                    store,
                    20 * offset,
                    pa.Table.from_pylist(
                        [{**values[0], **more}, {**values[1], **nothing}], schema=kinds
                    ),
                    rows(),
                )
        found.append(place.rows(name, *(f'"{one}"' for one in kinds.names if one != "_timestamp")))
    assert found[0] == found[1]
    assert len(found[0]) == 3


@OF_SQL
def test_a_column_of_the_user_s_own_keeps_its_value_when_a_row_is_updated(
    place: Database, table: str, staged_from: int
) -> None:
    name = f"{table}_{staged_from}"
    with place.store(name, ("id",), name) as store:
        commit_changes(store, 0, rows(("a", 1, 0), ("b", 1, 1)), rows())
        place.execute(f"ALTER TABLE {name} ADD COLUMN note VARCHAR(20) DEFAULT 'mine'")
        commit_changes(store, 10, rows(("a", 2, 10)), rows())
    assert place.rows(name, "id", "v", "note") == [("a", 2, "mine"), ("b", 1, "mine")]


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_user_who_may_create_no_temporary_table_changes_rows_by_key(
    place: Database, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STAGED_FROM", 1)
    place.execute("CREATE ROLE plain LOGIN")
    place.execute("GRANT CREATE, USAGE ON SCHEMA public TO plain")
    place.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO plain")
    place.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    try:
        with Database(place.kind, place.address.replace("tests@", "plain@")).store(
            table, ("id",), table
        ) as store:
            commit_changes(store, 0, rows(("a", 1, 0), ("b", 1, 1)), rows())
            commit_changes(store, 10, rows(("a", 2, 10)), rows(("b", 0, 11)))
    finally:
        place.execute("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")
    assert place.rows(table, "id", "v") == [("a", 2)]


@OF_SQL
def test_what_the_database_refuses_of_many_rows_is_told(
    place: Database, table: str, staged_from: int
) -> None:
    name = f"{table}_{staged_from}"
    with (
        place.store(name, ("id",), name) as store,
        pytest.raises(StoreError, match=r"(?i)unique.*Nothing was committed"),
    ):
        commit(store, batch(0, 5, rows(("a", 1, 0), ("a", 2, 1))))
    assert place.rows(name, "id") == []


def test_an_older_writer_commits_nothing(place: Database, table: str) -> None:
    with place.store(table, follower=table) as store, store.writer() as older:
        if place.kind == "duckdb":
            with pytest.raises(CommitConflictError, match="another run writes"), store.writer():
                pass
            return
        commit(store, batch(0, 5, rows(("a", 1, 0))))
        with pytest.raises(CommitConflictError, match="another run writes"):
            older.commit(batch(0, 5, rows(("a", 1, 0))))
    assert place.rows(table, "id") == [("a",)]


def test_no_other_account_can_hold_the_lock_of_a_duckdb_file(tmp_path: Path) -> None:
    lock = tmp_path / ".rooms.lock"
    lock.touch(mode=0o644)
    with duckdb_store.DuckdbStore(directory=tmp_path, table="rooms", owner=OWNER).writer():
        assert lock.stat().st_mode & 0o777 == 0o600


def test_what_fails_in_the_middle_leaves_nothing(
    place: Database, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.store(table, follower=table) as store:
        commit(store, batch(0, 5, rows(("a", 1, 0))))
        with monkeypatch.context() as patched:
            for module in (sql_store, duckdb_store):
                patched.setattr(
                    module, "write_offsets", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
                )
            with pytest.raises(KeyboardInterrupt):
                commit(store, batch(5, 9, rows(("b", 1, 5))))
        assert place.rows(table, "id") == [("a",)]
        commit(store, batch(5, 9, rows(("b", 1, 5))))
    assert place.rows(table, "id") == [("a",), ("b",)]


def test_a_table_that_lacks_a_column_is_told_and_one_that_has_more_is_served(
    place: Database, table: str
) -> None:
    with place.store(table, follower=table) as store:
        commit(store, batch(0, 5, rows(("a", 1, 0))))
        with pytest.raises(
            SchemaConflictError, match=r"lacks columns of the result: note \(STRING\).*ALTER TABLE"
        ):
            commit(store, batch(5, 9, rows(("b", 1, 5)).append_column("note", pa.array(["x"]))))
        commit(store, batch(5, 9, rows(("b", 1, 5)).drop_columns(["v"])))
    assert place.rows(table, "id", "coalesce(v, -1)") == [("a", 1), ("b", -1)]


def test_a_topic_that_was_created_anew_begins_anew(place: Database, table: str) -> None:
    with place.store(table, follower=table) as store:
        commit(store, batch(0, 5, rows(("a", 1, 0))))
        commit(store, batch(0, 2, rows(("b", 1, 0), topic_id="U"), topic_id="U"))
        with store.writer() as writer:
            assert writer.progress("U").checkpoints[0].next_offset == 2
            assert writer.progress("T").topic_ids == ("T", "U")


def test_a_table_that_was_dropped_is_told_not_begun_anew(tmp_path: Path) -> None:
    place = Database("sqlite", f"sqlite:///{tmp_path / 'tables.db'}")
    with place.store("t") as store:
        commit(store, batch(0, 5, rows(("a", 1, 0))))
        place.execute("DROP TABLE t")
        with (
            store.writer() as writer,
            pytest.raises(
                ProgressError, match="delete the rows of tidelog_offsets whose follower is follower"
            ),
        ):
            writer.progress("T")
        place.execute("DELETE FROM tidelog_offsets")
        with store.writer() as writer:
            assert writer.progress("T").checkpoints == {}


def test_a_mart_is_not_taken_for_a_table(tmp_path: Path) -> None:
    place = Database("duckdb", str(tmp_path))
    duckdb.connect(str(tmp_path / "t.duckdb")).execute("CREATE TABLE t AS SELECT 1").close()
    with (
        place.store("t") as store,
        store.writer() as writer,
        pytest.raises(ProgressError, match="a mart or a file of somebody else's"),
    ):
        writer.progress("T")


def test_what_a_database_refuses_is_said_without_its_values(tmp_path: Path) -> None:
    place = Database("sqlite", f"sqlite:///{tmp_path / 'tables.db'}")
    place.execute(
        "CREATE TABLE t (id TEXT, v INT CHECK (v < 5), at TEXT, tags TEXT, _topic_id TEXT, _partition, _offset, _timestamp)"
    )
    with (
        place.store("t") as store,
        pytest.raises(StoreError, match=r"CHECK constraint failed: v < 5. Nothing was committed$"),
    ):
        commit(store, batch(0, 5, rows(("secret", 9, 0))))


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_reference_table_holds_every_type_and_is_replaced_in_one_transaction(
    place: Database, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    first = pa.table(
        {
            "id": ["a", "b"],
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "at": pa.array([NOW, None], pa.timestamp("us", tz="UTC")),
            "day": [NOW.date(), None],
            "raw": [b"\x00", None],
            "ratio": [0.5, None],
            "is_new": [True, None],
            "tags": [["x", "y"], None],
            "seen": pa.array(
                [{"at": NOW}, None], pa.struct([("at", pa.timestamp("us", tz="UTC"))])
            ),
        }
    )
    snapshot = replace_all(lake.create("goods", first.schema), first, {}, {})
    engine = open_engine(place.address)
    assert not replace_table(engine, "goods", snapshot, None, ["id"], owner=OWNER).is_unchanged
    row = (
        Decimal("1.50"),
        NOW,
        NOW.date(),
        b"\x00",
        0.5,
        True,
        ["x", "y"],
        {"at": "2026-01-01 00:00:00+00:00"},
    )
    assert place.rows("goods", *first.column_names) == [("a", *row), ("b", *[None] * 8)]
    with engine.connect() as reader:
        reader.execution_options(isolation_level="REPEATABLE READ")
        question = sa.text("SELECT count(*) FROM goods")
        assert reader.execute(question).scalar() == 2
        replace_rows = replace_all(snapshot, first.slice(1), {}, {})
        assert not replace_table(
            engine, "goods", replace_rows, None, ["id"], owner=OWNER
        ).is_unchanged
        assert reader.execute(question).scalar() == 2
    assert place.rows("goods", "id") == [("b",)]
    assert replace_table(engine, "goods", replace_rows, None, ["id"], owner=OWNER).is_unchanged
    place.execute("DROP TABLE tidelog_shapes")
    assert replace_table(engine, "goods", replace_rows, None, ["id"], owner=OWNER).is_unchanged, (
        "the database tells each type as it was declared"
    )
    engine.dispose()


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_reference_table_leaves_out_rows_that_the_database_cannot_hold(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path / "lake")
    names = [f"n{number}" for number in range(20)]
    notes = ["fine"] * 20
    notes[3] = notes[11] = "no\0texts"
    names[15] = "k" * 300
    goods = pa.table({"id": names, "note": notes, "tags": [["a\0b"]] * 20})
    snapshot = replace_all(lake.create("goods", goods.schema), goods, {}, {})
    engine = open_engine(place.address)
    copy = replace_table(engine, "goods", snapshot, None, ["id"], owner=OWNER)
    assert (copy.rows, copy.left_out, len(copy.reasons)) == (17, 3, 2)
    assert "NUL" in copy.reasons[0]
    assert "too long" in copy.reasons[1]
    assert len(place.rows("goods", "id")) == 17
    assert replace_table(engine, "goods", snapshot, None, ["id"], owner=OWNER).is_unchanged
    monkeypatch.setattr("orchestration.marts.database_copy.MAX_LEFT_OUT", 2)
    with pytest.raises(
        SqlError, match=r"the database refuses values of 3 rows, more than 2: .*NUL"
    ):
        replace_table(
            engine,
            "goods",
            replace_all(snapshot, goods.slice(1), {}, {}),
            None,
            ["id"],
            owner=OWNER,
        )
    assert len(place.rows("goods", "id")) == 17
    engine.dispose()


THEIRS = replace(OWNER, lake_id="another-lake", place="there:/lake")


def test_a_table_that_another_lake_keeps_is_refused_until_it_is_taken_over(
    place: Database, table: str
) -> None:
    """A second deployment on the same database read its own topic from the start.

    Its rows went into those of the first.
    """
    with (
        place.store(table, follower=table) as ours,
        place.store(table, follower=table, owner=THEIRS) as theirs,
    ):
        commit(ours, batch(0, 5, rows(("a", 1, 0))))
        with (
            pytest.raises(
                NotOwnerError,
                match=r"belongs to lake/follower of the lake here:/lake, which.*tidelog take-over",
            ),
            theirs.writer(),
        ):
            pass
        assert ours.holder() is None
        assert "here:/lake" in (theirs.holder() or "")
        theirs.take_over(is_of_this_lake=False)
        assert theirs.holder() is None
        with theirs.writer() as writer:
            progress = writer.progress("T")
            assert (progress.checkpoints[0].next_offset, progress.letters) == (5, None), (
                "the number of dead letters is the other lake's"
            )
        with pytest.raises(NotOwnerError, match="there:/lake"), ours.writer():
            pass
        commit(theirs, batch(5, 9, rows(("b", 1, 5))))
    assert place.rows(table, "id") == [("a",), ("b",)]


@OF_SQL
def test_a_run_that_is_in_the_middle_of_a_takeover_commits_nothing(
    place: Database, table: str
) -> None:
    with (
        place.store(table, follower=table) as ours,
        place.store(table, follower=table, owner=THEIRS) as theirs,
    ):
        commit(ours, batch(0, 5, rows(("a", 1, 0))))
        with ours.writer() as older:
            theirs.take_over(is_of_this_lake=False)
            with pytest.raises(CommitConflictError, match="another run writes"):
                older.commit(batch(5, 9, rows(("b", 1, 5))))
    assert place.rows(table, "id") == [("a",)]


@OF_SQL
@pytest.mark.parametrize("has_owner", [True, False], ids=["owned", "of-an-earlier-release"])
def test_a_deployment_that_is_named_later_takes_its_own_progress_over(
    place: Database, table: str, *, has_owner: bool
) -> None:
    """It began at the start of the topic under its new name, and doubled the rows of a table
    without key.
    """
    name = f"{table}_{has_owner}"
    named = replace(OWNER, deployment="prod")
    with (
        place.store(name, follower="follower") as ours,
        place.store(name, follower="prod.follower", owner=named) as later,
    ):
        commit(ours, batch(0, 5, rows(("a", 1, 0))))
        if not has_owner:
            place.execute(f"DELETE FROM tidelog_owners WHERE table_name = '{name.lower()}'")
        with pytest.raises(NotOwnerError, match="follower"), later.writer():
            pass
        assert later.holder() is not None
        later.take_over(is_of_this_lake=True)
        with later.writer() as writer:
            progress = writer.progress("T")
            assert (progress.checkpoints[0].next_offset, progress.letters) == (5, 7)
        commit(later, batch(5, 9, rows(("b", 1, 5))))
        with pytest.raises(NotOwnerError, match="deployment prod"), ours.writer():
            pass
    assert place.rows(name, "id") == [("a",), ("b",)]
    place.execute("DELETE FROM tidelog_followers")
    place.execute("DELETE FROM tidelog_offsets")


def test_a_table_of_an_earlier_release_goes_on_and_is_its_writer_s(
    place: Database, table: str
) -> None:
    with (
        place.store(table, follower=table) as ours,
        place.store(table, follower=table, owner=THEIRS) as theirs,
    ):
        commit(ours, batch(0, 5, rows(("a", 1, 0))))
        if isinstance(ours, duckdb_store.DuckdbStore):
            duckdb.connect(str(ours.path)).execute("DROP TABLE _tidelog_owner").close()
        else:
            place.execute("DROP TABLE tidelog_owners")
        assert ours.holder() is None
        commit(ours, batch(5, 9, rows(("b", 1, 5))))
        with pytest.raises(NotOwnerError, match="here:/lake"), theirs.writer():
            pass


def test_a_table_that_was_dropped_is_another_s_to_make(tmp_path: Path) -> None:
    place = Database("sqlite", f"sqlite:///{tmp_path / 'tables.db'}")
    with place.store("t") as ours, place.store("t", follower="another", owner=THEIRS) as theirs:
        commit(ours, batch(0, 5, rows(("a", 1, 0))))
        place.execute("DROP TABLE t")
        place.execute("DELETE FROM tidelog_owners")
        commit(theirs, batch(0, 2, rows(("b", 1, 0))))
        with pytest.raises(NotOwnerError, match="there:/lake"), ours.writer():
            pass


def test_a_database_that_is_away_may_come_back() -> None:
    away = Database("postgresql", "postgresql+psycopg://nobody:hidden@/none?host=/nowhere")
    with away.store("t") as store, pytest.raises(StoreError) as told, store.writer():
        pass
    assert told.value.is_passing
    assert "hidden" not in str(told.value)
