"""Silent nodes come last for a while, in a time that passes when the test says so."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from log_service.client.share.silent_nodes import LATE_S, SILENT_S, SilentNodes

HEALTHY, SILENT = 1, 2


def tell(story: Callable[[SilentNodes], Awaitable[None]]) -> None:
    """Run a story whose time passes at once."""
    trio.run(story, SilentNodes(), clock=MockClock(autojump_threshold=0))


def test_a_node_that_responds_late_comes_last_for_a_while() -> None:
    async def story(nodes: SilentNodes) -> None:
        with nodes.note(SILENT, wait_ms=500):
            await trio.sleep(0.5 + LATE_S)
        assert nodes.come_last([SILENT, HEALTHY]) == [HEALTHY, SILENT]
        await trio.sleep(SILENT_S)
        assert nodes.come_last([SILENT, HEALTHY]) == [SILENT, HEALTHY]

    tell(story)


def test_a_node_that_waits_as_asked_keeps_its_place() -> None:
    async def story(nodes: SilentNodes) -> None:
        with nodes.note(HEALTHY, wait_ms=5_000):
            await trio.sleep(5)
        assert nodes.come_last([HEALTHY, SILENT]) == [HEALTHY, SILENT]

    tell(story)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_only_a_response_in_time_makes_up_for_a_late_one(*, is_cancelled: bool) -> None:
    async def story(nodes: SilentNodes) -> None:
        with nodes.note(SILENT, wait_ms=0):
            await trio.sleep(LATE_S)
        with trio.CancelScope() as scope, nodes.note(SILENT, wait_ms=0):
            if is_cancelled:
                scope.cancel()
            await trio.lowlevel.checkpoint()
        expected = [HEALTHY, SILENT] if is_cancelled else [SILENT, HEALTHY]
        assert nodes.come_last([SILENT, HEALTHY]) == expected

    tell(story)
