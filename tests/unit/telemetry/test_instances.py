"""A broker lets a client ask and push at its intervals alone."""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.telemetry.instances import Instance, Instances, Push
from log_service.telemetry.subscriptions import Subscription

SUBSCRIPTION = Subscription(subscription_id=5, metrics=("*",), interval_ms=1_000)
MAX_BYTES = 100


def instance() -> Instance:
    return Instance(SUBSCRIPTION, version=1, connection_id=1)


def push_at(
    one: Instance,
    now_ms: int,
    *,
    number: int = 5,
    is_last: bool = False,
    codec: int = 4,
    size: int = 10,
) -> ErrorCode:
    try:
        one.begin_push(
            Push(subscription_id=number, is_terminating=is_last, codec=codec, size_bytes=size),
            MAX_BYTES,
            now_ms,
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def get_at(one: Instance, now_ms: int) -> ErrorCode:
    try:
        one.begin_get(now_ms)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_a_client_asks_pushes_at_once_and_then_once_an_interval() -> None:
    one = instance()
    assert get_at(one, 0) is ErrorCode.NONE
    assert push_at(one, 1) is ErrorCode.NONE
    assert push_at(one, 1_000) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push_at(one, 1_001) is ErrorCode.NONE
    assert get_at(one, 2_000) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert get_at(one, 2_001) is ErrorCode.NONE


def test_a_client_that_was_refused_may_ask_out_of_its_turn_once() -> None:
    one = instance()
    assert get_at(one, 0) is ErrorCode.NONE
    assert push_at(one, 10, number=6) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert get_at(one, 20) is ErrorCode.NONE
    assert get_at(one, 30) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push_at(one, 1_010, number=6) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert push_at(one, 2_010) is ErrorCode.NONE
    assert get_at(one, 2_020) is ErrorCode.THROTTLING_QUOTA_EXCEEDED, (
        "it was told nothing new since"
    )


@pytest.mark.parametrize(("interval_ms", "memory_ms"), [(1_000, 60_000), (300_000, 900_000)])
def test_a_client_is_remembered_for_some_of_its_intervals(interval_ms: int, memory_ms: int) -> None:
    one = Instance(
        Subscription(subscription_id=5, metrics=("*",), interval_ms=interval_ms),
        version=1,
        connection_id=1,
    )
    assert not one.is_silent_at(memory_ms - 1)
    assert one.is_silent_at(memory_ms)


def test_a_client_that_asks_or_pushes_twice_at_a_time_is_refused() -> None:
    one = instance()
    assert get_at(one, 0) is ErrorCode.NONE
    assert get_at(one, 999) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    one = instance()
    assert get_at(one, 0) is ErrorCode.NONE
    assert push_at(one, 0) is ErrorCode.NONE
    assert push_at(one, 0) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"number": 6, "codec": 9, "size": 101}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"codec": 9, "size": 101}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 101}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": 100, "codec": 0}, ErrorCode.NONE),
    ],
)
def test_what_is_wrong_is_told_in_kafkas_order_and_uses_up_the_turn(
    wrong: dict[str, int], code: ErrorCode
) -> None:
    one = instance()
    assert get_at(one, 0) is ErrorCode.NONE
    assert push_at(one, 10, **wrong) is code  # type: ignore[arg-type]
    assert push_at(one, 20) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push_at(one, 1_010) is ErrorCode.NONE


@pytest.mark.parametrize("wrong", [{"number": 6}, {"codec": 9}])
def test_after_a_changed_subscription_or_codec_a_client_asks_at_once_and_pushes_when_its_time_has_come(
    wrong: dict[str, int],
) -> None:
    one = instance()
    push_at(one, 0, **wrong)  # type: ignore[arg-type]
    assert get_at(one, 1) is ErrorCode.NONE
    assert get_at(one, 2) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push_at(one, 3) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push_at(one, 1_000) is ErrorCode.NONE


def test_the_last_push_may_come_early_and_the_next_one_is_refused() -> None:
    one = instance()
    push_at(one, 0)
    assert push_at(one, 1, is_last=True) is ErrorCode.NONE
    assert push_at(one, 5_000) is ErrorCode.INVALID_REQUEST


def found(
    all_of_them: Instances,
    number: int,
    *,
    version: int = 1,
    connection_id: int = 1,
    now_ms: int = 0,
) -> Instance:
    return all_of_them.find(UUID(int=number), version, connection_id, lambda: SUBSCRIPTION, now_ms)


def test_a_client_is_known_again_until_the_subscriptions_change_or_it_was_silent() -> None:
    known = Instances()
    one = found(known, 7)
    one.begin_get(0)
    assert found(known, 7, now_ms=59_999) is one
    assert found(known, 7, now_ms=119_998) is one
    later = found(known, 7, now_ms=179_998)
    assert later is not one
    assert found(known, 7, version=2, now_ms=179_998) is not later


def test_it_is_forgotten_with_its_connection_but_not_with_an_earlier_one() -> None:
    known = Instances()
    found(known, 7, connection_id=1)
    found(known, 7, connection_id=2)
    known.forget(UUID(int=7), 1)
    assert len(known) == 1
    known.forget(UUID(int=7), 2)
    known.forget(UUID(int=7), 2)
    assert len(known) == 0


def test_there_are_never_too_many_and_the_longest_silent_one_goes_first() -> None:
    known = Instances(max_count=2)
    first, second = found(known, 1), found(known, 2)
    assert found(known, 1) is first
    found(known, 3)
    assert len(known) == 2
    assert found(known, 1) is first
    assert found(known, 2) is not second
