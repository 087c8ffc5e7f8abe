"""Frames carry the right header for their API and version, say their size, and keep records apart."""

import pytest

from log_service.common.errors import ProtocolError
from log_service.protocol.api_versions import (
    KNOWN,
    ApiKey,
    header_versions,
    request_class,
    response_class,
)
from log_service.protocol.codec import decode, encode
from log_service.protocol.frames import (
    RequestHeader,
    UnsupportedVersionError,
    encode_request,
    encode_response,
    parse_correlation_id,
    parse_request_header,
    parse_response_header,
)
from log_service.protocol.messages import headers
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from log_service.protocol.messages.metadata import MetadataRequest

# Apache Kafka 4.3.1's own bytes of this header.
METADATA_V12 = bytes.fromhex("0003000c0000000900026d6500")


class Slice:
    """Something that has a length and is not bytes, as a leased slice of a file is."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def joined(chunks: list[object]) -> bytes:
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))


@pytest.mark.parametrize("client_id", [None, "", "me", "é" * 200])
@pytest.mark.parametrize("key", KNOWN)
def test_request_is_parsed_as_it_was_framed(key: ApiKey, client_id: str | None) -> None:
    spec = KNOWN[key]
    for version in range(spec.min_version, spec.max_version + 1):
        header = RequestHeader(ApiKey(key), version, -7, client_id)
        frame = joined(list(encode_request(header, request_class(key)())))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        parsed, offset = parse_request_header(memoryview(frame)[4:])
        assert parsed == header
        assert decode(request_class(key), version, memoryview(frame)[4:], offset) == (
            request_class(key)(),
            len(frame) - 4,
        )


@pytest.mark.parametrize("key", KNOWN)
def test_response_is_parsed_as_it_was_framed(key: ApiKey) -> None:
    spec = KNOWN[key]
    for version in range(spec.min_version, spec.max_version + 1):
        frame = joined(list(encode_response(key, version, 77, response_class(key)())))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert parse_correlation_id(frame[4:]) == 77
        correlation_id, offset = parse_response_header(key, version, frame[4:])
        assert correlation_id == 77
        assert decode(response_class(key), version, frame[4:], offset) == (
            response_class(key)(),
            len(frame) - 4,
        )


def test_header_is_kafkas() -> None:
    assert parse_request_header(METADATA_V12) == (
        RequestHeader(ApiKey.METADATA, 12, 9, "me"),
        len(METADATA_V12),
    )
    assert joined(
        list(encode_request(RequestHeader(ApiKey.METADATA, 12, 9, "me"), MetadataRequest()))
    )[4:].startswith(METADATA_V12)


@pytest.mark.parametrize("key", KNOWN)
def test_header_agrees_with_the_generated_header_message(key: ApiKey) -> None:
    spec = KNOWN[key]
    for version in (spec.min_version, spec.max_version):
        message = headers.RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=3, client_id="x"
        )
        encoded = encode(message, header_versions(key, version)[0])
        assert parse_request_header(encoded) == (
            RequestHeader(ApiKey(key), version, 3, "x"),
            len(encoded),
        )


def test_tagged_fields_of_a_header_are_stepped_over() -> None:
    tagged = METADATA_V12[:-1] + bytes([2, 0, 1, 99, 5, 0])
    assert parse_request_header(tagged)[1] == len(tagged)
    assert parse_response_header(ApiKey.METADATA, 12, bytes([0, 0, 0, 1, 1, 4, 2, 7, 7, 42])) == (
        1,
        9,
    )


def test_api_versions_response_has_the_oldest_header_even_when_flexible() -> None:
    frame = joined(list(encode_response(ApiKey.API_VERSIONS, 4, 5, ApiVersionsResponse())))
    assert frame[8:] == encode(ApiVersionsResponse(), 4)


def test_api_versions_of_an_unknown_version_gets_a_response_of_version_0() -> None:
    request = encode_request(
        RequestHeader(ApiKey.API_VERSIONS, 3, 5, "new"),
        ApiVersionsRequest(client_software_name="x"),
    )
    frame = bytearray(joined(list(request))[4:])
    frame[2:4] = (9).to_bytes(2, "big")
    with pytest.raises(UnsupportedVersionError) as refused:
        parse_request_header(frame)
    header = refused.value.header
    assert header == RequestHeader(ApiKey.API_VERSIONS, 9, 5, "new")
    response = joined(
        list(
            encode_response(
                header.api_key, 0, header.correlation_id, ApiVersionsResponse(error_code=35)
            )
        )
    )
    assert decode(ApiVersionsResponse, 0, response, 8)[0].error_code == 35


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.PRODUCE, 2), (ApiKey.FETCH, 19), (ApiKey.INIT_PRODUCER_ID, 6), (ApiKey.METADATA, -1)],
)
def test_version_outside_the_table_is_refused_by_name(key: ApiKey, version: int) -> None:
    frame = (
        key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff\0"
    )
    with pytest.raises(UnsupportedVersionError, match=KNOWN[key].name):
        parse_request_header(frame)


@pytest.mark.parametrize("size", range(len(METADATA_V12)))
def test_truncated_header_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(METADATA_V12[:size])


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("7fff000c0000000900026d6500"),  # no such API
        bytes.fromhex("0003000c0000000900ff6d6500"),  # client id longer than the frame
        bytes.fromhex("0003000c00000009fffe6d6500"),  # client id of -2 bytes
        bytes.fromhex("0003000c000000090002ff6500"),  # client id that is not UTF-8
        bytes.fromhex("0003000c0000000900026d65ffffffffff7f"),  # more tags than bytes
        bytes.fromhex("0003000c0000000900026d650101ff"),  # tag longer than the frame
    ],
)
def test_damaged_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(frame)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\xff"])
def test_damaged_response_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_response_header(ApiKey.METADATA, 12, frame)


def test_header_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ProtocolError):
        encode_request(RequestHeader(ApiKey.METADATA, 12, 2**31, "me"), MetadataRequest())
    with pytest.raises(ProtocolError):
        encode_request(RequestHeader(ApiKey.METADATA, 12, 1, "x" * 40000), MetadataRequest())


def test_records_stay_chunks_of_their_own_and_count_for_the_size() -> None:
    leased, view = Slice(1000), memoryview(b"batch")
    partitions = [
        PartitionData(partition_index=0, records=leased),
        PartitionData(partition_index=1, records=view),
        PartitionData(partition_index=2, records=Slice(0)),
        PartitionData(partition_index=3, records=None),
    ]
    chunks = encode_response(
        ApiKey.FETCH,
        12,
        1,
        FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]),
    )
    assert chunks[1] is leased
    assert chunks[3] is view
    assert [len(chunk) for chunk in chunks[1::2]] == [1000, 5, 0]
    first = chunks[0]
    assert isinstance(first, bytearray)
    assert int.from_bytes(first[:4], "big") == sum(len(chunk) for chunk in chunks) - 4
