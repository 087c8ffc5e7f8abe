"""Topics that are not as they are declared: what is told of them, and when."""

from orchestration.sensing.topic_drift import decide_topic_drift, topic_drift_event
from orchestration.topics.spec import TopicSpec


def test_a_difference_is_told_at_its_second_tick_once_until_it_changes_or_is_over() -> None:
    told: list[str] = []
    shown: list[dict[str, str]] = []
    remembered: dict[str, str] = {"sensor new_records": "tick 7"}
    rounds = [
        ("2 partitions",),
        ("2 partitions",),
        ("2 partitions",),
        ("3 partitions",),
        ("3 partitions",),
        (),
        (),
    ]
    for differences in rounds:
        drift = decide_topic_drift(remembered, {"orders": differences})
        told += [alert.text for alert in drift.alerts]
        shown.append(dict(drift.events))
        remembered |= drift.remembered
    assert told == [
        "topic orders is not as it is declared: 2 partitions",
        "topic orders is not as it is declared: 3 partitions",
    ]
    assert shown == [
        {},
        {"orders": "2 partitions"},
        {},
        {},
        {"orders": "3 partitions"},
        {"orders": "as declared"},
        {},
    ]
    assert remembered == {"sensor new_records": "tick 7", "topic orders": ""}


def test_a_topic_that_is_just_being_created_is_not_told() -> None:
    first = decide_topic_drift({}, {"orders": ("it is not there",), "others": ()})
    second = decide_topic_drift(first.remembered, {"orders": (), "others": ()})
    assert (first.alerts, second.alerts, dict(second.events)) == ((), (), {})


def test_what_could_not_be_looked_at_stays_as_it_was() -> None:
    assert not decide_topic_drift({"topic orders": "2 partitions"}, {}).remembered


def test_all_differences_are_one_event_on_the_topic() -> None:
    drift = decide_topic_drift({"topic orders": "seen: a; b"}, {"orders": ("a", "b")})
    event = topic_drift_event(TopicSpec(name="orders"), drift.events["orders"])
    assert (event.asset_key.path, event.description) == (
        ["topics", "orders"],
        "The topic orders: a; b",
    )
