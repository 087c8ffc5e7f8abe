"""A controller keeps its knowledge of brokers' sessions when the log refuses a decision."""

from typing import Any

import pytest

from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.sessions import UNKNOWN_OFFSET, BrokerSessions
from log_service.state_machine.decision import Decision

TIMEOUT_MS = 9_000
NODE, OTHER, EPOCH = NodeId(2), NodeId(3), BrokerEpoch(70)


@pytest.fixture
def sessions() -> BrokerSessions:
    """The broker was heard of at 1,000 ms."""
    made = BrokerSessions(TIMEOUT_MS)
    note_heartbeat(made, at(1_000), metadata_offset=40)
    return made


def at(now_ms: int) -> Decision[Any]:
    return Decision(now_ms, now_ms)


def note_heartbeat(
    sessions: BrokerSessions,
    decision: Decision[Any],
    *,
    node_id: NodeId = NODE,
    metadata_offset: int,
) -> None:
    sessions.note_heartbeat(
        node_id, EPOCH, decision, metadata_offset=metadata_offset, leaves_at=UNKNOWN_OFFSET
    )


def test_a_session_is_over_when_its_time_is(sessions: BrokerSessions) -> None:
    assert sessions.is_live(NODE, EPOCH, 1_000 + TIMEOUT_MS - 1)
    assert not sessions.is_live(NODE, EPOCH, 1_000 + TIMEOUT_MS)
    assert not sessions.is_live(NODE, BrokerEpoch(EPOCH + 1), 1_000), "each process has its own"


def test_a_heartbeat_that_was_not_taken_renews_and_begins_nothing(sessions: BrokerSessions) -> None:
    """A broker that is gone would hold up the next process under its id.

    The process would be taken for its duplicate.
    """
    refused = at(5_000)
    note_heartbeat(sessions, refused, metadata_offset=50)
    note_heartbeat(sessions, refused, node_id=OTHER, metadata_offset=50)
    refused.take_back()
    assert not sessions.is_live(NODE, EPOCH, 1_000 + TIMEOUT_MS)
    assert sessions.get(NODE, EPOCH).metadata_offset == 40
    assert not sessions.is_live(OTHER, EPOCH, 5_000)


def test_a_broker_that_could_not_be_fenced_keeps_its_session(sessions: BrokerSessions) -> None:
    refused = at(5_000)
    sessions.forget(NODE, refused)
    sessions.forget(OTHER, refused)
    refused.take_back()
    assert sessions.is_live(NODE, EPOCH, 5_000)
    assert not sessions.is_live(OTHER, EPOCH, 5_000)
