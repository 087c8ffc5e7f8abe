"""A stalled process may not have read the messages of others, so that their silence does not count."""

import pytest

from log_service.state_machine.stalls import MAX_GRACES_IN_A_ROW, STALL_GRACE_MS, STALL_MS, Stalls


@pytest.mark.parametrize(
    ("late_ms", "judged_after_ms"), [(0, 0), (STALL_MS, 0), (STALL_MS + 1, STALL_GRACE_MS)]
)
def test_a_timer_may_be_a_little_late(late_ms: int, judged_after_ms: int) -> None:
    assert (
        Stalls(lambda _late_ms: None).acted_on_at_ms(10_000, 10_000 + late_ms)
        == 10_000 + late_ms + judged_after_ms
    )


def test_one_stall_is_told_once_and_ends_for_all_at_once() -> None:
    told: list[int] = []
    stalls = Stalls(told.append)
    found = {
        stalls.acted_on_at_ms(due_ms, now_ms)
        for due_ms, now_ms in ((1_000, 5_000), (4_999, 5_001), (6_000, 6_000))
    }
    assert (found, told) == ({5_000 + STALL_GRACE_MS}, [4_000])


def test_a_stall_in_the_grace_is_one_more() -> None:
    stalls = Stalls(lambda _late_ms: None)
    again_ms = stalls.acted_on_at_ms(0, 1_000)
    assert stalls.acted_on_at_ms(again_ms, again_ms + 5_000) == again_ms + 5_000 + STALL_GRACE_MS


def test_a_process_that_is_always_late_judges_in_the_end() -> None:
    stalls, now_ms, acted_on_at_ms = Stalls(lambda _late_ms: None), 1_000, 0
    for count in range(MAX_GRACES_IN_A_ROW + 2):
        acted_on_at_ms = stalls.acted_on_at_ms(acted_on_at_ms, now_ms)
        assert (acted_on_at_ms > now_ms) is (count < MAX_GRACES_IN_A_ROW), count
        now_ms = acted_on_at_ms + STALL_MS + 1
    assert stalls.acted_on_at_ms(now_ms, now_ms) == now_ms
    assert stalls.acted_on_at_ms(now_ms, now_ms + STALL_MS + 1) > now_ms + STALL_MS + 1, (
        "one that was in time meanwhile is patient again"
    )
