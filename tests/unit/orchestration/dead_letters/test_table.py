"""Dead letters: what is pending and what counts, rivals, replays."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from orchestration.cli.dead_letters import dead_letters, nothing_found, nothing_to_fix
from orchestration.dead_letters.table import (
    ADDED_LATER,
    ENVELOPE,
    DeadLetters,
    Rejection,
    envelopes,
    naming,
)
from orchestration.lake.range_commits import append_with_offsets, overwrite_ranges
from orchestration.lake.tables import CommitConflictError, Lake, overwrite_where
from orchestration.offsets.planning import Checkpoint
from tests.unit.orchestration.dead_letter_parts import (
    NOW,
    RECORDS,
    TARGET_SCHEMA,
    commit_target,
    letters_for,
    origin,
    ranges,
)


def commit_replay(lake: Lake, *bounds: tuple[int, int, int], attempt: int | None) -> None:
    overwrite_ranges(
        lake.existing("clean"),
        TARGET_SCHEMA.empty_table(),
        ranges(*bounds),
        transactions=naming("T", attempt),
    )


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
        "duplicate_of": None,
        "attempt": None,
        "ended_by": None,
        "headers": [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}],
    }
    with pytest.raises(LookupError, match="1 rejected records of topic t are not in the batch"):
        envelopes(
            origin(),
            [Rejection(partition=0, offset=9, reason="", rule="")],
            RECORDS.empty_table(),
            NOW,
        )


def test_dead_letters_are_pending_until_their_target_commits(
    lake: Lake, letters: DeadLetters
) -> None:
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1), (0, 3))
    )
    assert places(letters.pending()) == [("clean", 0, 1), ("clean", 0, 3)]
    assert places(letters.committed()) == []
    commit_target(lake, (0, 0, 5), attempt=attempt)
    assert places(letters.pending()) == []
    assert places(letters.committed()) == [("clean", 0, 1), ("clean", 0, 3)]
    assert letters.summary() == [
        {"target": "clean", "topic": "t", "rule": "rule", "reason": "bad", "count": 2}
    ]


def test_the_next_attempt_replaces_what_a_killed_one_left_and_nothing_else(
    lake: Lake, letters: DeadLetters
) -> None:
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1))
    )
    commit_target(lake, (0, 0, 5), attempt=attempt)
    letters.replace_pending(
        letters.snapshot(),
        origin("other"),
        ranges((0, 0, 9)),
        {},
        letters_for((0, 8), target="other"),
    )
    committed = {0: Checkpoint(next_offset=5)}
    letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 5, 9)), committed, letters_for((0, 6), (0, 8))
    )
    letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 5, 7)), committed, letters_for((0, 5))
    )
    assert places(letters.pending()) == [("clean", 0, 5), ("other", 0, 8)]
    letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 5, 7)), committed, letters_for()
    )
    assert places(letters.pending()) == [("other", 0, 8)]
    assert places(letters.committed()) == [("clean", 0, 1)]


def test_nothing_rejected_and_nothing_pending_is_no_commit(letters: DeadLetters) -> None:
    version = letters.snapshot().version
    assert (
        letters.replace_pending(letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for())
        is None
    )
    assert letters.snapshot().version == version


def test_a_slower_rival_conflicts_instead_of_erasing(lake: Lake, letters: DeadLetters) -> None:
    slow = letters.snapshot()
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1))
    )
    commit_target(lake, (0, 0, 5), attempt=attempt)
    with pytest.raises(CommitConflictError):
        letters.replace_pending(slow, origin(), ranges((0, 0, 3)), {}, letters_for((0, 2)))
    assert places(letters.committed()) == [("clean", 0, 1)]


def test_a_rival_that_wrote_its_dead_letters_and_is_overtaken_cannot_commit_any_more(
    lake: Lake, letters: DeadLetters
) -> None:
    """The slow run reads further than its rival.

    Records that it rejected beyond the rival's end must not vanish with the rival's commit.
    """
    lake.create("clean", TARGET_SCHEMA)
    slow_target = lake.existing("clean")
    slow = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 9)), {}, letters_for((0, 2), (0, 7))
    )

    target = lake.existing("clean")
    cleaned = letters.cleaned(letters.snapshot(), origin(), target)
    fast = letters.replace_pending(cleaned, origin(), ranges((0, 0, 5)), {}, letters_for((0, 2)))
    with pytest.raises(CommitConflictError):
        append_with_offsets(
            slow_target,
            TARGET_SCHEMA.empty_table(),
            ranges((0, 0, 9)),
            {},
            expected={},
            transactions=naming("T", slow),
        )
    commit_target(lake, (0, 0, 5), attempt=fast)
    assert places(letters.committed()) == [("clean", 0, 2)]
    assert places(letters.pending()) == []


def test_other_targets_do_not_stand_in_the_way(letters: DeadLetters) -> None:
    mine = letters.snapshot()
    for offset in range(3):
        letters.replace_pending(
            letters.snapshot(),
            origin("other"),
            ranges((0, 0, 9)),
            {},
            letters_for((0, offset), target="other"),
        )
    letters.replace_pending(mine, origin(), ranges((0, 0, 5)), {}, letters_for((0, 1)))
    assert places(letters.pending()) == [("clean", 0, 1), ("other", 0, 2)]


BEFORE = [("clean", 0, 1), ("clean", 0, 3), ("clean", 0, 8)]
AFTER = [("clean", 0, 3), ("clean", 0, 4), ("clean", 0, 8)]


@pytest.fixture
def rejected_before(lake: Lake, letters: DeadLetters) -> None:
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 9)), {}, letters_for((0, 1), (0, 3), (0, 8))
    )
    commit_target(lake, (0, 0, 9), attempt=attempt)


@pytest.mark.usefixtures("rejected_before")
def test_a_replay_takes_effect_in_the_moment_in_which_its_target_commits(
    lake: Lake, letters: DeadLetters
) -> None:
    attempt = letters.begin_replay(
        letters.snapshot(),
        origin(),
        ranges((0, 0, 5)),
        letters_for((0, 3), (0, 4), reason="still bad"),
    )
    assert places(letters.committed()) == BEFORE
    assert {row["reason"] for row in letters.summary()} == {"bad"}
    commit_replay(lake, (0, 0, 5), attempt=attempt)
    assert places(letters.committed()) == AFTER
    assert attempt is not None
    letters.settle_replay(origin(), ranges((0, 0, 5)), attempt)
    assert places(letters.committed()) == AFTER
    assert places(letters.pending()) == []
    assert {row["reason"] for row in letters.summary()} == {"bad", "still bad"}


@pytest.mark.usefixtures("rejected_before")
def test_a_replay_that_was_killed_before_its_target_committed_leaves_all_as_it_was(
    lake: Lake, letters: DeadLetters
) -> None:
    letters.begin_replay(
        letters.snapshot(),
        origin(),
        ranges((0, 0, 5)),
        letters_for((0, 3), (0, 4), reason="still bad"),
    )

    cleaned = letters.cleaned(letters.snapshot(), origin(), lake.existing("clean"))
    assert places(letters.committed()) == BEFORE
    assert places(letters.pending()) == []
    attempt = letters.begin_replay(
        cleaned, origin(), ranges((0, 0, 5)), letters_for((0, 3), (0, 4))
    )
    commit_replay(lake, (0, 0, 5), attempt=attempt)
    assert places(letters.committed()) == AFTER


@pytest.mark.usefixtures("rejected_before")
def test_what_a_replay_left_that_was_killed_after_its_commit_is_taken_away_by_the_next_attempt(
    lake: Lake, letters: DeadLetters
) -> None:
    commit_replay(
        lake,
        (0, 0, 5),
        attempt=letters.begin_replay(
            letters.snapshot(), origin(), ranges((0, 0, 5)), letters_for((0, 3))
        ),
    )
    assert places(letters.pending()) == [("clean", 0, 1), ("clean", 0, 3)]
    letters.cleaned(letters.snapshot(), origin(), lake.existing("clean"))
    assert places(letters.pending()) == []
    assert places(letters.committed()) == [("clean", 0, 3), ("clean", 0, 8)]


def test_the_table_of_an_earlier_release_gets_the_columns_it_lacks(
    lake: Lake, letters: DeadLetters
) -> None:
    old = pa.schema([field for field in ENVELOPE if field.name not in ADDED_LATER])
    before = lake.create("dead_letters", old, partition_by=["target"])
    overwrite_where(
        before, letters_for((0, 1)).select(old.names).cast(old), "target = 'clean'", {}, {}
    )
    commit_target(lake, (0, 0, 5), attempt=None)
    assert places(letters.committed()) == [("clean", 0, 1)]
    attempt = letters.begin_replay(
        letters.snapshot(), origin(), ranges((0, 0, 5)), letters_for((0, 2))
    )
    commit_replay(lake, (0, 0, 5), attempt=attempt)
    assert places(letters.committed()) == [("clean", 0, 2)]


def test_replay_ranges_cover_the_dead_letters_of_a_target(lake: Lake, letters: DeadLetters) -> None:
    rejected = letters_for((0, 1), (0, 2), (1, 8))
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 9), (1, 0, 9)), {}, rejected
    )
    assert letters.replay_ranges("clean", "T") == []
    commit_target(lake, (0, 0, 9), (1, 0, 9), attempt=attempt)
    assert [str(one) for one in letters.replay_ranges("clean", "T")] == ["0:[1,3)", "1:[8,9)"]
    assert letters.replay_ranges("clean", "another id") == []


def test_a_slip_in_the_name_of_a_table_or_rule_is_told(lake: Lake, letters: DeadLetters) -> None:
    assert nothing_found("claen", None, letters) == "claen has no dead letters"
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1))
    )
    commit_target(lake, (0, 0, 5), attempt=attempt)
    assert (
        nothing_found("claen", None, letters)
        == "claen has no dead letters; these tables have some: clean"
    )
    assert (
        nothing_found("clean", "rull", letters)
        == "the rule rull rejected nothing of clean; these did: rule"
    )
    assert (
        nothing_to_fix("claen", None, letters)
        == "claen has no dead letters; these tables have some: clean"
    )
    assert (
        nothing_to_fix("clean", "rull", letters)
        == "the rule rull rejected nothing of clean; these did: rule"
    )
    assert (
        nothing_to_fix("clean", "rule", letters)
        == nothing_to_fix("clean", None, letters)
        == "nothing to fix: each value stays as it is"
    )


def test_a_replay_of_the_dead_letters_of_no_table_tells_of_the_slip(
    lake: Lake, letters: DeadLetters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = letters.replace_pending(
        letters.snapshot(), origin(), ranges((0, 0, 5)), {}, letters_for((0, 1))
    )
    commit_target(lake, (0, 0, 5), attempt=attempt)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELOG_LAKE", str(lake.root))
    monkeypatch.setattr("sys.path", [*sys.path])
    told = [
        CliRunner().invoke(dead_letters, ["replay", table]).output for table in ("claen", "clean")
    ]
    assert told == [
        "Error: there is no table or topic claen; there are clean\n",
        "clean: 1 dead letter would be replayed; --execute does it\n",
    ]


def test_reading_creates_no_table_where_nothing_was_ever_rejected(
    lake: Lake, letters: DeadLetters
) -> None:
    assert (places(letters.committed()), places(letters.pending())) == ([], [])
    assert (
        letters.summary(),
        letters.by_day(),
        letters.newest(5),
        letters.of_target("clean"),
        letters.topics_of("clean"),
    ) == (
        [],
        [],
        [],
        [],
        {},
    )
    assert letters.replay_ranges("clean", "T") == []
    assert not lake.root.exists()
