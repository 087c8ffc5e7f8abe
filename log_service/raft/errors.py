"""The error of a node that was asked as the leader of the quorum and is not."""

from log_service.common.errors import ErrorCode, KafkaError


def not_controller() -> KafkaError:
    """Return what a caller gets from a node that does not lead the quorum, or no longer in the epoch of the call."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum in that epoch; ask the active controller")
