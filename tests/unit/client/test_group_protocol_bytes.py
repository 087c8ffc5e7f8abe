"""Bytes that members exchange: as other clients write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.client.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscription_for,
    with_previous_assignment,
)
from log_service.common.errors import ProtocolError
from log_service.common.types import TopicPartition

OWNED = (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1))


def test_a_subscription_comes_back() -> None:
    subscription = Subscription(
        topics=("t", "u"), owned=OWNED, generation_id=7, user_data=b"x", rack="r1"
    )
    assert decode_subscription(encode_subscription(subscription)) == subscription


def test_a_subscription_of_version_0_is_read() -> None:
    encoded = bytes.fromhex("000000000001000174ffffffff")
    assert decode_subscription(encoded) == Subscription(topics=("t",))


def test_a_newer_subscription_is_read_as_the_newest_known() -> None:
    encoded = encode_subscription(Subscription(topics=("t",), generation_id=3))
    newer = (9).to_bytes(2, "big") + encoded[2:] + b"what comes later"
    assert decode_subscription(newer) == Subscription(topics=("t",), generation_id=3)


def test_an_assignment_comes_back_and_no_bytes_are_none() -> None:
    assert decode_assignment(encode_assignment(reversed(OWNED))) == OWNED
    assert decode_assignment(b"") == ()


def test_an_assignment_has_the_layout_of_other_clients() -> None:
    assert encode_assignment([TopicPartition("t", 5)]) == bytes.fromhex(
        "0001000000010001740000000100000005ffffffff"
    )


@pytest.mark.parametrize(
    "encoded", [b"\0", b"\xff\xff", b"\0\0\xff\xff\xff\xff", b"\0\1\0\0\0\1\0\1"]
)
def test_bytes_that_are_none_are_refused(encoded: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(encoded)


def test_an_eager_sticky_member_tells_its_past_in_the_user_data() -> None:
    subscription = subscription_for("sticky", ["t", "u"], OWNED, 4, "")
    assert subscription.owned == ()
    seen = with_previous_assignment(
        "sticky", decode_subscription(encode_subscription(subscription))
    )
    assert (seen.owned, seen.generation_id) == (OWNED, 4)


def test_a_cooperative_member_tells_what_it_owns() -> None:
    subscription = subscription_for("cooperative-sticky", ["t", "u"], OWNED, 4, "r")
    assert (subscription.owned, subscription.generation_id, subscription.rack) == (OWNED, 4, "r")
    older = Subscription(topics=("t",), owned=OWNED, user_data=subscription.user_data)
    assert with_previous_assignment("cooperative-sticky", older).generation_id == 4


def test_other_assignors_tell_neither() -> None:
    subscription = subscription_for("range", ["t"], OWNED, 4, "")
    assert (subscription.owned, subscription.user_data) == ((), None)


@given(st.binary(max_size=64))
def test_any_user_data_of_a_sticky_member_is_survived(user_data: bytes) -> None:
    seen = with_previous_assignment("sticky", Subscription(topics=("t",), user_data=user_data))
    assert len(seen.owned) <= len(user_data)
