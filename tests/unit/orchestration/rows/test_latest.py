"""The newest row of each key is that of a dictionary that reads the log once.

This holds for any batches, any kill and any replay.
"""

import itertools
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orchestration.lake.tables import CommitConflictError, Lake, TableSnapshot, advance, fence
from orchestration.offsets.planning import Checkpoint, PartitionOffsets, ProgressError, plan_batch
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.rows import upserts
from orchestration.rows.latest import PLACE, Changes, KeyedTable, Replaced, newest
from orchestration.rows.upserts import remembered_deletions, upsert
from orchestration.transforms.run.context import TopicState
from tests.helpers.whole import of_a_run

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = ("id", "the Key")
SCHEMA = pa.schema(
    [
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("id", pa.int64()),
        ("the Key", pa.string()),
        ("value", pa.string()),
    ]
)
PLACES = pa.schema([SCHEMA.field(name) for name in (*KEYS, *PLACE)])
NOTHING = "nothing"
"""What a rejected record makes."""
State = dict[int, tuple[str, int, int]]


@dataclass(frozen=True)
class Record:
    """A record of a log: ``makes`` is the row's value, None deletes the key."""

    partition: int
    offset: int
    seconds: int | None
    key: int
    makes: str | None
    topic_id: str = "T"

    def row(self) -> dict[str, Any]:
        at = None if self.seconds is None else START + timedelta(seconds=self.seconds)
        place = {
            "_topic_id": self.topic_id,
            "_partition": self.partition,
            "_offset": self.offset,
            "_timestamp": at,
        }
        return {**place, "id": self.key, "the Key": f"key-{self.key}", "value": self.makes}


def fold(records: Iterable[Record]) -> State:
    """Read the log once, by time.

    No record counts as earlier than one of its key before it in its partition.
    """
    times: dict[tuple[int, int], int] = {}
    ordered = []
    for one in sorted((one for one in records if one.makes != NOTHING), key=lambda one: one.offset):
        lane = (one.key, one.partition)
        times[lane] = max(
            times.get(lane, -1_000_000), -1_000_000 if one.seconds is None else one.seconds
        )
        ordered.append((times[lane], one.partition, one.offset, one))
    state: State = {}
    for _, _, _, one in sorted(ordered, key=lambda entry: entry[:3]):
        state.pop(one.key, None)
        if one.makes is not None:
            state[one.key] = (one.makes, one.partition, one.offset)
    return state


def rows_of(records: Iterable[Record]) -> tuple[pa.Table, pa.Table]:
    made = [one for one in records if one.makes != NOTHING]
    rows = [one.row() for one in made if one.makes is not None]
    return pa.Table.from_pylist(rows, SCHEMA), pa.Table.from_pylist(
        [one.row() for one in made if one.makes is None], PLACES
    )


@dataclass
class MemoryTable:
    """A table of newest rows without its files; stands in for a snapshot as well."""

    rows: pa.Table = field(default_factory=SCHEMA.empty_table)
    deletions: pa.Table | None = None

    def dataset(self) -> pads.Dataset:
        return pads.dataset(self.rows)

    def decide(self, records: Iterable[Record], **more: Any) -> Changes:
        held = KeyedTable(snapshot=self, deletions=self.deletions)
        return newest(
            *rows_of(records), KEYS, held, more.pop("topic_id", "T"), **{"log_starts": {}, **more}
        )

    def apply(self, changes: Changes) -> None:
        gone = set(changes.replaced["id"].to_pylist())
        kept = self.rows.filter(
            pa.array([key not in gone for key in self.rows["id"].to_pylist()], pa.bool_())
        )
        assert self.rows.num_rows - kept.num_rows == len(gone) == changes.updated + changes.deleted
        assert changes.rows.num_rows == changes.inserted + changes.updated
        self.rows = pa.concat_tables([kept, changes.rows])
        self.deletions = changes.deletions
        assert not set(self.rows["id"].to_pylist()) & set(changes.deletions["id"].to_pylist())

    @property
    def state(self) -> State:
        return state_of(self.rows)


def state_of(rows: pa.Table) -> State:
    found = {
        row["id"]: (row["value"], row["_partition"], row["_offset"]) for row in rows.to_pylist()
    }
    assert len(found) == rows.num_rows, "a key has two rows"
    return found


@st.composite
def logs(draw: st.DrawFn, *, is_in_order: bool = False) -> list[Record]:
    """Draw a log of up to three partitions.

    A key may lie in several, and clocks may go back unless ``is_in_order``.
    """
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.one_of(st.none(), st.integers(0, 4)),
                st.integers(0, 3),
                st.sampled_from(["row", "row", "delete", NOTHING]),
            ),
            max_size=14,
        )
    )
    ends: dict[int, int] = {}
    found = []
    for number, (partition, seconds, key, makes) in enumerate(drawn):
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        at = number // 2 if is_in_order else seconds
        value = {"row": f"v{number}", "delete": None, NOTHING: NOTHING}[makes]
        found.append(Record(partition, offset, at, key, value))
    return found


@st.composite
def cuts(draw: st.DrawFn, log: Sequence[Record]) -> list[list[Record]]:
    """The log as batches: each takes some records more of each partition, in any proportion."""
    left = {partition: [one for one in log if one.partition == partition] for partition in range(3)}
    batches = []
    while any(left.values()):
        batch = []
        for records in left.values():
            count = draw(st.integers(0, len(records)))
            batch += records[:count]
            del records[:count]
        batches.append(batch or [records.pop(0) for records in left.values() if records])
    return batches


@given(st.data())
@settings(max_examples=of_a_run(10, whole=20), deadline=None)
def test_any_cut_into_batches_gives_what_a_dictionary_gives(data: st.DataObject) -> None:
    log = data.draw(logs())
    table = MemoryTable()
    for batch in data.draw(cuts(log)):
        table.apply(table.decide(batch))
    assert table.state == fold(log)


@given(st.data())
@settings(max_examples=of_a_run(10, whole=20), deadline=None)
def test_a_replay_of_any_part_changes_nothing_where_the_records_make_what_they_made(
    data: st.DataObject,
) -> None:
    log = data.draw(logs())
    table = MemoryTable()
    for batch in data.draw(cuts(log)):
        table.apply(table.decide(batch))
    part, replaced = data.draw(parts(log))
    before = table.state, sorted(table.deletions.to_pylist(), key=str) if table.deletions else []
    table.apply(table.decide(part, replaced=replaced))
    assert (
        table.state,
        sorted(table.deletions.to_pylist(), key=str) if table.deletions else [],
    ) == before


@given(st.data())
@settings(max_examples=of_a_run(20, whole=40), deadline=None)
def test_a_replay_gives_what_a_dictionary_gives_that_reads_the_corrected_records_or_is_refused(
    data: st.DataObject,
) -> None:
    is_in_order = data.draw(st.booleans())
    log = data.draw(logs(is_in_order=is_in_order))
    table = MemoryTable()
    for batch in data.draw(cuts(log)):
        table.apply(table.decide(batch))
    part, replaced = data.draw(parts(log, is_part_possible=is_in_order))
    outcomes = st.sampled_from(["row", None, NOTHING, "same"])
    corrected = {
        one: replace(one, makes=makes) for one in part if (makes := data.draw(outcomes)) != "same"
    }
    try:
        changes = table.decide([corrected.get(one, one) for one in part], replaced=replaced)
    except ProgressError:
        assert not replaced.is_whole
        assert any(one.makes == NOTHING for one in corrected.values())
        return
    table.apply(changes)
    assert table.state == fold(corrected.get(one, one) for one in log)


@st.composite
def parts(
    draw: st.DrawFn, log: Sequence[Record], *, is_part_possible: bool = True
) -> tuple[list[Record], Replaced]:
    """A part of what was committed, at times all of it."""
    ranges = []
    ends = {partition: sum(one.partition == partition for one in log) for partition in range(3)}
    is_whole = not is_part_possible or draw(st.booleans())
    for partition, end in ends.items():
        start = 0 if is_whole else draw(st.integers(0, end))
        until = end if is_whole else draw(st.integers(start, end))
        if start < until:
            ranges.append(OffsetRange(partition=partition, start=start, end=until))
    assume(ranges)
    chosen = OffsetRanges(topic="t", topic_id="T", ranges=tuple(ranges))
    covered = [
        one for one in log if any(one.partition == r.partition and one.offset in r for r in ranges)
    ]
    return covered, Replaced(ranges=chosen, is_whole=len(covered) == len(log))


class Killed(BaseException):
    """The process ends here."""


class Follower:
    """Commits batches to a real table as a run does, and may be killed."""

    def __init__(self, directory: Path) -> None:
        self.lake = Lake(directory / "a lake 100%")

    def snapshot(self) -> TableSnapshot:
        return self.lake.snapshot("t") or self.lake.create("t", SCHEMA, latest_by=KEYS)

    def commit(self, snapshot: TableSnapshot, batch: Sequence[Record]) -> Changes:
        partitions = sorted({one.partition for one in batch})
        ranges = OffsetRanges(
            topic="t",
            topic_id="T",
            ranges=tuple(self._range(batch, partition) for partition in partitions),
        )
        held = KeyedTable(snapshot=snapshot, deletions=remembered_deletions(snapshot))
        changes = newest(*rows_of(batch), KEYS, held, "T", log_starts={})
        expected = snapshot.checkpoints("T", partitions)
        upsert(snapshot, changes, transactions=advance(snapshot, ranges, {}, expected))
        return changes

    @staticmethod
    def _range(batch: Sequence[Record], partition: int) -> OffsetRange:
        offsets = [one.offset for one in batch if one.partition == partition]
        return OffsetRange(partition=partition, start=min(offsets), end=max(offsets) + 1)

    def unread(self, log: Sequence[Record]) -> list[Record]:
        found = self.snapshot().checkpoints("T", range(3))
        return [
            one
            for one in log
            if one.partition not in found or one.offset >= found[one.partition].next_offset
        ]

    @property
    def state(self) -> State:
        return state_of(self.snapshot().dataset().to_table())


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_a_table_that_is_killed_anywhere_ends_as_the_dictionary(data: st.DataObject) -> None:
    log = data.draw(logs())
    with tempfile.TemporaryDirectory() as directory:
        follower = Follower(Path(directory))
        while unread := follower.unread(log):
            batch = data.draw(cuts(unread))[0]
            for place in (
                data.draw(st.sampled_from(["nowhere", "write_deleted_keys", "remove_old_files"])),
                "nowhere",
            ):
                with (
                    mock.patch.object(upserts, place, side_effect=Killed)
                    if place != "nowhere"
                    else mock.patch.dict({})
                ):
                    try:
                        follower.commit(follower.snapshot(), batch)
                    except Killed:
                        if place == "remove_old_files":
                            break
                        continue
                break
        assert follower.state == fold(log)


def record(
    offset: int, key: int, makes: str | None, *, partition: int = 0, seconds: int = 0
) -> Record:
    return Record(partition, offset, seconds, key, makes)


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def test_rows_are_inserted_updated_and_deleted_and_the_commit_says_how_many(
    follower: Follower,
) -> None:
    follower.commit(follower.snapshot(), [record(0, 1, "a"), record(1, 2, "b"), record(2, 3, "c")])
    changes = follower.commit(
        follower.snapshot(),
        [record(3, 1, "A"), record(4, 2, None), record(5, 4, "d"), record(6, 9, None)],
    )
    assert (changes.inserted, changes.updated, changes.deleted) == (1, 1, 1)
    assert follower.state == {1: ("A", 0, 3), 3: ("c", 0, 2), 4: ("d", 0, 5)}
    snapshot = follower.snapshot()
    assert snapshot.row_count == 3
    deletions = remembered_deletions(snapshot)
    assert deletions is not None
    assert sorted(deletions["id"].to_pylist()) == [2, 9]
    assert snapshot.latest_by == KEYS
    assert not snapshot.delta.deletion_vectors().read_all().num_rows
    assert "columnMapping" not in str(snapshot.delta.metadata().configuration)


def test_the_slower_of_two_commits_from_one_version_conflicts_whatever_they_change(
    follower: Follower,
) -> None:
    follower.commit(follower.snapshot(), [record(0, 1, "a"), record(1, 2, "b")])
    changes = [
        record(2, 7, "inserted"),
        record(2, 1, "updated"),
        record(2, 2, None),
        record(2, 8, NOTHING),
    ]
    for slow, fast in itertools.product(changes, repeat=2):
        late, early = follower.snapshot(), follower.snapshot()
        offset = early.checkpoints("T", [0])[0].next_offset
        follower.commit(early, [replace(fast, offset=offset)])
        with pytest.raises(CommitConflictError):
            follower.commit(late, [replace(slow, offset=offset)])


def test_a_replay_and_a_run_from_one_version_conflict(follower: Follower) -> None:
    follower.commit(follower.snapshot(), [record(0, 1, "a")])
    late, early = follower.snapshot(), follower.snapshot()
    held = KeyedTable(snapshot=late, deletions=None)
    ranges = OffsetRanges(
        topic="t", topic_id="T", ranges=(OffsetRange(partition=0, start=0, end=1),)
    )
    replaced = newest(
        *rows_of([record(0, 5, "new")]),
        KEYS,
        held,
        "T",
        log_starts={},
        replaced=Replaced(ranges=ranges, is_whole=True),
    )
    follower.commit(early, [record(1, 5, "b")])
    with pytest.raises(CommitConflictError):
        upsert(late, replaced)


def test_a_run_may_fence_the_table_before_its_commit_and_still_sees_a_rival(
    follower: Follower,
) -> None:
    follower.commit(follower.snapshot(), [record(0, 1, "a"), record(1, 2, "b")])
    own = follower.snapshot()
    fence(own, {"letters/T": 1})
    follower.commit(own, [record(2, 1, "A")])
    late, rival = follower.snapshot(), follower.snapshot()
    changes = decided(late, record(3, 3, "late"))
    upsert(rival, decided(rival, record(0, 3, "rival")))
    fence(late, {"letters/T": 1})
    with pytest.raises(CommitConflictError, match="after it was decided"):
        upsert(late, changes)
    assert follower.state == {1: ("A", 0, 2), 2: ("b", 0, 1), 3: ("rival", 0, 0)}


def decided(snapshot: TableSnapshot, *records: Record) -> Changes:
    return newest(
        *rows_of(records),
        KEYS,
        KeyedTable(snapshot=snapshot, deletions=remembered_deletions(snapshot)),
        "T",
        log_starts={},
    )


def test_merged_files_and_vacuum_keep_rows_checkpoints_and_deleted_keys(follower: Follower) -> None:
    for offset in range(6):
        follower.commit(follower.snapshot(), [record(offset, offset, f"v{offset}")])
    follower.commit(follower.snapshot(), [record(6, 3, None)])
    stale = follower.snapshot()
    before = follower.state
    follower.lake.compact("t")
    assert follower.state == before
    with pytest.raises(CommitConflictError):
        follower.commit(stale, [record(7, 1, "later")])
    follower.lake.vacuum("t", retention_hours=0)
    deletions = remembered_deletions(follower.snapshot())
    assert deletions is not None
    assert deletions["id"].to_pylist() == [3]
    follower.commit(follower.snapshot(), [record(7, 1, "later")])
    assert follower.state[1] == ("later", 0, 7)


def test_files_of_deleted_keys_that_nothing_names_go_after_the_time_that_versions_can_be_read(
    follower: Follower,
) -> None:
    follower.commit(follower.snapshot(), [record(0, 1, "a"), record(1, 1, None)])
    (first,) = (follower.lake.path("t") / upserts.FOLDER).iterdir()
    with mock.patch.object(upserts, "DEFAULT_RETENTION_HOURS", 0):
        follower.commit(follower.snapshot(), [record(2, 2, None)])
    (second,) = (follower.lake.path("t") / upserts.FOLDER).iterdir()
    assert first != second


def test_nested_columns_and_columns_that_are_new_are_merged(tmp_path: Path) -> None:
    nested = pa.struct([("kind", pa.string()), ("tags", pa.list_(pa.string()))])
    schema = SCHEMA.append(pa.field("more", nested)).append(
        pa.field("amount", pa.decimal128(10, 2))
    )
    snapshot = Lake(tmp_path).create("t", schema, latest_by=KEYS)
    for offset, extra in enumerate([{}, {"discount": 3}]):
        row = {
            **record(offset, 1, "a").row(),
            "more": {"kind": f"k{offset}", "tags": ["x", None]},
            "amount": offset,
            **extra,
        }
        fields = schema.append(pa.field("discount", pa.int32())) if extra else schema
        held = KeyedTable(snapshot=snapshot, deletions=None)
        rows = pa.Table.from_pylist([row], fields)
        snapshot = upsert(
            snapshot,
            newest(rows, PLACES.empty_table(), KEYS, held, "T", log_starts={}),
            is_evolving=True,
        )
    (found,) = snapshot.dataset().to_table().to_pylist()
    assert (found["more"], found["discount"], str(found["amount"])) == (
        {"kind": "k1", "tags": ["x", None]},
        3,
        "1.00",
    )


def test_deletions_are_forgotten_once_retention_has_removed_their_records_or_the_topic_is_another() -> (
    None
):
    table = MemoryTable()
    table.apply(table.decide([record(0, 1, None), record(5, 2, None)]))
    table.apply(table.decide([record(6, 3, "x")], log_starts={0: 5}))
    assert table.deletions is not None
    assert table.deletions["id"].to_pylist() == [2]
    table.apply(table.decide([Record(0, 0, 0, 9, "y", "another")], topic_id="another"))
    assert table.deletions.num_rows == 0


def test_a_deletion_is_remembered_until_what_it_may_outdate_is_read_though_retention_has_removed_it() -> (
    None
):
    """The deletion was forgotten with the next batch.

    The older record of the other partition brought the row back.
    """
    log = [
        record(0, 1, None, partition=1),
        *(record(offset, key, "row") for offset, key in enumerate([2, 3, 4, 1])),
    ]
    table, read, starts = MemoryTable(), {0: 0, 1: 0}, {0: 0, 1: 0}
    backlog = len(log)
    while backlog:
        parts = tuple(
            PartitionOffsets(
                partition=one,
                log_start_offset=starts[one],
                last_stable_offset=end,
                high_watermark=end,
            )
            for one, end in ((0, 4), (1, 1))
        )
        committed = {
            partition: Checkpoint(next_offset=offset) for partition, offset in read.items()
        }
        state = TopicState(topic_id="T", log=parts, snapshot=None, committed=committed)
        plan = plan_batch(
            topic="t", topic_id="T", log=parts, committed=committed, epoch_ends={}, limit=2
        )
        batch = [
            one
            for one in log
            if any(one.partition == part.partition and one.offset in part for part in plan.ranges)
        ]
        table.apply(table.decide(batch, log_starts=state.forgotten_below(plan.backlog)))
        read, starts, backlog = {**read, **plan.ranges.ends()}, {0: 0, 1: 1}, plan.backlog
    assert set(table.state) == {2, 3, 4}
    assert table.deletions is not None
    assert table.deletions.num_rows == 0, "all that it could outdate is read"


def test_a_record_of_a_topic_made_anew_is_newer_than_any_of_the_former_one() -> None:
    table = MemoryTable()
    table.apply(table.decide([record(100, 1, "old", seconds=1_000)]))
    table.apply(table.decide([Record(0, 0, 3, 1, "new", "another")], topic_id="another"))
    assert table.state == {1: ("new", 0, 0)}


def test_a_refused_replay_names_the_keys() -> None:
    table = MemoryTable()
    table.apply(table.decide([record(0, 1, "a"), record(1, 1, "b"), record(2, 2, "c")]))
    ranges = OffsetRanges(
        topic="t", topic_id="T", ranges=(OffsetRange(partition=0, start=1, end=2),)
    )
    with pytest.raises(
        ProgressError, match=r"1 keys of topic t .* 0:1 \(1, key-1\)\. .* Replay everything"
    ):
        table.decide([], replaced=Replaced(ranges=ranges, is_whole=False))
