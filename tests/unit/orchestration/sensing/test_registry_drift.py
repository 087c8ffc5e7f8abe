"""New versions in a schema registry: what is told, and what is remembered."""

import json

import pytest

from log_service.client.schemas.values import AVRO
from orchestration.formats.compatibility import Compatibility
from orchestration.formats.registry import RegistryAwayError, SubjectVersion
from orchestration.sensing import registry_drift
from orchestration.sensing.registry_drift import (
    LOOKS_WITHIN_S,
    RegistryLook,
    decide_registry_drift,
    look_at_registry,
)
from orchestration.topics.spec import TopicSpec

TOPICS = ("orders",)


def verdict(declared: int, newest: int, fault: str = "") -> Compatibility:
    first, second = (
        SubjectVersion(subject="orders-value", version=number, id=number, language=AVRO, content="")
        for number in (declared, newest)
    )
    return Compatibility(declared=first, newest=second, fault=fault)


def look(given: Compatibility) -> RegistryLook:
    return RegistryLook(verdicts={"orders": given})


def test_the_declared_version_is_no_news() -> None:
    drift = decide_registry_drift({}, look(verdict(1, 1)), TOPICS)
    assert (drift.reported, drift.alerts, drift.remembered) == ((), (), {"orders": "1"})


def test_a_new_version_is_told_once() -> None:
    """Also after a project that was loaded anew declares it."""
    drift = decide_registry_drift({"orders": "1"}, look(verdict(1, 2)), TOPICS)
    assert (drift.reported, drift.alerts) == (("orders",), ())
    for declared in (1, 2):
        again = decide_registry_drift(drift.remembered, look(verdict(declared, 2)), TOPICS)
        assert (again.reported, again.remembered) == ((), drift.remembered)


def test_a_version_that_cannot_be_read_is_an_alert_with_both_versions() -> None:
    """Its end is told without an alert."""
    drift = decide_registry_drift({}, look(verdict(1, 2, "field id is string")), TOPICS)
    (alert,) = drift.alerts
    assert alert.text == (
        "topic orders has a schema that its columns cannot hold: version 2 of orders-value"
        " (schema id 2) cannot be read as version 1 of orders-value (schema id 1): field id is string"
    )
    again = decide_registry_drift(
        drift.remembered, look(verdict(1, 2, "field id is string")), TOPICS
    )
    assert (again.reported, again.alerts) == ((), ())
    over = decide_registry_drift(drift.remembered, look(verdict(2, 2)), TOPICS)
    assert (over.reported, over.alerts, over.remembered) == (("orders",), (), {"orders": "2"})


def test_own_columns_know_each_version_that_they_can_hold() -> None:
    """A topic with ``registered`` declares no version."""
    assert decide_registry_drift({}, look(verdict(0, 7)), TOPICS).reported == ()
    assert decide_registry_drift({}, look(verdict(0, 7, "no")), TOPICS).reported == ("orders",)
    assert decide_registry_drift({"orders": "7"}, look(verdict(0, 8)), TOPICS).reported == (
        "orders",
    )


def test_a_registry_that_is_away_makes_nothing_forgotten() -> None:
    """A topic that is not declared any more is."""
    before = {"orders": "1", "gone": "4"}
    drift = decide_registry_drift(before, RegistryLook(unread={"the schema registry": ""}), TOPICS)
    assert (drift.reported, drift.remembered) == ((), {"orders": "1"})
    assert json.loads(json.dumps(drift.remembered)) == drift.remembered


def test_topics_behind_a_slow_registry_have_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tick began with the first topic, so that the last ones were never asked about."""
    topics = [TopicSpec(name=name) for name in ("a", "b", "c", "d", "e")]
    now_s, asked, last_topic = 0.0, [], ""

    def answer_slowly(subject: str) -> Compatibility:
        nonlocal now_s
        now_s += LOOKS_WITHIN_S / 2
        asked.append(subject)
        if subject == "d":
            raise RegistryAwayError("it does not respond")
        return verdict(1, 1)

    monkeypatch.setattr(registry_drift, "registry_schema", lambda spec: spec.name)
    monkeypatch.setattr(registry_drift, "newest_compatibility", answer_slowly)
    for _ in range(4):
        looked = look_at_registry(topics, lambda: now_s, last_topic)
        last_topic = looked.last_topic
    assert "".join(asked) == "ab" + "cd" + "ea" + "bc"
    (only,) = look_at_registry(topics[:1], lambda: now_s, last_topic).verdicts
    assert only == "a"
    assert not look_at_registry(topics[:1], lambda: now_s, last_topic).last_topic
