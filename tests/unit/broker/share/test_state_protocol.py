"""A member gets an error code for a share state that could not be read or written."""

import pytest

from log_service.broker.share.state_protocol import member_error
from log_service.common.errors import ErrorCode, KafkaError

TOLD = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.UNKNOWN_SERVER_ERROR,
}


@pytest.mark.parametrize(("code", "told"), TOLD.items())
def test_a_member_hears_whether_to_ask_again_or_to_look_for_the_leader(
    code: ErrorCode, told: ErrorCode
) -> None:
    assert member_error(KafkaError(code, "the coordinator's text")) is told
