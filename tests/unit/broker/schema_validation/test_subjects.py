"""The subjects under which a topic's schemas are to be found."""

import pytest

from log_service.broker.schema_validation.registry import Registered
from log_service.broker.schema_validation.subjects import SubjectRule
from log_service.config.topic_keys import (
    RECORD_NAME_STRATEGY,
    TOPIC_NAME_STRATEGY,
    TOPIC_RECORD_NAME_STRATEGY,
)


@pytest.mark.parametrize(
    ("strategy", "is_key", "subject"),
    [
        (TOPIC_NAME_STRATEGY, False, "orders-value"),
        (TOPIC_NAME_STRATEGY, True, "orders-key"),
        (RECORD_NAME_STRATEGY, False, "shop.Order"),
        (TOPIC_RECORD_NAME_STRATEGY, True, "orders-shop.Order"),
    ],
)
def test_a_schema_counts_under_the_subject_of_the_strategy_alone(
    strategy: str, subject: str, *, is_key: bool
) -> None:
    rule, names = SubjectRule("orders", is_key, strategy), frozenset({"shop.Order"})
    assert not rule.fault(7, Registered(subjects=frozenset({"other", subject}), record_names=names))
    fault = rule.fault(7, Registered(subjects=frozenset({"other"}), record_names=names))
    assert fault == f"schema id 7 is not registered under subject {subject}"


def test_an_unknown_schema_and_one_without_a_name_are_told_apart() -> None:
    rule = SubjectRule("orders", is_key=False, strategy=RECORD_NAME_STRATEGY)
    assert (
        rule.fault(bytes(16), Registered())
        == "schema guid 00000000-0000-0000-0000-000000000000 is not registered"
    )
    fault = rule.fault(7, Registered(subjects=frozenset({"x"})))
    assert fault == "schema id 7 has no record name, which RecordNameStrategy needs"
