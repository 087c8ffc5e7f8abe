"""Places of dead letters are read as they are written.

A table that rejected records of several topics has several at one offset.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestration.cli import dead_letters as command
from orchestration.dead_letters.places import Place, PlaceError, letter_at
from orchestration.dead_letters.table import DeadLetters, Origin, Rejection, envelopes, naming
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from tests.unit.orchestration.dead_letter_parts import NOW, TARGET_SCHEMA, letters_for

Told = Callable[..., Result]


def reject(lake: Lake, topic: str, topic_id: str, offset: int, at: datetime = NOW) -> None:
    """Let the table ``clean`` reject one record of partition 0 and commit."""
    letters = DeadLetters(lake)
    origin = Origin(target="clean", topic=topic, topic_id=topic_id, run_id="r")
    ranges = OffsetRanges(
        topic=topic, topic_id=topic_id, ranges=(OffsetRange(partition=0, start=0, end=9),)
    )
    one = Rejection(partition=0, offset=offset, reason=f"of {topic_id}", rule="rule")
    records = letters_for((0, offset)).select(
        ["_partition", "_offset", "_timestamp", "key", "value", "headers"]
    )
    attempt = letters.replace_pending(
        letters.snapshot(), origin, ranges, {}, envelopes(origin, [one], records, at)
    )
    target = lake.snapshot("clean") or lake.create("clean", TARGET_SCHEMA)
    append_with_offsets(
        target,
        TARGET_SCHEMA.empty_table(),
        ranges,
        {},
        expected={},
        transactions=naming(topic_id, attempt),
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def tell(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").mkdir()
    monkeypatch.setenv("TIDELOG_LAKE", str(lake.root))
    return lambda *arguments: CliRunner().invoke(command.dead_letters, list(arguments))


def test_one_topic_needs_no_name(lake: Lake, tell: Told) -> None:
    reject(lake, "orders", "A", 3)
    assert letter_at(DeadLetters(lake), "clean", Place(partition=0, offset=3))["reason"] == "of A"
    assert "\n0:3 " in tell("list", "clean").output
    assert "of A" in tell("show", "clean", "0:3").output
    assert "of A" in tell("show", "clean", "orders/0:3").output


def test_headers_are_shown_with_the_whole_record(lake: Lake, tell: Told) -> None:
    reject(lake, "orders", "A", 3)
    assert "\nheaders        trace=1; trace\n" in tell("show", "clean", "0:3").output
    told = json.loads(tell("show", "clean", "0:3", "--json").output)
    assert told["headers"] == [{"key": "trace", "value": "1"}, {"key": "trace", "value": None}]


def test_times_are_shown_as_other_commands_show_them(lake: Lake, tell: Told) -> None:
    reject(lake, "orders", "A", 3, at=NOW + timedelta(milliseconds=7, microseconds=8))
    assert "\nrecord_time    2026-01-02T00:00:00.000Z\n" in tell("show", "clean", "0:3").output
    assert "\nrejected_at    2026-01-02T00:00:00.007Z\n" in tell("show", "clean", "0:3").output
    assert " 2026-01-02T00:00:00.000Z " in tell("list", "clean").output


def test_a_place_that_two_topics_have_is_refused_with_the_choices(lake: Lake, tell: Told) -> None:
    reject(lake, "orders", "A", 3)
    reject(lake, "payments", "B", 3)
    listed = tell("list", "clean").output
    assert "\norders/0:3 " in listed
    assert "\npayments/0:3 " in listed
    shown = tell("show", "clean", "0:3")
    assert shown.exit_code == 1
    assert (
        "clean has 2 dead letters at 0:3, of several topics: say orders/0:3 or payments/0:3"
        in shown.output
    )
    assert "of B" in tell("show", "clean", "payments/0:3").output


def test_a_topic_that_was_created_anew_is_told_by_its_id(lake: Lake) -> None:
    reject(lake, "orders", "A", 3)
    reject(lake, "orders", "B", 3)
    letters = DeadLetters(lake)
    with pytest.raises(PlaceError, match="say A/0:3 or B/0:3"):
        letter_at(letters, "clean", Place(topic="orders", partition=0, offset=3))
    assert letter_at(letters, "clean", Place.parse("B/0:3"))["reason"] == "of B"


@pytest.mark.parametrize("text", ["", "0", "0:", ":3", "orders/0", "/0:3", "a b/0:3", "0:-1"])
def test_what_is_no_place_is_told(text: str) -> None:
    with pytest.raises(PlaceError, match="is not a place like 0:17 or orders/0:17"):
        Place.parse(text)
