"""A controller that was itself stalled reads the waiting heartbeats before it fences a broker."""

import pytest

from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.controller import MetadataDecision, SessionTimer
from log_service.state_machine.decision import Decision
from log_service.state_machine.runtime import RETRY_MS
from log_service.state_machine.stalls import STALL_GRACE_MS, STALL_MS
from tests.unit.controller.context import SESSION_MS, ControllerContext, epoch_of

OTHERS = (2, 3, 4)


def fenced(context: ControllerContext) -> set[int]:
    return {
        int(node_id)
        for node_id, broker in context.controller.image.cluster.brokers.items()
        if broker.is_fenced
    }


def stalled(late_ms: int = SESSION_MS) -> ControllerContext:
    """Return a controller that did nothing from the last heartbeats on.

    It is ``late_ms`` after the sessions were over.
    """
    context = ControllerContext().start(1, *OTHERS)
    context.pass_ms(SESSION_MS + late_ms)
    return context


def test_a_stalled_controller_fences_no_broker_whose_heartbeats_it_has_yet_to_read() -> None:
    context = stalled()
    assert fenced(context) == set()
    for node_id in OTHERS:
        context.beat(node_id)
    context.pass_ms(STALL_GRACE_MS)
    assert fenced(context) == set()


def test_a_broker_that_is_still_silent_after_the_grace_is_fenced() -> None:
    context = stalled()
    context.beat(2)
    context.pass_ms(STALL_GRACE_MS - 1)
    assert fenced(context) == set()
    context.pass_ms(1)
    assert fenced(context) == {3, 4}
    context.pass_ms(SESSION_MS - STALL_GRACE_MS)
    assert fenced(context) == {2, 3, 4}, "the next session ends at its time"


@pytest.mark.parametrize(("late_ms", "expected"), [(STALL_MS, {2, 3, 4}), (STALL_MS + 1, set())])
def test_a_timer_may_be_a_little_late(late_ms: int, expected: set[int]) -> None:
    assert fenced(stalled(late_ms)) == expected


def test_a_session_that_ends_in_the_grace_ends_with_it() -> None:
    """The heartbeats of a broker whose session is just not over lie unread, too."""
    context = ControllerContext().start(2)
    context.pass_ms(STALL_GRACE_MS)
    context.start(3)
    context.pass_ms(SESSION_MS - 1)
    context.pass_ms(1)
    assert fenced(context) == set()
    context.pass_ms(STALL_GRACE_MS - 1)
    assert fenced(context) == {2, 3}


def test_the_grace_is_no_longer_than_a_session() -> None:
    context = ControllerContext().new_epoch(broker_session_timeout_ms=500).start(2)
    context.pass_ms(5_000)
    assert fenced(context) == set()
    context.pass_ms(500)
    assert fenced(context) == {2}


def test_a_controller_that_is_stalled_in_the_grace_too_reads_on() -> None:
    context = stalled()
    context.pass_ms(STALL_GRACE_MS + SESSION_MS)
    assert fenced(context) == set()
    context.pass_ms(STALL_GRACE_MS)
    assert fenced(context) == set(OTHERS)


def test_a_dead_process_is_fenced_in_the_grace() -> None:
    context = stalled()
    epoch = BrokerEpoch(epoch_of(context, 2))
    context.perform(lambda decision: context.controller.declare_dead(NodeId(2), epoch, decision))
    assert fenced(context) == {2}


def test_the_next_attempt_after_a_refused_fence_is_no_sign_of_a_stall() -> None:
    context = ControllerContext().start(2)
    context.now_ms += SESSION_MS
    refused: MetadataDecision = Decision(context.now_ms, context.now_ms)
    context.controller.on_timer(SessionTimer(NodeId(2)), refused)
    assert refused.records
    refused.take_back()
    context.timers[SessionTimer(NodeId(2))] = context.now_ms + RETRY_MS
    context.pass_ms(RETRY_MS)
    assert fenced(context) == {2}


def test_a_node_does_not_fence_its_own_broker_because_it_was_busy() -> None:
    """Broker and controller are one process: who judges is the one that was busy."""
    context = ControllerContext().start(1, 2)
    context.pass_ms(SESSION_MS)
    assert fenced(context) == {2}
    context.beat(1)
    context.pass_ms(10 * SESSION_MS)
    context.pass_ms(STALL_GRACE_MS)
    assert fenced(context) == {2}


def test_the_process_before_on_the_controllers_own_node_is_fenced() -> None:
    """The process is gone, and the present one may have much to read before it is there.

    Others have to lead meanwhile.
    """
    context = ControllerContext().start(1).new_epoch()
    context.pass_ms(SESSION_MS)
    assert fenced(context) == {1}
