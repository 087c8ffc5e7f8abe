"""The error of a node that gets a request for the leader of the quorum but does not lead."""

from log_service.common.errors import ErrorCode, KafkaError


def not_controller() -> KafkaError:
    """Return NOT_CONTROLLER, because this node does not lead the quorum in the caller's epoch."""
    return KafkaError(
        ErrorCode.NOT_CONTROLLER,
        "this node does not lead the metadata quorum in that epoch; ask the active controller",
    )
