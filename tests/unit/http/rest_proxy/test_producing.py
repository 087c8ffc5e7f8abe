"""A request is refused while earlier records wait, and late records say why they are."""

from types import SimpleNamespace
from typing import Any

import pytest

from log_service.client import ErrorCode, KafkaError
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.producing import require_room


def producer(buffered_bytes: int, throttle_ms: float) -> Any:
    """Return the parts of a producer that are asked."""
    return SimpleNamespace(
        accumulator=SimpleNamespace(buffered_bytes=buffered_bytes),
        config=SimpleNamespace(buffer_memory=1_000),
        metrics=lambda: SimpleNamespace(produce_throttle_time_max=throttle_ms),
    )


@pytest.mark.parametrize(
    ("throttle_ms", "pause"),
    [(float("nan"), "1"), (0.0, "1"), (1_200.0, "2"), (1_000_000.0, "60")],
)
def test_the_pause_is_that_of_the_cluster(throttle_ms: float, pause: str) -> None:
    """Without a throttle the cluster is slow, and a second has to do."""
    require_room(producer(499, throttle_ms))
    with pytest.raises(RestError) as refused:
        require_room(producer(500, throttle_ms))
    assert (refused.value.status, refused.value.headers) == (429, (("retry-after", pause),))


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (ErrorCode.UNKNOWN_TOPIC_ID, errors.TOPIC_NOT_FOUND),
        (ErrorCode.MESSAGE_TOO_LARGE, 41301),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, errors.RETRIABLE_ERROR),
        (None, errors.RETRIABLE_ERROR),
    ],
)
def test_a_record_that_is_late_has_the_code_of_its_last_error(
    cause: ErrorCode | None, code: int
) -> None:
    """A record for a topic that was just deleted got 500, as if it could be sent again."""
    late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not delivered")
    late.__cause__ = None if cause is None else KafkaError(cause, "the last")
    assert errors.of_cluster(late).code == code


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, 40901),
        (ErrorCode.UNKNOWN_MEMBER_ID, errors.ILLEGAL_STATE),
        (ErrorCode.ILLEGAL_GENERATION, errors.ILLEGAL_STATE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, errors.RETRIABLE_ERROR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, errors.KAFKA_ERROR),
    ],
)
def test_the_state_of_a_group_is_no_error_of_the_server(code: ErrorCode, expected: int) -> None:
    """A consumer whose partitions went to others, and a group of another kind, got 500."""
    assert errors.of_cluster(KafkaError(code, "no")).code == expected
