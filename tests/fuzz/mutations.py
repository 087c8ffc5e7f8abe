"""Damage: bytes that were right, changed a little in the ways that break parsers."""

import struct
from collections.abc import Callable
from random import Random

EDGES_8 = (0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
EDGES_16 = (0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
EDGES_32 = (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF, 1 << 20, 100 << 20)
EDGES_64 = (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40)
VARINTS = (
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 12,
    b"\x80\x80\x80\x80\x08",
    b"\x00",
    b"\x01",
)
LARGEST_GROWTH_BYTES = 4_096

Mutation = Callable[[Random, bytearray], None]


def mutate(rng: Random, content: bytes, *, least: int = 1) -> bytes:
    """Return the bytes with one to eight changes, mostly few."""
    changed = bytearray(content)
    for _ in range(max(least, rng.choice((1, 1, 1, 2, 3, 8)))):
        rng.choice(MUTATIONS)(rng, changed)
    return bytes(changed)


def _place(rng: Random, content: bytearray) -> int:
    """Early bytes decide more than late ones."""
    return (
        min(rng.randrange(len(content) + 1), rng.randrange(len(content) + 1))
        if rng.random() < 0.5
        else rng.randrange(len(content) + 1)
    )


def _flip(rng: Random, content: bytearray) -> None:
    if content:
        content[min(_place(rng, content), len(content) - 1)] ^= 1 << rng.randrange(8)


def _set_edge(rng: Random, content: bytearray) -> None:
    if content:
        content[min(_place(rng, content), len(content) - 1)] = rng.choice(EDGES_8)


def _set_wide(rng: Random, content: bytearray) -> None:
    layout, edges = rng.choice(
        ((">H", EDGES_16), (">I", EDGES_32), (">Q", EDGES_64), ("<I", EDGES_32))
    )
    place = _place(rng, content)
    packed = struct.pack(layout, rng.choice(edges))
    content[place : place + len(packed)] = packed


def _set_varint(rng: Random, content: bytearray) -> None:
    place = _place(rng, content)
    content[place : place + 1] = rng.choice(VARINTS)


def _step(rng: Random, content: bytearray) -> None:
    if content:
        place = min(_place(rng, content), len(content) - 1)
        content[place] = (content[place] + rng.choice((-2, -1, 1, 2))) % 256


def _cut(rng: Random, content: bytearray) -> None:
    del content[_place(rng, content) :]


def _remove(rng: Random, content: bytearray) -> None:
    place = _place(rng, content)
    del content[place : place + rng.choice((1, 2, 4, 8, 61))]


def _insert(rng: Random, content: bytearray) -> None:
    place = _place(rng, content)
    content[place:place] = rng.choice(
        (
            bytes(rng.randrange(1, 40)),
            b"\xff" * rng.randrange(1, 12),
            rng.randbytes(rng.randrange(1, 20)),
        )
    )


def _repeat(rng: Random, content: bytearray) -> None:
    place = _place(rng, content)
    part = bytes(content[place : place + rng.choice((1, 4, 16, 64))])
    content[place:place] = (part * rng.choice((1, 2, 200)))[:LARGEST_GROWTH_BYTES]


def _append(rng: Random, content: bytearray) -> None:
    content += rng.choice((b"\0", b"\xff" * 5, rng.randbytes(30), bytes(300)))


MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _flip, _set_edge, _set_edge, _set_wide, _set_varint, _step),
    *(_cut, _remove, _insert, _repeat, _append),
)
