"""New versions in a schema registry: what is told, and what is remembered."""

import json

from log_service.client.schemas.values import AVRO
from orchestration.formats.compatibility import Compatibility
from orchestration.formats.registry import SubjectVersion
from orchestration.sensing.registry_drift import RegistryLook, decide_registry_drift

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
