"""The seconds to a visible row come from the table's own log.

Each record counts by the first commit that covers its offset.
"""

import json
import os
from pathlib import Path

import pytest

from benchmarks.broker_process import BenchmarkError
from benchmarks.empty_run import parts
from benchmarks.freshness import RECORD_BYTES, Acknowledged, commits, reading, waits


def commit(log: Path, version: int, **ends: int) -> float:
    """Write a commit's file and return when it was there."""
    actions = [
        {"commitInfo": {}},
        *(
            {"txn": {"appId": f"T/{partition[1:]}", "version": end}}
            for partition, end in ends.items()
        ),
    ]
    file = log / f"{version:020}.json"
    file.write_text("\n".join(json.dumps(action) for action in actions))
    os.utime(file)
    return file.stat().st_ctime_ns / 1e9


def test_a_record_is_visible_with_the_first_commit_that_covers_its_offset(tmp_path: Path) -> None:
    first_s, second_s = commit(tmp_path, 0, p0=2), commit(tmp_path, 1, p0=4, p1=1)
    (tmp_path / "_last_checkpoint").write_text("{}")
    acknowledged = Acknowledged(
        {0: [(0, first_s - 3), (1, first_s - 2), (2, second_s - 1)], 1: [(0, second_s - 5)]}
    )
    assert list(waits(acknowledged, tmp_path, "T")) == pytest.approx([3, 2, 1, 5], abs=1e-5)
    assert [transactions for transactions, _ in commits(tmp_path)] == [
        {"T/0": 2},
        {"T/0": 4, "T/1": 1},
    ]


def test_a_record_in_no_commit_is_an_error_and_no_figure(tmp_path: Path) -> None:
    commit(tmp_path, 0, p0=2)
    with pytest.raises(
        BenchmarkError, match="partition 0 has records that the table readings does not hold"
    ):
        waits(Acknowledged({0: [(2, 0.0)]}), tmp_path, "T")


def test_every_value_has_the_size_that_the_figure_names() -> None:
    assert {len(reading(number)) for number in (0, 7, 4095, 123_456, 9_999_999)} == {RECORD_BYTES}


def test_parts_follow_each_other_and_leave_out_what_a_run_did_not_do() -> None:
    assert parts({"told": 9.0, "created": 2.5, "START": 3.0}, began_s=2.0) == {
        "created": 0.5,
        "START": 0.5,
        "told": 6.0,
    }
