"""Every message in every version comes back as it was, in one piece or in chunks.

No truncation of it passes for a whole one.
"""

from dataclasses import fields, is_dataclass
from math import isnan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_service.common.errors import ProtocolError
from log_service.protocol.codec import decode, encode, encode_chunks
from log_service.protocol.schema import Message
from tests.helpers.whole import of_a_run
from tests.unit.protocol.instances import in_each_version, messages, named, versions

few = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


each_message = pytest.mark.parametrize("cls", list(messages()), ids=named)


@each_message
@few
@given(drawn=st.data())
def test_message_survives_the_wire(cls: type[Message], drawn: Any) -> None:
    for version, message in in_each_version(drawn, cls):
        encoded = encode(message, version)
        decoded, end = decode(cls, version, b"before" + encoded, 6)
        assert decoded == message
        assert end == len(encoded) + 6
        assert (
            b"".join(map(bytes, encode_chunks(message, version, b"prefix"))) == b"prefix" + encoded  # type: ignore[arg-type]
        )


@each_message
@settings(few, max_examples=2)
@given(drawn=st.data())
def test_every_truncation_is_refused(cls: type[Message], drawn: Any) -> None:
    for version, message in in_each_version(drawn, cls, is_tame=True):
        encoded = encode(message, version)
        for size in range(len(encoded)):
            with pytest.raises(ProtocolError):
                decode(cls, version, encoded[:size])


def comparable(value: Any) -> Any:
    """Return a message as plain values, field by field.

    Damage may make a number into none, which is equal to nothing, itself neither.
    """
    if is_dataclass(value):
        return type(value), [comparable(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return "no number" if isinstance(value, float) and isnan(value) else value


@each_message
@settings(few, max_examples=of_a_run(4, 8))
@given(drawn=st.data())
def test_damaged_bytes_are_refused_or_decoded_but_nothing_else(
    cls: type[Message], drawn: Any
) -> None:
    for version, message in in_each_version(drawn, cls, is_tame=True):
        encoded = bytearray(encode(message, version))
        for position in drawn.draw(
            st.lists(st.integers(0, max(len(encoded) - 1, 0)), min_size=1, max_size=4)
        ):
            encoded[position : position + 1] = drawn.draw(
                st.sampled_from((b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b""))
            )
        try:
            decoded, end = decode(cls, version, encoded)
        except ProtocolError:
            continue
        assert end <= len(encoded)
        assert comparable(decode(cls, version, encode(decoded, version))[0]) == comparable(decoded)


@each_message
@settings(few, max_examples=of_a_run(4, 8))
@given(noise=st.binary(max_size=60))
def test_random_bytes_are_refused_or_decoded_but_nothing_else(
    cls: type[Message], noise: bytes
) -> None:
    for version in versions(cls):
        try:
            _, end = decode(cls, version, noise)
        except ProtocolError:
            continue
        assert end <= len(noise)
