"""Records on which a transform throws are found by halves, alone and together, in few computations."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from orchestration.offsets.ranges import OffsetRange, OffsetRanges, Places
from orchestration.transforms.batch.isolation import Isolation, allowed, halves, sentence
from orchestration.transforms.declarations import MOST_FAILED, validate_max_failed
from orchestration.transforms.errors import ExecutionError, TransformError

Place = tuple[int, int]
RANGES = (
    OffsetRange(partition=0, start=100, end=1_100),
    OffsetRange(partition=3, start=0, end=1),
    OffsetRange(partition=4, start=7, end=3_000),
)
EVERY = [(one.partition, offset) for one in RANGES for offset in range(one.start, one.end)]


@dataclass
class Records:
    """Computes records, and fails where ``is_failing`` says so of those that it is given."""

    is_failing: Callable[[list[Place]], bool]
    places: Sequence[Place] = field(default_factory=lambda: EVERY)
    computations: int = 0

    def compute(self, ranges: Sequence[OffsetRange], without: Places) -> pa.Table:
        self.computations += 1
        given = [
            (partition, offset)
            for partition, offset in self.places
            if any(one.partition == partition and offset in one for one in ranges)
            and offset not in without.get(partition, ())
        ]
        if self.is_failing(given):
            raise ExecutionError("Spark failed") from ArithmeticError(
                "by zero SQLSTATE: 22012\n== SQL =="
            )
        return pa.table({"place": [str(one) for one in given]})

    def run(
        self, limit: int = MOST_FAILED, *, is_declared: bool = True, forgiven: Places | None = None
    ) -> tuple[list[str], list[Place]]:
        ranges = OffsetRanges(topic="orders", topic_id="T", ranges=RANGES)
        found = Isolation(
            name="t",
            ranges=ranges,
            compute=self.compute,
            limit=limit,
            is_declared=is_declared,
            forgiven=forgiven or {},
        )
        rows, rejections = found.run(ExecutionError("all of it"))
        assert {one.rule for one in rejections} == {"transform"}
        return rows["place"].to_pylist(), [(one.partition, one.offset) for one in rejections]


def failing(*places: Place) -> Records:
    return Records(lambda given: not set(places).isdisjoint(given))


@pytest.mark.parametrize("seed", range(8))
def test_each_failing_record_is_found_and_all_others_are_rows(seed: int) -> None:
    draw = random.Random(seed)
    bad = sorted(draw.sample(EVERY, draw.choice([1, 1, 2, 7, 40])))
    work = failing(*bad)
    rows, found = work.run()
    assert found == bad, f"seed {seed}"
    assert rows == [str(one) for one in EVERY if one not in bad]
    assert work.computations <= 2 * 13 * len(bad) + 3


def test_offsets_without_record_are_no_records() -> None:
    """Compaction and aborted transactions leave gaps."""
    work = failing((4, 2_000))
    work.places = [one for one in EVERY if one[1] % 100 == 0]
    assert work.run()[1] == [(4, 2_000)]


def test_a_batch_of_one_record_is_computed_again_before_the_record_is_blamed() -> None:
    """A full disk or a lost worker fails a batch once, whatever its records are."""
    only = OffsetRanges(
        topic="orders", topic_id="T", ranges=(OffsetRange(partition=0, start=7, end=8),)
    )
    computed = Isolation(
        name="t",
        ranges=only,
        compute=lambda _ranges, _failed: pa.table({"place": ["7"]}),
        limit=1,
        is_declared=True,
    )
    with pytest.raises(ExecutionError, match="all of it"):
        failing_without_records(only).run(ExecutionError("all of it"))
    with pytest.raises(TransformError, match="for no record alone"):
        computed.run(ExecutionError("all of it"))


def failing_without_records(ranges: OffsetRanges) -> Isolation:
    def compute(_ranges: Sequence[OffsetRange], _failed: Places) -> pa.Table:
        raise ExecutionError("all of it")

    return Isolation(name="t", ranges=ranges, compute=compute, limit=1, is_declared=True)


def test_what_fails_together_alone_or_without_records_is_no_record_s_fault() -> None:
    with pytest.raises(
        TransformError,
        match=r"fails for the offsets .* of the topic orders, and for no record alone",
    ):
        Records(lambda given: len(given) > 50).run()
    without_records = Records(lambda given: True)
    with pytest.raises(ExecutionError, match="all of it"):
        without_records.run()
    assert without_records.computations == 1


def test_a_table_that_bears_none_names_the_first_record_of_many() -> None:
    work = failing(*EVERY[500:])
    with pytest.raises(
        TransformError,
        match=r"record at partition 0, offset 600 of the topic orders: ArithmeticError: by zero. Nothing",
    ):
        work.run(0, is_declared=False)
    assert work.computations < 20


def test_more_than_are_borne_commit_nothing_and_known_dead_letters_are_not_counted() -> None:
    bad = EVERY[10:15]
    assert failing(*bad).run(5)[1] == bad
    with pytest.raises(
        TransformError,
        match=r"more than 4 records of a batch.*0:110, 0:111, 0:112, 0:113, 0:114 of the topic orders",
    ):
        failing(*bad).run(4)
    assert failing(*bad).run(4, forgiven={0: [112]})[1] == bad
    with pytest.raises(TransformError, match="offset 111"):
        failing(*bad).run(0, is_declared=False, forgiven={0: [110]})


def test_halves_are_halves_of_the_offsets() -> None:
    first, second = halves(RANGES)
    assert sum(one.count for one in first) == len(EVERY) // 2
    assert [
        (one.partition, offset) for one in (*first, *second) for offset in range(one.start, one.end)
    ] == EVERY


@pytest.mark.parametrize(
    ("declared", "records", "borne"),
    [(None, 9, 0), (3, 1, 3), (0.01, 500, 5), (0.01, 7, 1), (1.0, 7, 7), (0.5, 10**6, MOST_FAILED)],
)
def test_a_share_is_of_the_records_of_a_batch_and_bounded(
    declared: float | None, records: int, borne: int
) -> None:
    validate_max_failed("t", declared)
    assert allowed(declared, records) == borne


@pytest.mark.parametrize("declared", [0, -1, 1_001, 0.0, 1.5, True, "3", float("nan")])
def test_what_is_neither_count_nor_share_is_refused(declared: float) -> None:
    with pytest.raises(ValueError, match="max_failed of t is"):
        validate_max_failed("t", declared)


def test_what_was_thrown_is_one_line() -> None:
    traceback = "PythonException: thrown:\nTraceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no int: 'x'\n SQLSTATE: 38000"
    assert sentence(Exception(traceback)) == "ValueError: no int: 'x'"
    spark = "NumberFormatException: [CAST_INVALID_INPUT] The value 'x' cannot be cast. SQLSTATE: 22018\n== SQL (line 1) ==\nCAST(note AS INT)"
    assert (
        sentence(Exception(spark))
        == "NumberFormatException: [CAST_INVALID_INPUT] The value 'x' cannot be cast."
    )
    assert len(sentence(Exception("E: " + "x" * 1_000))) == 403
