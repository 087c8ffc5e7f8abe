"""XXH3 with 64 bits and seed 0, as its specification says (https://github.com/Cyan4973/xxHash, ``xxhash_spec.md``).

Kafka stores such hashes of what groups read (KIP-1101), so that every coordinator of a group has to compute the same ones. Speed matters
little: a hash is computed when a topic changes, not when it is read.
"""

import struct
from collections.abc import Iterator

from log_service.common.types import Buffer

_MASK = 0xFFFFFFFFFFFFFFFF
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE_BYTES, _LANES, _SECRET_STEP = 64, 8, 8
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE_BYTES) // _SECRET_STEP
_BLOCK_BYTES = _STRIPES_PER_BLOCK * _STRIPE_BYTES
_FIRST_ACCUMULATORS = (_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1)
_LAST_STRIPE_SECRET, _MERGE_SECRET = len(_SECRET) - _STRIPE_BYTES - 7, 11
_MID_START, _MID_LAST = 3, 136 - 17

_U32, _U64, _STRIPE = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<8Q")
_BLOCK_SECRETS = [_STRIPE.unpack_from(_SECRET, index * _SECRET_STEP) for index in range(_STRIPES_PER_BLOCK)]
_SCRAMBLE_SECRET = _STRIPE.unpack_from(_SECRET, len(_SECRET) - _STRIPE_BYTES)


def xxh3_64(data: Buffer) -> int:
    """Return the hash, unsigned."""
    view = bytes(data)
    if len(view) <= 16:
        return _hash_up_to_16(view)
    if len(view) <= 128:
        return _hash_up_to_128(view)
    if len(view) <= 240:
        return _hash_up_to_240(view)
    return _hash_long(view)


def _u32(data: bytes, position: int) -> int:
    value: int = _U32.unpack_from(data, position)[0]
    return value


def _u64(data: bytes, position: int) -> int:
    value: int = _U64.unpack_from(data, position)[0]
    return value


def _folded(first: int, second: int) -> int:
    product = first * second
    return (product & _MASK) ^ product >> 64


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_of_64(value: int) -> int:
    """The last step of XXH64, which short inputs take over."""
    value = (value ^ value >> 33) * _PRIME64_2 & _MASK
    value = (value ^ value >> 29) * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _hash_up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        return _avalanche((size + _swapped(low) + high + _folded(low, high)) & _MASK)
    if size >= 4:
        value = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _PRIME_MX2 & _MASK
        value = (value ^ (value >> 35) + size) * _PRIME_MX2 & _MASK
        return value ^ value >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_of_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_of_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mixed(data: bytes, position: int, secret: int) -> int:
    """Mix 16 bytes with the secret."""
    return _folded(_u64(data, position) ^ _u64(_SECRET, secret), _u64(data, position + 8) ^ _u64(_SECRET, secret + 8))


def _hash_up_to_128(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    for round_index in range((size - 1) // 32 + 1):
        total += _mixed(data, 16 * round_index, 32 * round_index)
        total += _mixed(data, size - 16 * (round_index + 1), 32 * round_index + 16)
    return _avalanche(total & _MASK)


def _hash_up_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1 + sum(_mixed(data, 16 * index, 16 * index) for index in range(8))
    total = _avalanche(total & _MASK)
    total += sum(_mixed(data, 16 * index, 16 * (index - 8) + _MID_START) for index in range(8, size // 16))
    total += _mixed(data, size - 16, _MID_LAST)
    return _avalanche(total & _MASK)


def _accumulate(accumulators: list[int], stripe: tuple[int, ...], secret: tuple[int, ...]) -> None:
    for lane in range(_LANES):
        keyed = stripe[lane] ^ secret[lane]
        accumulators[lane ^ 1] += stripe[lane]
        accumulators[lane] = accumulators[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _scrambled(accumulators: list[int]) -> list[int]:
    masked = (value & _MASK for value in accumulators)
    return [(value ^ value >> 47 ^ secret) * _PRIME32_1 & _MASK for value, secret in zip(masked, _SCRAMBLE_SECRET, strict=True)]


def _stripes(data: bytes) -> Iterator[tuple[int, int]]:
    """Iterate over whole stripes but the last one: the position, and the stripe's number in its block."""
    for number in range((len(data) - 1) // _STRIPE_BYTES):
        yield number * _STRIPE_BYTES, number % _STRIPES_PER_BLOCK


def _hash_long(data: bytes) -> int:
    accumulators = list(_FIRST_ACCUMULATORS)
    for position, number in _stripes(data):
        if number == 0 and position:
            accumulators = _scrambled(accumulators)
        _accumulate(accumulators, _STRIPE.unpack_from(data, position), _BLOCK_SECRETS[number])
    if (len(data) - 1) % _BLOCK_BYTES < _STRIPE_BYTES:
        accumulators = _scrambled(accumulators)
    last = _STRIPE.unpack_from(data, len(data) - _STRIPE_BYTES)
    _accumulate(accumulators, last, _STRIPE.unpack_from(_SECRET, _LAST_STRIPE_SECRET))
    total = len(data) * _PRIME64_1
    for lane in range(0, _LANES, 2):
        keys = (_u64(_SECRET, _MERGE_SECRET + 8 * lane), _u64(_SECRET, _MERGE_SECRET + 8 * lane + 8))
        total += _folded(accumulators[lane] & _MASK ^ keys[0], accumulators[lane + 1] & _MASK ^ keys[1])
    return _avalanche(total & _MASK)
