"""The states of a record that was delivered to a share group, and their transitions (KIP-932).

This file decides which transitions are allowed, and the state of an acquired record after an
acknowledgement. It knows neither offsets nor members.
"""

from enum import IntEnum


class RecordState(IntEnum):
    """The state of one record for one share group. The numbers are stored, except ACQUIRED."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """A consumer's acknowledgement of one offset. GAP means that the log has no record there."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How strictly ``max_records`` is applied (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class ArchiveReason(IntEnum):
    """The reason for archiving a record that was not processed."""

    REJECTED = 1
    DELIVERED_TOO_OFTEN = 2


NEXT_STATES: dict[RecordState, frozenset[RecordState]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED, RecordState.ARCHIVED}),
    RecordState.ACQUIRED: frozenset(
        {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}
    ),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVED: frozenset(),
}
"""The allowed transitions. A final state has none."""

STATE_AFTER: dict[AcknowledgeType, RecordState] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""The state of an acquired record after each type.

A renewal (KIP-1222) does not change the state.
"""

FINAL_STATES = frozenset(state for state, following in NEXT_STATES.items() if not following)
