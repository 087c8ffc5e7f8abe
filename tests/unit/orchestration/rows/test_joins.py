"""Joins by key and event time give the same rows for batches of any size. Late records are told."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pytest

from orchestration.dead_letters.table import Rejection
from orchestration.rows import joins
from orchestration.rows.joins import (
    LEFT,
    MATCHED,
    OTHER,
    RIGHT,
    SIDES,
    Arrivals,
    How,
    JoinClock,
    JoinShape,
    Side,
    first_clock,
    joined,
)
from orchestration.values.times import moment

SCHEMA = pa.schema(
    [
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
NOW_US = 10**9
Record = tuple[int, int, str | None, int | None]
"""Partition, offset, key and event time in microseconds."""
Place = tuple[int, int]
Given = tuple[Place | None, Place | None]


def shape(**changes: Any) -> JoinShape:
    usual = JoinShape(
        on=(("k", "k"),), event_time=("at", "at"), before_us=10, after_us=10, lateness_us=5
    )
    return replace(usual, **changes)


def rows(side: str, records: list[Record]) -> pa.Table:
    columns = [
        {
            "_topic_id": f"id-{side}",
            "_partition": partition,
            "_offset": offset,
            "k": key,
            "at": None if at is None else moment(at),
        }
        for partition, offset, key, at in records
    ]
    return pa.Table.from_pylist(columns, schema=SCHEMA)


@dataclass
class Joining:
    """A join as its runs go on."""

    shape: JoinShape
    clock: JoinClock = field(
        default_factory=lambda: first_clock({side: f"id-{side}" for side in SIDES}, 0)
    )
    kept: dict[Side, pa.Table] = field(
        default_factory=lambda: {
            side: SCHEMA.append(pa.field(MATCHED, pa.bool_())).empty_table() for side in SIDES
        }
    )
    given: Counter[Given] = field(default_factory=Counter)
    rejected: dict[Side, list[Rejection]] = field(
        default_factory=lambda: {side: [] for side in SIDES}
    )

    def take(
        self,
        left: list[Record],
        right: list[Record],
        *,
        waiting: dict[Side, set[int]] | None = None,
        is_any_read: dict[Side, bool] | None = None,
        now_us: int = NOW_US,
    ) -> None:
        batch = {LEFT: left, RIGHT: right}
        arrivals = {
            side: Arrivals(
                topic_id=f"id-{side}",
                rows=rows(side, batch[side]),
                waiting=frozenset((waiting or {}).get(side, set())),
                is_any_read=(is_any_read or {}).get(side, bool(batch[side])),
            )
            for side in SIDES
        }
        step = joined(self.shape, self.kept, self.clock, arrivals, now_us)
        self.kept, self.clock = dict(step.kept), step.clock
        for row in step.rows.to_pylist():
            self.given[place(row["_left"]), place(row["_right"])] += 1
            for side in SIDES:
                assert row[side] is None or (row[side]["k"], row[side]["_offset"]) == (
                    row["k"],
                    row[f"_{side}"]["offset"],
                )
        for side in SIDES:
            self.rejected[side] += step.rejections[side]

    @property
    def late(self) -> dict[Side, set[Place]]:
        return {
            side: {(one.partition, one.offset) for one in self.rejected[side] if one.rule == "late"}
            for side in SIDES
        }


def place(struct: dict[str, Any] | None) -> Place | None:
    return None if struct is None else (struct["partition"], struct["offset"])


FAR_US = [-(10**17), 1_700_000_000_000 * 10**6, 2**63 - 1]
"""Before the year 1; milliseconds that were read as seconds; the last one there is."""


@pytest.mark.parametrize("far_us", FAR_US)
@pytest.mark.parametrize("side", SIDES)
def test_a_time_outside_of_all_years_is_rejected_and_keeps_no_other_row_from_its_partner(
    side: Side, far_us: int
) -> None:
    joining = Joining(shape())
    joining.take([(0, 0, "a", 1_000)], [(0, 0, "a", 1_000)])
    far = rows(side, [(0, 1, "a", None)])
    far = far.set_column(
        far.schema.get_field_index("at"),
        "at",
        pa.array([far_us], pa.int64()).cast(SCHEMA.field("at").type),
    )
    arrivals = {
        one: Arrivals(
            topic_id=f"id-{one}", rows=far if one == side else rows(one, [(0, 2, "b", 1_001)])
        )
        for one in SIDES
    }
    step = joined(joining.shape, joining.kept, joining.clock, arrivals, NOW_US)
    assert [(one.offset, one.rule) for one in step.rejections[side]] == [(1, "event_time")]
    assert step.kept[OTHER[side]]["_offset"].to_pylist() == [0, 2]
    assert step.kept[side]["_offset"].to_pylist() == [0]


DAY_US = 86_400 * 10**6


@pytest.mark.parametrize(
    ("at_us", "stamp_us", "is_ahead"),
    [
        (NOW_US + DAY_US, NOW_US, False),
        (NOW_US + DAY_US + 1, NOW_US, True),
        (NOW_US + DAY_US + 1, NOW_US + 10**15, True),
        (NOW_US + DAY_US + 1, None, True),
        (DAY_US, 0, False),
        (DAY_US + 1, 0, True),
    ],
)
@pytest.mark.parametrize("side", SIDES)
def test_a_time_far_ahead_of_its_record_and_of_the_clock_is_rejected(
    side: Side, at_us: int, stamp_us: int | None, is_ahead: bool
) -> None:
    """The join would keep such a row for a partner until then, and many of them stop it for good."""
    joining = Joining(shape(ahead_us=DAY_US))
    one = rows(side, [(0, 7, "a", at_us)])
    stamps = pa.array([stamp_us], pa.int64()).cast(SCHEMA.field("_timestamp").type)
    given = {
        side: one.set_column(SCHEMA.get_field_index("_timestamp"), "_timestamp", stamps),
        OTHER[side]: rows(OTHER[side], []),
    }
    arrivals = {each: Arrivals(topic_id=f"id-{each}", rows=given[each]) for each in SIDES}
    step = joined(joining.shape, joining.kept, joining.clock, arrivals, NOW_US)
    assert [(one.offset, one.rule) for one in step.rejections[side]] == (
        [(7, "event_time")] if is_ahead else []
    )
    assert step.kept[side].num_rows == (0 if is_ahead else 1)
    if is_ahead:
        assert "more than 1 day, 0:00:00 ahead of" in step.rejections[side][0].reason


@dataclass
class ValueFaults:
    """Knows the rule of lateness, and joins at once whatever was in time."""

    shape: JoinShape
    watermark: int | None = None
    greatest: dict[Side, int] = field(default_factory=dict)
    accepted: dict[Side, list[Record]] = field(default_factory=lambda: {side: [] for side in SIDES})
    late: dict[Side, set[Place]] = field(default_factory=lambda: {side: set() for side in SIDES})

    def take(self, left: list[Record], right: list[Record]) -> None:
        for side, records in ((LEFT, left), (RIGHT, right)):
            for record in records:
                at = cast("int", record[3])
                if self.watermark is not None and at < self.watermark:
                    self.late[side].add(record[:2])
                else:
                    self.accepted[side].append(record)
        for side, records in ((LEFT, left), (RIGHT, right)):
            times = [cast("int", record[3]) for record in records]
            if times:
                self.greatest[side] = max(*times, self.greatest.get(side, times[0]))
        if len(self.greatest) == len(SIDES):
            mark = min(self.greatest.values()) - self.shape.lateness_us
            self.watermark = mark if self.watermark is None else max(mark, self.watermark)

    def expected(self) -> Counter[Given]:
        found: Counter[Given] = Counter()
        alone = {side: {record[:2]: record for record in self.accepted[side]} for side in SIDES}
        for left in self.accepted[LEFT]:
            for right in self.accepted[RIGHT]:
                between = cast("int", right[3]) - cast("int", left[3])
                if left[2] == right[2] and -self.shape.before_us <= between <= self.shape.after_us:
                    found[left[:2], right[:2]] += 1
                    alone[LEFT].pop(left[:2], None)
                    alone[RIGHT].pop(right[:2], None)
        for side in SIDES:
            for where, record in alone[side].items() if self.shape.how in {side, "full"} else ():
                reach = self.shape.after_us if side == LEFT else self.shape.before_us
                if self.watermark is not None and cast("int", record[3]) + reach < self.watermark:
                    found[(where, None) if side == LEFT else (None, where)] += 1
        return found


def drawn(draw: random.Random, count: int, disorder: int) -> list[Record]:
    """Return records of both partitions whose times rise, but for a disorder."""
    offsets = Counter[int]()
    found: list[Record] = []
    for number in range(count):
        partition = draw.randrange(2)
        found.append(
            (
                partition,
                offsets[partition],
                draw.choice("abcdefgh"),
                1_000 + number * 3 + draw.randint(-disorder, disorder),
            )
        )
        offsets[partition] += 1
    return found


def cut(
    draw: random.Random, left: list[Record], right: list[Record]
) -> list[tuple[list[Record], list[Record]]]:
    batches = []
    start = {LEFT: 0, RIGHT: 0}
    while start[LEFT] < len(left) or start[RIGHT] < len(right):
        ends = {side: start[side] + draw.randrange(20) for side in SIDES}
        batches.append((left[start[LEFT] : ends[LEFT]], right[start[RIGHT] : ends[RIGHT]]))
        start = ends
    return batches


@pytest.mark.parametrize("seed", range(10))
def test_batches_give_what_joining_everything_that_was_in_time_at_once_gives(seed: int) -> None:
    draw = random.Random(seed)
    how = cast("How", draw.choice(["inner", "left", "right", "full"]))
    before = draw.randrange(-5, 20)
    declared = shape(
        how=how,
        before_us=before,
        after_us=draw.randrange(-before, 20),
        lateness_us=draw.randrange(30),
    )
    joining, judge = Joining(declared), ValueFaults(declared)
    for left, right in cut(draw, drawn(draw, 70, 25), drawn(draw, 70, 25)):
        joining.take(left, right)
        judge.take(left, right)
        assert joining.late == judge.late, f"seed {seed}"
        assert joining.given == judge.expected(), f"seed {seed}"
        assert joining.clock.watermark_us == judge.watermark, f"seed {seed}"
        for side in SIDES:
            reach = declared.reach_us(side)
            for at in joining.kept[side]["at"].cast(pa.int64()).to_pylist():
                assert judge.watermark is None or at + reach >= judge.watermark, (
                    f"seed {seed}: {side} keeps what finds no partner"
                )


@pytest.mark.parametrize("seed", range(4))
def test_how_records_are_cut_into_batches_makes_no_difference_where_none_is_late(seed: int) -> None:
    draw = random.Random(seed)
    declared = shape(how="full", before_us=7, after_us=20, lateness_us=50)
    left, right = drawn(draw, 60, 20), drawn(draw, 60, 20)
    ending: list[Record] = [(0, 1_000, "end", 5_000)]
    results = []
    for _ in range(4):
        joining = Joining(declared)
        for batch in [*cut(draw, left, right), (ending, ending)]:
            joining.take(*batch)
        assert not any(joining.rejected.values()), f"seed {seed}"
        results.append(joining.given)
    assert all(one == results[0] for one in results), f"seed {seed}"
    assert (
        len(
            {
                side
                for pair in results[0]
                for side in SIDES
                if pair[SIDES.index(OTHER[side])] is None
            }
        )
        == 2
    ), "outer rows of both sides"


def test_a_record_below_the_watermark_is_late_and_says_by_how_much() -> None:
    joining = Joining(shape(lateness_us=60_000_000))
    joining.take([(0, 0, "a", 1_000_000_000)], [(0, 0, "a", 1_000_000_000)], now_us=10**10)
    joining.take([(0, 1, "a", 877_000_000)], [(0, 1, "a", 940_000_000)], now_us=10**10)
    assert [(one.partition, one.offset, one.rule) for one in joining.rejected[LEFT]] == [
        (0, 1, "late")
    ]
    assert joining.rejected[LEFT][0].reason == (
        "late by 0:01:03: at is 1970-01-01T00:14:37+00:00, and the watermark was at 1970-01-01T00:15:40+00:00"
    )
    assert not joining.rejected[RIGHT], "what is at the watermark is in time"


def test_rows_without_key_or_time_are_rejected_and_join_nothing() -> None:
    joining = Joining(shape(how="full"))
    joining.take(
        [(0, 0, None, 100), (0, 1, "a", None), (1, 0, "a", 100)],
        [(0, 0, None, 100), (0, 1, None, None)],
    )
    told = {
        side: [(one.partition, one.offset, one.rule, one.reason) for one in joining.rejected[side]]
        for side in SIDES
    }
    why = "the column k, by which records are joined, is null"
    assert told[LEFT] == [(0, 0, "join_on", why), (0, 1, "event_time", "the event time at is null")]
    assert told[RIGHT] == [(0, 0, "join_on", why), (0, 1, "join_on", why)]
    assert not joining.given


def test_a_side_that_stands_still_holds_the_watermark_until_it_is_idle() -> None:
    joining = Joining(shape(how="left", idle_after_us=1_000))
    joining.take([(0, 0, "a", 100)], [(0, 0, "b", 100)], now_us=10_000)
    joining.take([(0, 1, "a", 500)], [], now_us=10_999)
    assert (joining.clock.watermark_us, joining.given) == (95, Counter())
    joining.take([(0, 2, "c", 510)], [], waiting={RIGHT: {0}}, now_us=12_000)
    assert joining.clock.watermark_us == 95, "a topic with more to read is not idle"
    joining.take([(0, 3, "c", 520)], [], now_us=12_000)
    assert (joining.clock.watermark_us, joining.given) == (
        515,
        Counter({((0, 0), None): 1, ((0, 1), None): 1}),
    )
    joining.take([], [(0, 1, "c", 514)], now_us=12_100)
    assert joining.late[RIGHT] == {(0, 1)}
    joining.take([], [(0, 2, "c", 516)], now_us=12_200)
    assert joining.given[(0, 2), (0, 2)] == 1, "the side that comes back joins what is kept"


def test_a_side_without_any_record_holds_the_watermark_unless_it_is_idle() -> None:
    joining = Joining(shape(how="left"))
    joining.take([(0, 0, "a", 100)], [])
    joining.take([(0, 1, "a", 900)], [])
    assert (joining.clock.watermark_us, joining.kept[LEFT].num_rows) == (None, 2)
    waited = Joining(shape(how="left", idle_after_us=1_000))
    waited.take([(0, 0, "a", 100)], [], now_us=900)
    waited.take([(0, 1, "a", 900)], [], now_us=1_000)
    assert (waited.clock.watermark_us, waited.given) == (895, Counter({((0, 0), None): 1}))


def test_in_a_backlog_the_partition_that_is_behind_holds_the_watermark() -> None:
    joining = Joining(shape())
    joining.take([(0, 0, "a", 900), (1, 0, "a", 100)], [(0, 0, "a", 900)], waiting={LEFT: {1}})
    assert joining.clock.watermark_us == 95
    joining.take([(1, 1, "a", 200)], [(0, 1, "a", 900)], waiting={LEFT: {1, 2}})
    assert joining.clock.watermark_us == 95, (
        "a partition of which nothing was read holds it where it is"
    )
    joining.take([(1, 2, "a", 300), (2, 0, "a", 100)], [])
    assert (joining.clock.watermark_us, joining.late[LEFT]) == (895, set())


def test_a_time_ahead_of_the_clock_does_not_move_the_watermark() -> None:
    joining = Joining(shape())
    joining.take([(0, 0, "a", 10**12), (0, 1, "a", 100)], [(0, 0, "a", 10**12)], now_us=1_000)
    assert (joining.clock.watermark_us, joining.given) == (None, Counter({((0, 0), (0, 0)): 1}))
    joining.take([], [(0, 1, "a", 100)], now_us=1_000)
    assert joining.clock.watermark_us == 95


def test_the_watermark_never_goes_back_and_a_topic_created_anew_starts_its_times_anew() -> None:
    joining = Joining(shape())
    joining.take([(0, 0, "a", 500)], [(0, 0, "a", 500)])
    anew = {
        LEFT: Arrivals(topic_id="another", rows=rows(LEFT, [(0, 0, "a", 300)])),
        RIGHT: Arrivals(topic_id="id-right", rows=rows(RIGHT, [(0, 1, "a", 800)])),
    }
    step = joined(joining.shape, joining.kept, joining.clock, anew, NOW_US)
    assert (step.clock.watermark_us, step.clock.left.greatest_us) == (495, {0: 300})
    assert step.clock.watermark == datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(
        microseconds=495
    )


def test_too_many_pairs_of_one_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "MAX_PAIRS", 20)
    joining = Joining(shape())
    joining.take(
        [(0, number, "a", 100) for number in range(5)],
        [(0, number, "a", 100) for number in range(4)],
    )
    with pytest.raises(
        joins.JoinError,
        match=r"more than 20 pairs: k is the same in too many records .* records_per_run",
    ):
        joining.take(
            [(0, number, "a", 100) for number in range(5, 8)],
            [(0, number, "a", 100) for number in range(4, 7)],
        )


def test_a_hot_key_and_equal_times_give_each_pair_once() -> None:
    joining = Joining(shape(before_us=0, after_us=0))
    joining.take(
        [(0, number, "a", 100) for number in range(5)],
        [(1, number, "a", 100) for number in range(4)],
    )
    joining.take([(0, 5, "a", 100)], [(1, 4, "a", 100)])
    assert len(joining.given) == 6 * 5
    assert set(joining.given.values()) == {1}
