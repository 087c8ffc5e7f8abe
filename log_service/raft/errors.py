"""The error of a node that gets a request for the leader of the quorum but does not lead."""

from log_service.common.errors import ErrorCode, KafkaError


def not_controller() -> KafkaError:
    """Return the error for a call that needs the leader of the quorum in the call's epoch."""
    return KafkaError(
        ErrorCode.NOT_CONTROLLER,
        "this node does not lead the metadata quorum in that epoch; ask the active controller",
    )
