"""Envelopes hold a client's request as Kafka's do, byte by byte (KIP-590)."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.access import ANONYMOUS, Principal
from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.caller import Caller
from log_service.controller.envelope import (
    envelope_of,
    host_bytes,
    host_of,
    open_response,
    principal_bytes,
    principal_of,
)
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from log_service.protocol.messages.envelope import EnvelopeResponse

KAFKAS_ANONYMOUS = bytes.fromhex("0000 05 55736572 0a 414e4f4e594d4f5553 00 00")
"""What DefaultKafkaPrincipalBuilder of Apache Kafka 4.3.1 writes: version 0, type, name, not by a
token, no tags.
"""


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    assert principal_bytes(ANONYMOUS) == KAFKAS_ANONYMOUS
    assert principal_of(KAFKAS_ANONYMOUS) == (ANONYMOUS, False)


@given(st.text(max_size=300), st.text(max_size=300), st.booleans())
def test_a_principal_comes_back(kind: str, name: str, is_by_token: bool) -> None:
    assert principal_of(principal_bytes(Principal(kind, name), is_by_token=is_by_token)) == (
        Principal(kind, name),
        is_by_token,
    )


def test_a_login_by_token_stays_one_where_tags_follow() -> None:
    """A later version of either product may add tags.

    A client that logged in by a token must not make another one for all that.
    """
    content = principal_bytes(Principal("User", "alice"), is_by_token=True)
    tagged = content[:-1] + bytes.fromhex("01 00 02 abcd")
    assert principal_of(tagged) == (Principal("User", "alice"), True)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_principal_or_refused(content: bytes) -> None:
    with suppress(KafkaError):
        assert isinstance(principal_of(content)[0], Principal)


@pytest.mark.parametrize(
    "content",
    [None, b"", b"\0", KAFKAS_ANONYMOUS[:-1], KAFKAS_ANONYMOUS[:9], b"\0\1" + KAFKAS_ANONYMOUS[2:]],
    ids=str,
)
def test_a_principal_that_is_cut_off_or_of_another_version_is_refused(
    content: bytes | None,
) -> None:
    with pytest.raises(KafkaError) as raised:
        principal_of(content)
    assert raised.value.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def test_addresses_are_4_or_16_bytes() -> None:
    assert host_bytes("10.1.2.3") == bytes((10, 1, 2, 3))
    assert host_of(host_bytes("2001:db8::1")) == "2001:db8::1"
    assert host_of(host_bytes("fe80::1%eth0")) == "fe80::1"
    assert host_of(host_bytes("::ffff:10.1.2.3")) == "10.1.2.3"
    assert host_of(bytes.fromhex("00" * 10 + "ffff" + "0a010203")) == "10.1.2.3"
    assert host_of(host_bytes("a name")) == "0.0.0.0"
    with pytest.raises(KafkaError) as raised:
        host_of(b"12345")
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_the_request_is_inside_with_the_clients_header_and_in_its_version() -> None:
    caller = Caller(version=1, correlation_id=7, client_id="app", host="10.0.0.1")
    envelope = envelope_of(CreatePartitionsRequest(timeout_ms=5), caller)
    assert envelope.request_data == bytes.fromhex(
        "0025 0001 00000007 0003 617070 00000000 00000005 00"
    )
    assert (envelope.request_principal, envelope.client_host_address) == (
        KAFKAS_ANONYMOUS,
        bytes((10, 0, 0, 1)),
    )


@pytest.mark.parametrize(
    ("outer", "code"),
    [
        (EnvelopeResponse(error_code=41), ErrorCode.NOT_CONTROLLER),
        (EnvelopeResponse(error_code=35), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeResponse(error_code=31), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(error_code=97), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=b"\0\0\0\1\xff"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=str,
)
def test_what_the_brokers_have_between_them_is_no_fault_of_the_client(
    outer: EnvelopeResponse, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as raised:
        open_response(outer, CreatePartitionsResponse, Caller(version=1))
    assert raised.value.code is code
