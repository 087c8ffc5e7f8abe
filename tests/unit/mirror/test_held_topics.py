"""Topics that the target refuses are left for a while."""

from log_service.mirror.held_topics import HeldTopics


def test_a_topic_is_left_for_a_while() -> None:
    now = [5]
    held = HeldTopics(1_000, lambda: now[0])
    assert not held.is_held("orders")
    held.hold("orders")
    assert held.is_held("orders")
    assert not held.is_held("clicks")
    now[0] += 1_000
    assert not held.is_held("orders")
