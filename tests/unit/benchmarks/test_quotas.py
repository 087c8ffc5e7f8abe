"""Quotas in figures: what counts towards a rate, and how far it may be from its bound."""

import pytest

from benchmarks.quotas import BOUND, CLIENT_COUNTS, PACE, Crowd, Taken, rows_of


def test_what_came_before_or_after_the_span_counts_for_nothing() -> None:
    taken = Taken(moments=[(0.9, 500), (1.0, 30), (2.5, 10), (3.0, 500)])
    assert taken.rate(1.0, 3.0) == 20.0


@pytest.mark.parametrize(
    ("share", "off", "is_met"),
    [(1.0, 0.0, True), (0.96, 4.0, True), (1.06, 6.0, False), (0.94, 6.0, False)],
)
def test_a_rate_may_be_off_to_either_side(share: float, off: float, is_met: bool) -> None:
    _, found = rows_of("sent", BOUND * share)
    assert found.median == pytest.approx(off)
    assert found.is_met is is_met


def test_a_crowd_is_named_and_its_clients_go_at_the_pace_of_one_together() -> None:
    assert max(CLIENT_COUNTS) == 64
    told, _ = rows_of("read", BOUND, 64)
    assert told.figure == "read under a quota of 4 MB/s by 64 clients"
    crowd = Crowd(address="127.0.0.1:1", topic="t", client_id="t", client_count=64, ended=0.0)
    assert crowd.pace().bytes_per_s * crowd.client_count == PACE
