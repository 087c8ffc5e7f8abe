"""Commits as a table's transaction log tells them."""

from orchestration.console.commits import Commit, commit_of, pace_of

ENTRY = {"version": 3, "timestamp": 1_000, "operation": "WRITE"}


def test_a_commit_names_its_ranges_its_topic_and_its_run() -> None:
    notes = {"tidelog.ranges": "0:[0,5) 2:[7,9)", "tidelog.topic": "t", "tidelog.run_id": "r"}
    found = commit_of({**ENTRY, **notes})
    assert (found.ranges, found.offset_count, found.topic, found.run_id, found.is_replay) == (
        [(0, 0, 5), (2, 7, 9)], 7, "t", "r", False,
    )  # fmt: skip


def test_a_replay_is_told_apart_and_a_commit_of_others_has_no_ranges() -> None:
    assert commit_of({**ENTRY, "tidelog.replay": "0:[1,2)"}).is_replay
    assert commit_of(ENTRY) == Commit(version=3, committed_ms=1_000, operation="WRITE", ranges=[])


def test_a_commit_of_many_ranges_shows_the_first_ones_and_counts_all() -> None:
    text = " ".join(f"{number}:[0,1)" for number in range(100))
    found = commit_of({**ENTRY, "tidelog.ranges": text})
    assert (len(found.ranges), found.range_count, found.offset_count) == (40, 100, 100)


def commit(at_ms: int, count: int, *, is_replay: bool = False) -> Commit:
    return Commit(
        version=1, committed_ms=at_ms, operation="WRITE", offset_count=count, is_replay=is_replay
    )


def test_the_pace_is_that_of_the_last_minute_without_replays() -> None:
    commits = [commit(99_000, 600), commit(98_000, 900, is_replay=True), commit(1_000, 10_000)]
    assert pace_of(commits, 100_000) == 10.0
    assert pace_of([commit(0, 5)], 100_000) == 0.0
    assert pace_of([], 100_000) is None
