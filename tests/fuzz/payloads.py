"""Payloads travel inside messages.

They are record batches, compressed records and bombs, and the opaque bytes of groups. All of it
right, damaged, and from nothing.
"""

import struct
import zlib
from functools import cache
from random import Random
from typing import Any

import cramjam
import crc32c

from log_service.client.group_protocol import Subscription, encode_assignment, encode_subscription
from log_service.common.types import TopicPartition
from log_service.records.builder import build_batch
from log_service.records.compression import Codec, compress
from tests.fuzz.mutations import mutate

HEADER_SIZE = 61
BOMB_BYTES = 160 << 20
"""What a bomb opens to: more than any bound on what a batch may hold."""
ATTRIBUTES, LAST_DELTA, COUNT = 21, 23, 57
FIELDS = (
    *((0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q")),
    *((43, ">q"), (51, ">h"), (53, ">i"), (57, ">i")),
)


def draw_batch(rng: Random) -> bytes:  # noqa: PLR0911 - a list of kinds
    """Draw a batch.

    It is as an honest producer makes it, or has damaged fields, records or compressed bytes.
    """
    draw = rng.random()
    if draw < 0.3:
        return honest_batch(rng)
    if draw < 0.5:
        return with_changed_field(rng, honest_batch(rng))
    if draw < 0.65:
        return sealed(mutate(rng, honest_batch(rng)))
    if draw < 0.85:
        return with_records(rng, rng.randrange(8), draw_compressed(rng, rng.randrange(5)))
    if draw < 0.88:
        return with_records(rng, codec := rng.randrange(1, 5), bomb(codec))
    if draw < 0.95:
        return mutate(rng, honest_batch(rng))
    return rng.randbytes(rng.randrange(200))


def honest_batch(rng: Random) -> bytes:
    """A batch as a producer makes it."""
    more: dict[str, Any] = (
        {}
        if rng.random() < 0.6
        else {
            "producer_id": rng.randrange(3),
            "producer_epoch": 0,
            "base_sequence": rng.choice((0, 1, 5)),
        }
    )
    records = [
        (
            rng.choice((0, 1_700_000_000_000, 2**62)),
            rng.choice((None, b"", b"key")),
            rng.choice((None, b"", b"value" * rng.randrange(40))),
        )
        for _ in range(rng.choice((1, 1, 2, 5)))
    ]
    return bytes(build_batch(records, codec=Codec(rng.choice((0, 0, 1, 2, 3, 4))), **more))


def sealed(content: bytes) -> bytes:
    """The bytes with a size and a checksum that hold, where there is room for them."""
    batch = bytearray(content)
    if len(batch) >= HEADER_SIZE:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[ATTRIBUTES:])))
    return bytes(batch)


def with_changed_field(rng: Random, content: bytes) -> bytes:
    """A batch with one field of its header at an edge; mostly with a checksum that holds."""
    batch = bytearray(content)
    position, layout = rng.choice(FIELDS)
    bits = 8 * struct.calcsize(layout)
    value = rng.choice(
        (
            0,
            1,
            -1,
            2,
            7,
            -2,
            (1 << bits - 1) - 1,
            -(1 << bits - 1),
            rng.randrange(-(1 << bits - 1), 1 << bits - 1),
        )
    )
    struct.pack_into(layout, batch, position, value)
    if rng.random() < 0.9:
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[ATTRIBUTES:])))
    return bytes(batch)


def with_records(rng: Random, codec: int, records: bytes) -> bytes:
    """A batch whose header is right and whose records are these bytes."""
    batch = bytearray(build_batch([(1_700_000_000_000, b"key", b"one")])[:HEADER_SIZE] + records)
    count = rng.choice((1, 1, 2, 1_000, 2**31 - 1))
    struct.pack_into(">h", batch, ATTRIBUTES, codec)
    struct.pack_into(">i", batch, LAST_DELTA, count - 1)
    struct.pack_into(">i", batch, COUNT, count)
    return sealed(bytes(batch))


def draw_compressed(rng: Random, codec: int) -> bytes:
    """Draw the bytes that a codec reads.

    They are records or other bytes, compressed, and damaged in every other case.
    """
    plain = rng.choice(
        (
            bytes(build_batch([(5, b"key", b"value"), (6, None, None)]))[HEADER_SIZE:],
            bytes(2_000),
            rng.randbytes(50),
            b"",
        )
    )
    packed = bytes(compress(Codec(codec), plain)) if plain or codec != Codec.SNAPPY else b""
    draw = rng.random()
    if draw < 0.3:
        return packed
    if draw < 0.9:
        return mutate(rng, packed)
    return rng.choice(
        (b"\x1f\x8b\x08", b"\x82SNAPPY\0", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"")
    ) + rng.randbytes(rng.randrange(60))


@cache
def bomb(codec: int) -> bytes:
    """Few bytes that open to many; made once."""
    plain = bytes(BOMB_BYTES)
    if codec == Codec.GZIP:
        packer = zlib.compressobj(1, wbits=31)
        return packer.compress(plain) + packer.flush()
    makers: dict[Codec, Any] = {
        Codec.SNAPPY: cramjam.snappy.compress_raw,
        Codec.LZ4: cramjam.lz4.compress,
        Codec.ZSTD: cramjam.zstd.compress,
    }
    return bytes(makers[Codec(codec)](plain))


def draw_opaque(rng: Random) -> bytes:
    """Draw the bytes that groups carry and brokers do not read: subscriptions, assignments, or
    anything.
    """
    owned = tuple(
        TopicPartition(rng.choice(("plain", "compact", "absent")), index)
        for index in range(rng.randrange(4))
    )
    topics = tuple(sorted({each.topic for each in owned}))
    subscription = Subscription(
        topics=topics,
        owned=owned,
        generation_id=rng.choice((-1, 0, 7)),
        user_data=rng.choice((None, b"", b"x")),
    )
    content = encode_subscription(subscription) if rng.random() < 0.5 else encode_assignment(owned)
    draw = rng.random()
    return (
        content
        if draw < 0.4
        else mutate(rng, content)
        if draw < 0.8
        else rng.randbytes(rng.randrange(100))
    )


def draw_payload(rng: Random) -> bytes:
    """Bytes for a field of a message: a batch or something opaque."""
    return draw_batch(rng) if rng.random() < 0.7 else draw_opaque(rng)
