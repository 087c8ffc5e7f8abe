"""Decisions of a registry are remembered for a while, and not without bound."""

from log_service.broker.schema_validation.decisions import (
    ACCEPTED_MS,
    REFUSED_MS,
    RENEWED_MS,
    Decisions,
)
from log_service.broker.schema_validation.subjects import SubjectRule

RULE = SubjectRule("orders", is_key=False, strategy="x")
OTHER = SubjectRule("others", is_key=False, strategy="x")


def test_a_refusal_is_soon_forgotten_and_an_acceptance_is_not() -> None:
    decisions = Decisions()
    decisions.note(RULE, 1, "", now_ms=0)
    decisions.note(RULE, 2, "wrong", now_ms=0)
    assert (decisions.of(RULE, 1, 0), decisions.of(RULE, 2, 0)) == ("", "wrong")
    assert (decisions.of(RULE, 1, REFUSED_MS), decisions.of(RULE, 2, REFUSED_MS)) == ("", None)
    assert decisions.of(RULE, 1, ACCEPTED_MS) is None
    assert decisions.of(OTHER, 1, 0) is None


def test_the_newest_answer_counts() -> None:
    decisions = Decisions()
    decisions.note(RULE, 1, "", now_ms=0)
    decisions.note(RULE, 1, "deleted", now_ms=10)
    assert decisions.of(RULE, 1, 10) == "deleted"
    decisions.note(RULE, 1, "", now_ms=20)
    assert decisions.of(RULE, 1, 20) == ""


def test_an_old_acceptance_counts_on_while_nobody_answers() -> None:
    decisions = Decisions()
    assert not decisions.renew(RULE, 1, 0)
    decisions.note(RULE, 1, "", now_ms=0)
    assert decisions.renew(RULE, 1, ACCEPTED_MS)
    assert decisions.of(RULE, 1, ACCEPTED_MS + RENEWED_MS - 1) == ""
    assert decisions.of(RULE, 1, ACCEPTED_MS + RENEWED_MS) is None


def test_refused_ids_push_no_accepted_one_out() -> None:
    decisions = Decisions(capacity=10)
    decisions.note(RULE, -1, "", now_ms=0)
    for schema_id in range(1_000):
        decisions.note(RULE, schema_id, "wrong", now_ms=0)
    assert decisions.of(RULE, -1, 0) == ""
    assert [each for each in range(1_000) if decisions.of(RULE, each, 0)] == list(range(990, 1_000))
