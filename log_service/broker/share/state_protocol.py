"""The protocol of a broker's requests to share coordinators (KIP-932).

They initialize, read, write and delete the state of one group on one partition. The leader of a
partition reads the state when it begins to serve a group, and writes changes of the records'
delivery states. The group coordinator initializes states, deletes them, and reads summaries.
Neither knows which broker coordinates a state, nor when to retry.

``member_error`` decides which error a member gets for a state that could not be read or written.
"""

from collections.abc import Callable
from typing import Protocol

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import ShareKey, ShareState

OnState = Callable[[ShareState | KafkaError], None]
OnDone = Callable[[KafkaError | None], None]

_TOLD = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class SharePersister(Protocol):
    """Sends requests to the share coordinator of each state, on any node.

    No method waits. ``on_done`` is called once, now or later, from the task of an event or of a
    request, so it must not wait either. Its error is the share coordinator's own, or a network
    error after the last retry.
    """

    def initialize(
        self, key: ShareKey, *, state_epoch: int, start_offset: int, on_done: OnDone
    ) -> None:
        """Initialize a state, or initialize it again in a later state epoch.

        With a start offset of -1 the leader chooses the offset.
        """

    def read(self, key: ShareKey, *, leader_epoch: int, on_done: OnState) -> None:
        """Read a state, and fence the leaders of older epochs.

        Its snapshot epoch, timestamps and delivery complete count are not returned.
        """

    def write(self, key: ShareKey, write: ShareStateWrite, *, on_done: OnDone) -> None:
        """Store changes of the delivery states of records.

        Writes of one key arrive in the order in which they were made.
        """

    def delete(self, key: ShareKey, *, on_done: OnDone) -> None:
        """Delete a state. Deleting one that does not exist succeeds."""

    def summarize(self, key: ShareKey, *, leader_epoch: int, on_done: OnState) -> None:
        """Read a state without its batches, and fence no leader.

        A state that does not exist has start offset -1.
        """


def member_error(error: KafkaError) -> ErrorCode:
    """Return the error code for a member whose state could not be read or written, as in Kafka."""
    return _TOLD.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)
