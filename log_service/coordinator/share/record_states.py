"""The states of a record that a share group has been given, and the moves between them (KIP-932).

Decides which state may follow which, and what an acknowledgement makes of an acquired record. Knows neither offsets nor members.
"""

from enum import IntEnum


class RecordState(IntEnum):
    """The state of one record for one share group. The numbers are stored; acquired is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a consumer says of a record that it holds. A gap is an offset at which the log holds no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How strictly ``max_records`` binds (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class ArchiveReason(IntEnum):
    """Why a record is archived that somebody could have worked on."""

    REJECTED = 1
    DELIVERED_TOO_OFTEN = 2


NEXT_STATES: dict[RecordState, frozenset[RecordState]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED, RecordState.ARCHIVED}),
    RecordState.ACQUIRED: frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVED: frozenset(),
}
"""Which states may follow; a final state is never left."""

STATE_AFTER: dict[AcknowledgeType, RecordState] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""What an acquired record becomes; a renewal (KIP-1222) changes no state."""

FINAL_STATES = frozenset(state for state, following in NEXT_STATES.items() if not following)
