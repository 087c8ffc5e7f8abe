"""Rights on topics decide who may see tables and change them."""

import pytest

from log_service.common.access import AclOperation
from log_service.http.server.values import HttpError
from orchestration.console.rights import EVERYTHING, Rights, needed_topics, rights_on
from orchestration.console.values import TableFacts

READ, WRITE = AclOperation.READ, AclOperation.WRITE
IDS = {"orders": "1", "payments": "2"}


def test_rights_on_topics_of_the_project_count() -> None:
    found = rights_on(
        {"orders": ("1", frozenset({READ, WRITE})), "payments": ("2", frozenset({READ}))}, IDS
    )
    assert sorted(found.readable) == ["orders", "payments"]
    assert sorted(found.writable) == ["orders"]


def test_rights_on_a_topic_of_another_cluster_count_for_nothing() -> None:
    other = {"orders": ("another", frozenset({READ})), "unknown": ("3", frozenset({READ}))}
    assert rights_on(other, IDS) == Rights()


def test_a_refusal_names_the_topics_that_are_missing() -> None:
    rights = Rights(readable=frozenset({"orders"}))
    rights.require_read(["orders"], "this question")
    with pytest.raises(HttpError, match=r"this question needs READ on .*: payments$"):
        rights.require_read(["orders", "payments"], "this question")
    with pytest.raises(HttpError, match="and 2 more"):
        rights.require_write("abcdefg", "this")
    assert not rights.may_read(["payments"])


def test_without_logins_all_is_allowed() -> None:
    EVERYTHING.require_write(["orders"], "this")
    assert EVERYTHING.may_read(["orders"])


def test_a_table_of_unknown_origin_needs_all_topics_and_is_open_to_none_without_any() -> None:
    known = TableFacts(name="t", asset="lake/t", sources=("orders",))
    assert needed_topics([known], IDS) == ("orders",)
    assert needed_topics([], IDS) == ("orders", "payments")
    mart = TableFacts(name="m", asset="marts/m")
    assert needed_topics([mart], IDS) == ("orders", "payments")
    assert not Rights(readable=frozenset(IDS)).may_read(needed_topics([mart], ()))


def test_a_name_of_several_tables_needs_the_topics_of_all() -> None:
    one = TableFacts(name="t", asset="lake/t", sources=("orders",))
    other = TableFacts(name="t", asset="marts/t", sources=("payments",))
    assert needed_topics([one, other], IDS) == ("orders", "payments")
