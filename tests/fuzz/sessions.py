"""A session is the frames of one hostile connection.

It is drawn for every API and version that is served. Decides bytes only. A frame is a request that
means something, one that was damaged, or nonsense behind a good header; sometimes the frame itself
is damaged, cut off, or announces more than there is.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.protocol.api_versions import ApiKey, ApiSpec, request_class
from log_service.protocol.frames import RequestHeader, encode_request
from tests.fuzz.mutations import mutate
from tests.fuzz.payloads import draw_payload
from tests.fuzz.shapes import Vocabulary, draw_message
from tests.fuzz.streams import draw_heartbeat

HEADER = struct.Struct(">hhih")
UNMAKING = frozenset({ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})
"""Requests that may rightly take a node out of its cluster: never sent long enough to do so."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes with their size before them, and what they were drawn for."""

    spec: ApiSpec
    version: int
    kind: str
    content: bytes


@dataclass(slots=True)
class SessionDrawing:
    """The drawing gives every API and version its turn.

    A broker's listener also sees those that it does not take.
    """

    rng: Random
    vocabulary: Vocabulary
    side: Side = Side.BROKER
    _turns: list[tuple[ApiSpec, int]] = field(default_factory=list)

    def session(self) -> list[Frame]:
        """Return the bytes that one connection sends."""
        return [self.frame() for _ in range(self.rng.choice((1, 1, 2, 3, 6)))]

    def frame(self) -> Frame:
        """One frame."""
        if not self._turns:
            self._turns = [
                (spec, version)
                for spec in (
                    api.spec
                    for api in REGISTRY.values()
                    if self.side is Side.BROKER or self.side in api.sides
                )
                for version in range(spec.min_version, spec.max_version + 1)
            ]
            self.rng.shuffle(self._turns)
        spec, version = self._turns.pop()
        if spec.key in UNMAKING:
            return Frame(
                spec,
                version,
                "cut",
                framed(self._header(spec, version) + self.rng.randbytes(self.rng.randrange(4))),
            )
        draw = self.rng.random()
        if draw < 0.5:
            return Frame(spec, version, "whole", self._whole(spec, version))
        if draw < 0.85:
            return Frame(spec, version, "damaged", self._damaged(spec, version))
        if draw < 0.95:
            return Frame(
                spec,
                version,
                "from nothing",
                framed(self._header(spec, version) + self.rng.randbytes(self.rng.randrange(120))),
            )
        return Frame(spec, version, "no frame", self._no_frame(spec, version))

    def _whole(self, spec: ApiSpec, version: int) -> bytes:
        header = RequestHeader(
            spec.key,
            version,
            self.rng.choice((0, 7, -1, 2**31 - 1)),
            self.rng.choice((None, "", "fuzz", "naïve")),
        )
        if spec.key is ApiKey.STREAMS_GROUP_HEARTBEAT and self.rng.random() < 0.8:
            message: Any = draw_heartbeat(self.rng, self.vocabulary)
        else:
            message = draw_message(
                self.rng, request_class(spec.key), version, self.vocabulary, draw_payload
            )
        chunks: list[Any] = list(encode_request(header, message))
        return b"".join(chunks)

    def _damaged(self, spec: ApiSpec, version: int) -> bytes:
        content = self._whole(spec, version)[4:]
        head = (
            len(self._header(spec, version)) if self.rng.random() < 0.8 and len(content) > 20 else 0
        )
        return framed(content[:head] + mutate(self.rng, content[head:]))

    def _no_frame(self, spec: ApiSpec, version: int) -> bytes:
        content = self._whole(spec, version)
        draw = self.rng.random()
        if draw < 0.4:
            return content[: self.rng.randrange(len(content))]
        if draw < 0.7:
            return (
                struct.pack(
                    ">i",
                    self.rng.choice((-1, 0, 1, 3, 1 << 20, 100 << 20, (100 << 20) + 1, 2**31 - 1)),
                )
                + content[4:]
            )
        return mutate(self.rng, content)

    def _header(self, spec: ApiSpec, version: int) -> bytes:
        return (
            HEADER.pack(spec.key, version, 7, 4)
            + b"fuzz"
            + (b"\0" if version >= spec.first_flexible_version else b"")
        )


def framed(content: bytes) -> bytes:
    """The content with its size before it."""
    return struct.pack(">i", len(content)) + content


def requests_of(content: bytes) -> Iterator[tuple[int, int]]:
    """The (API key, version) that the frames in a piece of bytes claim, in order."""
    position = 0
    while position + 8 <= len(content):
        size, key, version = struct.unpack_from(">ihh", content, position)
        yield key, version
        position += 4 + max(size, 0)
