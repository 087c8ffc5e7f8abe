"""Codes, names, and what may be tried again."""

import pytest

from log_service.common.errors import (
    ConfigError,
    ErrorCode,
    KafkaError,
    ProtocolError,
    StorageError,
    TidelogError,
    kept,
)


def test_codes_are_without_gaps_and_unknown_ones_are_unknown() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(9_999) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("code", "is_retriable"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.NETWORK_EXCEPTION, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True),
        (ErrorCode.NONE, False),
        (ErrorCode.OFFSET_OUT_OF_RANGE, False),
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
    ],
)
def test_only_errors_that_may_pass_are_retriable(code: ErrorCode, is_retriable: bool) -> None:
    assert code.is_retriable is KafkaError(code).is_retriable is is_retriable


def test_error_says_its_text_or_else_its_name() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such key")) == "no such key"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
    assert (
        repr(KafkaError(ErrorCode.INVALID_CONFIG, "no such key"))
        == "<KafkaError INVALID_CONFIG: no such key>"
    )


@pytest.mark.parametrize("error_type", [ConfigError, StorageError, ProtocolError])
def test_every_error_on_purpose_can_be_caught_as_one(error_type: type[TidelogError]) -> None:
    assert issubclass(error_type, TidelogError)
    assert issubclass(KafkaError, TidelogError)


def raised(error: Exception, cause: Exception | None) -> Exception:
    """Raise an error because of its cause, and return it with its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error from cause
    return caught.value


def test_a_kept_error_has_its_causes_and_no_frames() -> None:
    """The cause of an end tells a refused certificate from a lost connection."""
    inner = raised(OSError("the certificate is refused"), None)
    outer = raised(KafkaError(ErrorCode.NETWORK_EXCEPTION, "lost"), inner)
    assert kept(outer) is outer
    assert outer.__cause__ is inner
    assert outer.__traceback__ is None
    assert inner.__traceback__ is None
