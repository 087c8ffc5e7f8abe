"""The error of a node that was asked as the leader of the quorum and is not."""

from log_service.common.errors import ErrorCode, KafkaError


def not_controller() -> KafkaError:
    """Return the error of a call to a node that does not lead the quorum, or not in the call's epoch."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum in that epoch; ask the active controller")
