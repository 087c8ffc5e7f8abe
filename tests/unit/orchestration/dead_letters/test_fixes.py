"""Fixes of rejected records are kept once per offset.

They are read in place of the record, and made by hand or by a function.
"""

import pickle
from pathlib import Path

import pytest

from orchestration.dead_letters.fixes import (
    ChosenReader,
    Fix,
    FixedReader,
    FixError,
    Fixes,
    fix_of,
    repaired,
    replay_ranges,
)
from orchestration.dead_letters.places import Place, PlaceError
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.offsets.ranges import OffsetRange
from tests.unit.orchestration.dead_letter_parts import commit_target, letters_for, origin, ranges
from tests.unit.orchestration.memory_log import MemoryLog


def fix(offset: int, value: bytes | None, topic_id: str = "T") -> Fix:
    return Fix(topic_id=topic_id, partition=0, offset=offset, value=value)


@pytest.fixture
def letters(tmp_path: Path) -> DeadLetters:
    made = DeadLetters(Lake(tmp_path / "lake"))
    attempt = made.replace_pending(
        made.snapshot(), origin(), ranges((0, 0, 9)), {}, letters_for((0, 1), (0, 3), (0, 8))
    )
    commit_target(made.lake, (0, 0, 9), attempt=attempt)
    return made


def test_the_newest_fix_of_an_offset_is_the_one_that_is_kept(tmp_path: Path) -> None:
    fixes = Fixes(Lake(tmp_path))
    assert fixes.of("clean", "T") == {}
    fixes.put("clean", [fix(1, b"a"), fix(2, b"b"), fix(1, b"another topic", topic_id="U")])
    fixes.put("clean", [fix(2, None), fix(3, b"c")])
    fixes.put("other", [fix(1, b"of another table")])
    assert fixes.of("clean", "T") == {(0, 1): b"a", (0, 2): None, (0, 3): b"c"}
    assert fixes.of("clean", "U") == {(0, 1): b"another topic"}


def test_the_beginning_of_a_record_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    letters = DeadLetters(Lake(tmp_path / "lake"))
    why = (
        "the record has 9 bytes, and a run takes at most 8 of one (TIDELOG_RECORD_BYTES): ...",
        "the value is not JSON",
    )
    found = letters_for((0, 0), (0, 1))
    found = found.set_column(found.schema.get_field_index("reason"), "reason", [list(why)])
    attempt = letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 9)), {}, found)
    commit_target(letters.lake, (0, 0, 9), attempt=attempt)
    assert [one.offset for one in repaired(letters, "clean", lambda _: b"mended")] == [1]


def test_records_are_read_as_they_should_have_been_also_in_another_process() -> None:
    log = MemoryLog()
    for number in range(4):
        log.add_topic("t", 2) if number == 0 else None
        log.topics["t"].partitions[0].append(b"%d" % number, key=b"k")
    reader = pickle.loads(
        pickle.dumps(
            FixedReader(log.range_reader(), {(0, 1): b"one", (0, 2): None, (1, 0): b"elsewhere"})
        )
    )
    (batch,) = reader("t", OffsetRange(partition=0, start=0, end=4))
    assert batch["value"].to_pylist() == [b"0", b"one", None, b"3"]
    assert batch["key"].to_pylist() == [b"k"] * 4
    assert batch["offset"].to_pylist() == [0, 1, 2, 3]


def test_a_reader_of_chosen_records_leaves_the_others_out_and_survives_the_way_to_a_worker() -> (
    None
):
    log = MemoryLog()
    partition = log.add_topic("t", 2).partitions[0]
    for number in range(5):
        partition.append(b"%d" % number)
    fixed = FixedReader(log.range_reader(), {(0, 1): b"one"})
    reader = pickle.loads(pickle.dumps(ChosenReader(fixed, {0: [1, 3, 9]})))
    (batch,) = reader("t", OffsetRange(partition=0, start=0, end=5))
    assert (batch["offset"].to_pylist(), batch["value"].to_pylist()) == ([1, 3], [b"one", b"3"])
    assert list(reader("t", OffsetRange(partition=1, start=0, end=0))) == []
    assert list(reader("t", OffsetRange(partition=0, start=4, end=5))) == []


def test_only_what_was_rejected_can_be_fixed(letters: DeadLetters) -> None:
    assert fix_of(letters, "clean", Place(partition=0, offset=3), b"x") == fix(3, b"x")
    with pytest.raises(PlaceError, match="clean has no dead letter at 0:2"):
        fix_of(letters, "clean", Place(partition=0, offset=2), b"x")


def test_a_function_fixes_what_it_changes(letters: DeadLetters) -> None:
    assert repaired(letters, "clean", lambda value: value) == []
    assert repaired(letters, "clean", lambda value: b"new") == [
        fix(1, b"new"),
        fix(3, b"new"),
        fix(8, b"new"),
    ]
    assert repaired(letters, "clean", lambda value: b"new", rule="another") == []
    with pytest.raises(FixError, match="the repair of clean 0:1 raised TypeError"):
        repaired(letters, "clean", lambda value: value + b"")  # type: ignore[operator]
    with pytest.raises(FixError, match="returned str: it has to return bytes"):
        repaired(letters, "clean", lambda value: "text")  # type: ignore[arg-type, return-value]


def test_ranges_cover_the_fixes(letters: DeadLetters) -> None:
    assert [str(one) for one in replay_ranges([fix(1, b""), fix(2, b""), fix(8, b"")])] == [
        "0:[1,3)",
        "0:[8,9)",
    ]
