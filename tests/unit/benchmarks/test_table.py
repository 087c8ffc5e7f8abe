"""The table of figures: medians, ratios and goals, and how they are printed."""

import json
from dataclasses import replace

import pytest

from benchmarks.table import (
    PERCENT,
    Goal,
    Row,
    as_json,
    as_markdown,
    as_text,
    at_least,
    at_most,
    beside,
    goals_met,
    merged,
    readable,
    value_at_most,
)


def row(
    figure: str = "produce", *values: float, goal: Goal | None = None, unit: str = "MB/s"
) -> Row:
    return Row(figure=figure, unit=unit, rounds=values or (1.0,), goal=goal)


def test_rounds_become_one_row_per_figure_in_the_order_of_the_first() -> None:
    rows = merged(
        [
            [row("produce", 3.0), row("consume", 10.0)],
            [row("produce", 1.0), row("consume", 30.0)],
            [row("produce", 2.0)],
        ]
    )
    assert [(each.figure, each.rounds) for each in rows] == [
        ("produce", (3.0, 1.0, 2.0)),
        ("consume", (10.0, 30.0)),
    ]
    assert rows[0].median == 2.0


def test_peers_values_stand_beside_ours_with_the_ratio_of_medians() -> None:
    (found,) = beside(
        {"tidelog": [row("produce", 2.0, 4.0, 6.0)]},
        "Apache Kafka",
        [row("produce", 1.0, 2.0, 9.0)],
    )
    assert (found.peer, found.peer_median, found.ratio) == ("Apache Kafka", 2.0, 2.0)


def test_ratio_of_several_rounds_comes_with_the_lowest_and_the_highest_of_a_round() -> None:
    rows = beside(
        {"tidelog": [row("produce", 2.0, 4.0, 6.0)]},
        "Apache Kafka",
        [row("produce", 1.0, 4.0, 2.0)],
    )
    assert rows[0].ratios == (2.0, 1.0, 3.0)
    assert "| 2.00 (1.00 - 3.00) |" in as_markdown(rows)
    assert json.loads(as_json(rows))["rows"][0]["ratios"] == [2.0, 1.0, 3.0]


def test_round_that_the_peer_has_not_taken_yet_gives_no_ratios_of_rounds() -> None:
    rows = beside({"tidelog": [row("produce", 2.0, 4.0)]}, "Apache Kafka", [row("produce", 1.0)])
    assert rows[0].ratios == ()
    assert "| 3.00 |" in as_markdown(rows)


def test_figure_that_the_peer_lacks_stands_alone_without_ratio_or_verdict() -> None:
    (found,) = beside({"tidelog": [row("ours only", goal=at_least(1.0))]}, "Apache Kafka", [])
    assert (found.ratio, found.is_met) == (None, None)


def test_several_of_ours_name_themselves_and_stand_together() -> None:
    ours = {
        "trio": [row("send", 2.0), row("poll", 3.0)],
        "blocking": [row("send", 4.0), row("poll", 5.0)],
    }
    rows = beside(ours, "confluent-kafka", [row("send", 8.0), row("poll", 10.0)])
    assert [each.figure for each in rows] == [
        "send, trio",
        "send, blocking",
        "poll, trio",
        "poll, blocking",
    ]
    assert [each.ratio for each in rows] == [0.25, 0.5, 0.3, 0.5]


@pytest.mark.parametrize(
    ("goal", "value", "is_met"),
    [
        (at_least(1.0), 20.0, True),
        (at_least(2.0), 20.0, True),
        (at_least(2.1), 20.0, False),
        (at_most(2.0), 20.0, True),
        (at_most(1.9), 20.0, False),
        (value_at_most(20.0), 20.0, True),
        (value_at_most(19.0), 20.0, False),
    ],
)
def test_goal_is_held_against_the_ratio_or_the_value_itself(
    goal: Goal, value: float, is_met: bool
) -> None:
    (found,) = beside({"tidelog": [row("figure", value, goal=goal)]}, "peer", [row("figure", 10.0)])
    assert found.is_met is is_met


def test_goal_of_a_value_needs_no_peer() -> None:
    assert row("seconds", 1.0, goal=value_at_most(1.5)).is_met is True


def test_shares_stand_beside_each_other_without_a_ratio() -> None:
    cost = replace(
        row("cost", 4.0, unit=PERCENT, goal=value_at_most(5)), peer="peer", peer_rounds=(8.0,)
    )
    assert (cost.ratio, cost.is_met) == (None, True)


def test_missed_goals_are_named() -> None:
    ours = [
        row("fast", 3.0, goal=at_least(2.0)),
        row("  slow", 1.0, goal=at_least(2.0)),
        row("without a goal", 1.0),
    ]
    rows = beside({"tidelog": ours}, "peer", [row("fast", 1.0), row("  slow", 1.0)])
    assert goals_met(rows) == "goals met: 1 of 2; missed: slow"
    assert goals_met(rows[:1]) == "goals met: 1 of 1"
    assert "no goal can be judged" in goals_met(ours)


def test_peer_that_took_nothing_gives_no_ratio() -> None:
    (found,) = beside(
        {"tidelog": [row("growth", 1.0, goal=at_most(1.0))]}, "peer", [row("growth", 0.0)]
    )
    assert (found.ratio, found.is_met) == (None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234, "0.123"),
        (12.345, "12.3"),
        (123.45, "123.5"),
        (1234.5, "1,234"),
        (-1234.5, "-1,234"),
        (0.0, "0"),
        (0.1 + 0.2 - 0.3, "0"),
    ],
)
def test_numbers_have_three_digits_at_least(value: float, text: str) -> None:
    assert readable(value) == text


def test_each_peer_has_a_table_of_its_own_with_its_name_as_title() -> None:
    beside_kafka = beside(
        {"tidelog": [row("produce", 2.0, goal=at_least(1.0))]},
        "Apache Kafka",
        [row("produce", 1.0)],
    )
    beside_hand = beside(
        {"tidelog": [row("rows", 1.0, goal=at_least(1.5))]}, "by hand", [row("rows", 1.0)]
    )
    text = as_markdown([*beside_kafka, *beside_hand, row("alone", 5.0)])
    assert text.splitlines() == [
        "| figure | unit | tidelog | range | Apache Kafka | range | ratio | goal |",
        "| --- | --- | --: | --: | --: | --: | --: | --- |",
        "| produce | MB/s | 2 | 2 - 2 | 1 | 1 - 1 | 2.00 | >= 1 met |",
        "",
        "| figure | unit | tidelog | range | by hand | range | ratio | goal |",
        "| --- | --- | --: | --: | --: | --: | --: | --- |",
        "| rows | MB/s | 1 | 1 - 1 | 1 | 1 - 1 | 1.00 | >= 1.5 MISSED |",
        "",
        "| figure | unit | tidelog | range | goal |",
        "| --- | --- | --: | --: | --- |",
        "| alone | MB/s | 5 | 5 - 5 |  |",
    ]


def test_values_of_several_sides_do_not_stand_under_the_name_of_one() -> None:
    sides = {"tidelog": [row("produce", 2.0)], "librdkafka": [row("produce", 4.0)]}
    text = as_markdown(beside(sides, "Apache Kafka", [row("produce", 1.0)])).splitlines()
    assert text[0] == "| figure | unit | measured | range | Apache Kafka | range | ratio | goal |"
    assert [line.split("|")[1].strip() for line in text[2:]] == ["produce", "produce, librdkafka"]


def test_text_aligns_columns() -> None:
    lines = as_text([row("short", 1.0), row("a longer figure", 1000.0)]).splitlines()
    assert [line.index("MB/s") for line in lines[1:]] == [17, 17]
    assert [line.rstrip()[-5:] for line in lines[1:]] == ["1 - 1", "1,000"]


def test_machines_get_every_round_and_what_is_known_of_the_run() -> None:
    rows = beside(
        {"tidelog": [row("produce", 2.0, 4.0, goal=at_least(1.0))]},
        "Apache Kafka",
        [row("produce", 1.0)],
    )
    found = json.loads(as_json(rows, rounds=2, failures={"consume": "no broker"}))
    assert found["rounds"] == 2
    assert found["failures"] == {"consume": "no broker"}
    (produce,) = found["rows"]
    assert (produce["rounds"], produce["peer_rounds"], produce["ratio"], produce["is_met"]) == (
        [2.0, 4.0],
        [1.0],
        3.0,
        True,
    )
    assert produce["goal"] == {"bound": 1.0, "is_floor": True, "is_ratio": True}
