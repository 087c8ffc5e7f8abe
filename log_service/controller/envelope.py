"""Envelopes of clients' requests from a broker to the active controller (KIP-590).

An envelope holds the request as the client sent it, header and body, its principal and its address.
The response comes back in the same way. Apache Kafka and this project read and write the same
bytes. This file does not know connections.
"""

from ipaddress import ip_address
from typing import Final, TypeVar

from log_service.common.access import Principal
from log_service.common.addresses import parse_address, unmapped
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.controller.caller import Caller
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import decode
from log_service.protocol.frames import (
    SIZE_BYTES,
    RequestHeader,
    encode_request,
    parse_response_header,
)
from log_service.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from log_service.protocol.reader import read_uvarint
from log_service.protocol.schema import Message
from log_service.protocol.writer import uvarint

R = TypeVar("R", bound=Message)

PRINCIPAL_VERSION: Final = b"\0\0"
UNKNOWN_HOST: Final = b"\0\0\0\0"
"""The address of a client of which only a name is known."""
NOT_BY_TOKEN: Final = b"\0"
BY_TOKEN = b"\x01"
NO_TAGS: Final = b"\0"


# The broker's side


def envelope_of(request: Message, caller: Caller) -> EnvelopeRequest:
    """Return the envelope of a client's request, encoded in the client's version of the API."""
    key = request.SCHEMA.key
    assert key is not None, "a whole request has a key"
    frame = encode_request(
        RequestHeader(ApiKey(key), caller.version, caller.correlation_id, caller.client_id), request
    )
    return EnvelopeRequest(
        request_data=b"".join(map(bytes, frame))[SIZE_BYTES:],  # type: ignore[arg-type]
        request_principal=principal_bytes(
            caller.principal, is_by_token=caller.is_token_authenticated
        ),
        client_host_address=host_bytes(caller.host),
    )


def open_response(response: EnvelopeResponse, response_type: type[R], caller: Caller) -> R:
    """Return the response to the client's request.

    Raises:
        KafkaError: NOT_CONTROLLER, another node is the active controller; UNSUPPORTED_VERSION, the
            controller does not support the client's version; UNKNOWN_SERVER_ERROR, the controller
            refuses requests of this broker, or its response is not readable.
    """
    code = ErrorCode.of(response.error_code)
    if code in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION):
        raise KafkaError(
            code, f"the active controller answers {code.name} to a request that was passed on to it"
        )
    if code is not ErrorCode.NONE or response.response_data is None:
        text = (
            f"the active controller does not take requests from this broker: {code.name}; look at"
            " the ACLs and logins of the brokers"
        )
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    key = response_type.SCHEMA.key
    assert key is not None, "a whole response has a key"
    try:
        _, position = parse_response_header(key, caller.version, response.response_data)
        return decode(response_type, caller.version, response.response_data, position)[0]
    except ProtocolError as error:
        text = f"the active controller sent back what is not a {response_type.SCHEMA.name}: {error}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error


# Principals and addresses


def principal_bytes(principal: Principal, *, is_by_token: bool = False) -> bytes:
    """Return a principal as Kafka's DefaultPrincipalData of version 0, preceded by this version."""
    return (
        PRINCIPAL_VERSION
        + _text(principal.type)
        + _text(principal.name)
        + (BY_TOKEN if is_by_token else NOT_BY_TOKEN)
        + NO_TAGS
    )


def principal_of(content: bytes | None) -> tuple[Principal, bool]:
    """Return the principal in these bytes, and whether it logged in with a delegation token.

    Tags of later versions are skipped.

    Raises:
        KafkaError: PRINCIPAL_DESERIALIZATION_FAILURE.
    """
    try:
        view = memoryview(content or b"")
        kind, position = _read_text(view, len(PRINCIPAL_VERSION))
        name, position = _read_text(view, position)
        is_whole = bytes(view[: len(PRINCIPAL_VERSION)]) == PRINCIPAL_VERSION and len(
            view
        ) >= position + len(NOT_BY_TOKEN + NO_TAGS)
    except (ValueError, IndexError, ProtocolError) as error:
        raise _unreadable() from error
    if not is_whole:
        raise _unreadable()
    return Principal(kind, name), view[position] != NOT_BY_TOKEN[0]


def _unreadable() -> KafkaError:
    return KafkaError(
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        "the principal in an envelope cannot be read, or is of another version",
    )


def host_bytes(host: str) -> bytes:
    """Return a client's IP address as 4 or 16 bytes, or ``UNKNOWN_HOST`` for any other text."""
    address = parse_address(host)
    return UNKNOWN_HOST if address is None else address.packed


def host_of(content: bytes) -> str:
    """Return the IP address in these bytes.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if len(content) not in (4, 16):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"an address of {len(content)} bytes; an envelope holds one of 4 or 16",
        )
    return str(unmapped(ip_address(content)))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _read_text(view: memoryview, position: int) -> tuple[str, int]:
    size, position = read_uvarint(view, position)
    end = position + size - 1
    return str(view[position : max(end, position)], "utf-8"), end if size else len(view)
