"""Bytes that no client sends end the connection, with one line in the log if it is ours.

The next request is served.
"""

import random
import struct

import pytest

from log_service.broker.registry import REGISTRY
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.metadata import MetadataRequest
from tests.helpers.broker_process import BrokerProcess
from tests.integration.wire import Wire

UNKNOWN_VERSION = 99
HEADER = struct.Struct(">hhih")


def is_alive(bootstrap: str) -> bool:
    """Whether a new connection gets a good answer."""
    with Wire(bootstrap) as wire:
        return bool(wire.ask(MetadataRequest(topics=[]), 12).brokers)


def flexible(body: bytes) -> bytes:
    """A good header of the newest Metadata version, and this body."""
    return HEADER.pack(ApiKey.METADATA, 12, 7, -1) + b"\0" + body


def framed(content: bytes) -> bytes:
    """The content with its size before it."""
    return struct.pack(">i", len(content)) + content


ATTACKS: dict[str, bytes] = {
    "negative size": struct.pack(">i", -1),
    "smallest size": struct.pack(">i", -(2**31)),
    "size of 2 GiB": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "size above the limit": struct.pack(">i", (100 << 20) + 1),
    "an empty frame": struct.pack(">i", 0),
    "a frame of one byte": struct.pack(">i", 1) + b"\0",
    "a TLS hello": bytes.fromhex("16030100f8010000f40303"),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an unknown API": struct.pack(">i", 10) + HEADER.pack(4_242, 0, 7, -1),
    "a negative API": struct.pack(">i", 10) + HEADER.pack(-5, 0, 7, -1),
    "an API of controllers": struct.pack(">i", 10) + HEADER.pack(52, 0, 7, -1),
    "a removed API": struct.pack(">i", 10) + HEADER.pack(4, 0, 7, -1),
    "an unknown version": struct.pack(">i", 10)
    + HEADER.pack(ApiKey.METADATA, UNKNOWN_VERSION, 7, -1),
    "a negative version": struct.pack(">i", 10) + HEADER.pack(ApiKey.METADATA, -1, 7, -1),
    "a version that was removed": struct.pack(">i", 10) + HEADER.pack(ApiKey.FETCH, 3, 7, -1),
    "a client id beyond the frame": struct.pack(">i", 14)
    + HEADER.pack(ApiKey.METADATA, 1, 7, 500)
    + b"abcd",
    "a client id that is no text": struct.pack(">i", 12)
    + HEADER.pack(ApiKey.METADATA, 1, 7, 2)
    + b"\xff\xff",
}

BODIES: dict[str, bytes] = {
    "no body": b"",
    "an array of 2 GiB": b"\xff\xff\xff\xff\x07",
    "an array of 4 Gi and a name beyond its frame": bytes.fromhex("ffffffff0bffffffff0a"),
    "an array with a length that never ends": b"\xff" * 40,
    "an array of more elements than bytes": b"\xff\x01" + b"\0" * 30,
    "tags of 2 GiB": b"\x01\0\0" + b"\xff\xff\xff\xff\x07",
    "a tag beyond the frame": b"\x01\0\0" + b"\x01\x05\xff\x7f",
}


@pytest.mark.parametrize("content", ATTACKS.values(), ids=ATTACKS)
def test_bytes_that_are_no_request_close_the_connection(bootstrap: str, content: bytes) -> None:
    with Wire(bootstrap) as wire:
        wire.send_bytes(content)
        wire.finish()
        assert wire.is_closed_by_broker()
    assert is_alive(bootstrap)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_does_not_parse_closes_the_connection(bootstrap: str, body: bytes) -> None:
    with Wire(bootstrap) as wire:
        wire.send_frame(flexible(body))
        assert wire.is_closed_by_broker()
    assert is_alive(bootstrap)


def test_text_that_is_no_text_closes_the_connection(tidelog_bootstrap: str) -> None:
    """Apache Kafka puts replacement characters in its place, and answers for a topic that nobody
    named.
    """
    with Wire(tidelog_bootstrap) as wire:
        wire.send_frame(flexible(b"\x02" + b"\0" * 16 + b"\x03\xff\xfe" + b"\0" * 9))
        assert wire.is_closed_by_broker()
    assert is_alive(tidelog_bootstrap)


def test_answers_before_the_nonsense_still_arrive(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        wire.send(MetadataRequest(topics=[]), 12)
        wire.send_bytes(ATTACKS["negative size"])
        assert wire.receive(ApiKey.METADATA, 12).brokers
        assert wire.is_closed_by_broker()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(bootstrap: str) -> None:
    """KIP-511: the response has the range of ApiVersions itself.

    The client can step down on the same connection.
    """
    with Wire(bootstrap) as wire:
        wire.send_header(ApiKey.API_VERSIONS, UNKNOWN_VERSION, is_flexible=True)
        answer = wire.receive(ApiKey.API_VERSIONS, 0)
        assert answer.error_code == 35
        assert [(one.api_key, one.min_version) for one in answer.api_keys] == [(18, 0)]
        wire.send(ApiVersionsRequest(client_software_name="wire", client_software_version="1"), 4)
        assert wire.receive(ApiKey.API_VERSIONS, 4).error_code == 0


@pytest.mark.parametrize("name", ["", "-", "a b", "naïve", "-lead", "trail-"])
def test_a_client_with_an_impossible_name_is_refused_and_may_try_again(
    bootstrap: str, name: str
) -> None:
    with Wire(bootstrap) as wire:
        answer = wire.ask(
            ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3
        )
        assert answer.error_code == 42
        assert (
            wire.ask(
                ApiVersionsRequest(client_software_name="good", client_software_version="1.0"), 3
            ).error_code
            == 0
        )


def test_half_a_frame_and_a_goodbye_harm_nothing(bootstrap: str) -> None:
    whole = struct.pack(">i", 500) + HEADER.pack(ApiKey.METADATA, 12, 7, -1)
    for end in range(1, len(whole) + 1):
        with Wire(bootstrap) as wire:
            wire.send_bytes(whole[:end])
            if end % 2:
                wire.reset()
    assert is_alive(bootstrap)


def test_a_request_may_arrive_byte_by_byte(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        for byte in struct.pack(">i", 10) + HEADER.pack(ApiKey.API_VERSIONS, 0, 7, -1):
            wire.send_bytes(bytes([byte]))
        assert wire.receive(ApiKey.API_VERSIONS, 0).error_code == 0


def test_a_thousand_requests_in_one_piece_are_answered_in_order(bootstrap: str) -> None:
    request = struct.pack(">i", 10) + HEADER.pack(ApiKey.API_VERSIONS, 0, 0, -1)
    with Wire(bootstrap) as wire:
        wire.send_bytes(
            b"".join(
                request[:8] + struct.pack(">i", number) + request[12:] for number in range(1_000)
            )
        )
        for number in range(1_000):
            assert wire.receive_frame()[:4] == struct.pack(">i", number)


def test_every_served_api_survives_damaged_bodies(bootstrap: str) -> None:
    """Random bodies come behind good headers, for every API and its lowest and highest version.

    The seed is shown on failure.
    """
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for spec in (api.spec for api in REGISTRY.values()):
        for version in {spec.min_version, spec.max_version}:
            for _ in range(4):
                body = bytes(
                    rng.choice((0, 1, 2, 5, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                    for _ in range(rng.randrange(120))
                )
                with Wire(bootstrap) as wire:
                    wire.send_header(
                        spec.key, version, body, is_flexible=version >= spec.first_flexible_version
                    )
                    wire.finish()
                    assert wire.is_closed_by_broker(), (
                        f"seed {seed}: {spec.name} v{version} {body.hex()}"
                    )
    assert is_alive(bootstrap), f"seed {seed}"


def test_random_bytes_harm_nothing(bootstrap: str) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(60):
        with Wire(bootstrap) as wire:
            wire.send_bytes(rng.randbytes(rng.randrange(1, 3_000)))
            wire.finish()
            assert wire.is_closed_by_broker(), f"seed {seed}"
    assert is_alive(bootstrap), f"seed {seed}"


@pytest.mark.parametrize(
    "frames",
    [ATTACKS, {name: framed(flexible(body)) for name, body in BODIES.items()}],
    ids=["frames", "bodies"],
)
def test_every_closed_connection_leaves_one_line_and_no_traceback(
    broker: BrokerProcess, frames: dict[str, bytes]
) -> None:
    for name, content in frames.items():
        before = len(broker.log)
        with Wire(broker.bootstrap) as wire:
            wire.send_bytes(content)
            wire.finish()
            assert wire.is_closed_by_broker()
        assert is_alive(broker.bootstrap)
        lines = broker.log[before:].splitlines()
        assert len(lines) == 1, f"{name}: {lines}"
        assert "127.0.0.1" in lines[0]
    assert "Traceback" not in broker.log


def test_a_flood_of_nonsense_does_not_flood_the_log(broker: BrokerProcess) -> None:
    before = len(broker.log)
    for _ in range(200):
        with Wire(broker.bootstrap) as wire:
            wire.send_bytes(ATTACKS["an unknown API"])
            assert wire.is_closed_by_broker()
    assert 1 <= len(broker.log[before:].splitlines()) <= 25
    assert is_alive(broker.bootstrap)
