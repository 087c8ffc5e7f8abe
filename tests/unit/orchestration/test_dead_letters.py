"""Dead letters: what is pending and what counts, rivals, replays."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from orchestration.checkpoints import Checkpoint
from orchestration.dead_letters import DeadLetters, Origin, Rejection, envelopes
from orchestration.offsets import OffsetRange, OffsetRanges
from orchestration.tables import CommitConflictError, Lake, append_with_offsets

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RECORDS = pa.schema(
    [
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
TARGET_SCHEMA = pa.schema([("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])


def origin(target: str = "clean") -> Origin:
    return Origin(target=target, topic="t", topic_id="T", run_id="r")


def letters_for(*places: tuple[int, int], target: str = "clean", reason: str = "bad") -> pa.Table:
    rejections = [Rejection(partition=partition, offset=offset, reason=reason, rule="rule") for partition, offset in places]
    values = [[one[0] for one in places], [one[1] for one in places], [NOW] * len(places), [b"k"] * len(places), [None] * len(places)]
    return envelopes(origin(target), rejections, pa.table(values, schema=RECORDS), NOW)


def ranges(*bounds: tuple[int, int, int]) -> OffsetRanges:
    return OffsetRanges(topic="t", topic_id="T", ranges=tuple(OffsetRange(partition=one[0], start=one[1], end=one[2]) for one in bounds))


def commit_target(lake: Lake, *bounds: tuple[int, int, int], target: str = "clean") -> None:
    snapshot = lake.snapshot(target) or lake.create(target, TARGET_SCHEMA)
    covered = ranges(*bounds)
    append_with_offsets(snapshot, TARGET_SCHEMA.empty_table(), covered, {}, expected=snapshot.checkpoints("T", covered.ends()))


def places(dataset: pa.dataset.Dataset) -> list[tuple[str, int, int]]:
    found = dataset.to_table(columns=["target", "_partition", "_offset"]).to_pylist()
    return sorted((row["target"], row["_partition"], row["_offset"]) for row in found)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def letters(lake: Lake) -> DeadLetters:
    return DeadLetters(lake)


def test_an_envelope_says_what_was_rejected_where_and_why() -> None:
    (row,) = letters_for((0, 7)).to_pylist()
    assert row == {
        "target": "clean",
        "topic": "t",
        "_topic_id": "T",
        "_partition": 0,
        "_offset": 7,
        "_timestamp": NOW,
        "key": b"k",
        "value": None,
        "reason": "bad",
        "rule": "rule",
        "run_id": "r",
        "rejected_at": NOW,
    }
    with pytest.raises(LookupError, match="1 rejected records of topic t are not in the batch"):
        envelopes(origin(), [Rejection(partition=0, offset=9, reason="", rule="")], pa.table([[], [], [], [], []], schema=RECORDS), NOW)


def test_dead_letters_are_pending_until_their_target_commits(lake: Lake, letters: DeadLetters) -> None:
    assert letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1), (0, 3)))
    assert places(letters.pending()) == [("clean", 0, 1), ("clean", 0, 3)]
    assert places(letters.committed()) == []
    commit_target(lake, (0, 0, 5))
    assert places(letters.pending()) == []
    assert places(letters.committed()) == [("clean", 0, 1), ("clean", 0, 3)]
    assert letters.summary() == [{"target": "clean", "topic": "t", "rule": "rule", "reason": "bad", "count": 2}]


def test_the_next_attempt_replaces_what_a_killed_one_left_and_nothing_else(lake: Lake, letters: DeadLetters) -> None:
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1)))
    commit_target(lake, (0, 0, 5))
    letters.replace_pending(letters.snapshot(), origin("other"), ranges((0, 0, 9)), {}, letters_for((0, 8), target="other"))
    committed = {0: Checkpoint(next_offset=5)}
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 5, 9)), committed, letters_for((0, 6), (0, 8)))
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 5, 7)), committed, letters_for((0, 5)))
    assert places(letters.pending()) == [("clean", 0, 5), ("other", 0, 8)]
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 5, 7)), committed, letters_for())
    assert places(letters.pending()) == [("other", 0, 8)]
    assert places(letters.committed()) == [("clean", 0, 1)]


def test_nothing_rejected_and_nothing_pending_is_no_commit(letters: DeadLetters) -> None:
    version = letters.snapshot().version
    assert not letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for())
    assert letters.snapshot().version == version


def test_a_slower_rival_conflicts_instead_of_erasing(lake: Lake, letters: DeadLetters) -> None:
    slow = letters.snapshot()
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1)))
    commit_target(lake, (0, 0, 5))
    with pytest.raises(CommitConflictError):
        letters.replace_pending(slow, origin(), ranges((0, 0, 3)), {}, letters_for((0, 2)))
    assert places(letters.committed()) == [("clean", 0, 1)]


def test_other_targets_do_not_stand_in_the_way(letters: DeadLetters) -> None:
    mine = letters.snapshot()
    for offset in range(3):
        letters.replace_pending(letters.snapshot(), origin("other"), ranges((0, 0, 9)), {}, letters_for((0, offset), target="other"))
    letters.replace_pending(mine, origin(), ranges((0, 0, 5)), {}, letters_for((0, 1)))
    assert places(letters.pending()) == [("clean", 0, 1), ("other", 0, 2)]


def test_a_replay_adds_before_it_takes_away(lake: Lake, letters: DeadLetters) -> None:
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 9)), {}, letters_for((0, 1), (0, 3), (0, 8)))
    commit_target(lake, (0, 0, 9))
    again = letters_for((0, 3), (0, 4), reason="still bad")
    letters.add_replayed(letters.snapshot(), origin(), ranges((0, 0, 5)), again)
    assert places(letters.committed()) == [("clean", 0, 1), ("clean", 0, 3), ("clean", 0, 4), ("clean", 0, 8)]
    letters.settle_replayed(origin(), ranges((0, 0, 5)), again)
    assert places(letters.committed()) == [("clean", 0, 3), ("clean", 0, 4), ("clean", 0, 8)]
    assert {row["reason"] for row in letters.summary()} == {"bad", "still bad"}


def test_replay_ranges_cover_the_dead_letters_of_a_target(lake: Lake, letters: DeadLetters) -> None:
    letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 9), (1, 0, 9)), {}, letters_for((0, 1), (0, 2), (1, 8)))
    assert letters.replay_ranges("clean", "T") == []
    commit_target(lake, (0, 0, 9), (1, 0, 9))
    assert [str(one) for one in letters.replay_ranges("clean", "T")] == ["0:[1,3)", "1:[8,9)"]
    assert letters.replay_ranges("clean", "another id") == []
