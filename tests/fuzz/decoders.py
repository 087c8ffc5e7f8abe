"""These targets parse bytes of others, and are called directly.

There is one input a call, tens of thousands a second. A target may return or raise what its
docstring names; anything else, or more CPU than ``SLOW_SECONDS``, is a finding. Where a message was
read it is written again and read again: what comes back must be equal.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from log_service.broker.registry import REGISTRY
from log_service.client.group_protocol import decode_assignment, decode_subscription
from log_service.common.errors import KafkaError, ProtocolError, StorageError
from log_service.config.views import FOREVER_MS, LogConfig
from log_service.coordinator.group.records.codec import decode as decode_group_record
from log_service.protocol.api_versions import request_class, response_class
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS, decode, encode
from log_service.protocol.frames import parse_request_header
from log_service.protocol.stored.serde import decode_metadata_record
from log_service.records.arrow import iterate_record_batches
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.compression import Codec, decompress
from log_service.records.control import iterate_control_records
from log_service.records.validator import Allowance, validate_for_append
from log_service.storage.producer_snapshots import DamagedSnapshot, decode_snapshot
from tests.fuzz.cases import Case, Figures, Finding
from tests.fuzz.handshakes import (
    draw_certificate,
    draw_hello,
    draw_key_store,
    read_certificate,
    read_hello,
    read_key_store,
)
from tests.fuzz.logins import draw_challenge, draw_login, read_challenge, read_login
from tests.fuzz.mutations import mutate
from tests.fuzz.payloads import draw_batch, draw_compressed, draw_opaque, draw_payload
from tests.fuzz.shapes import Vocabulary, draw_message
from tests.fuzz.shrink import shrink
from tests.fuzz.streams import draw_stored

SLOW_SECONDS = 3.0
PLAIN_BOUND_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000
VOCABULARY = Vocabulary()
REFUSALS = (KafkaError, ProtocolError, StorageError, DamagedSnapshot)


class BrokenPromiseError(AssertionError):
    """A target's own check failed."""


@dataclass(frozen=True, slots=True)
class Target:
    """``draw`` makes an input, ``read`` takes one; ``group`` is the line of figures it counts for."""

    name: str
    group: str
    draw: Callable[[Random], bytes]
    read: Callable[[bytes], object]


def targets() -> Iterator[Target]:
    """Everything there is, every API and version."""
    for spec in (api.spec for api in REGISTRY.values()):
        for version in range(spec.min_version, spec.max_version + 1):
            for kind, cls in (
                ("request", request_class(spec.key)),
                ("response", response_class(spec.key)),
            ):
                bound = MAX_REQUEST_ELEMENTS if kind == "request" else 1_000_000
                group = f"{spec.name} {kind}"
                yield Target(
                    f"{group} v{version}",
                    group,
                    partial(_draw_message, cls, version),
                    partial(_read_message, cls, version, bound),
                )
    yield Target("request header", "headers", _draw_header, parse_request_header)
    yield Target("append", "batches", draw_batch, _append)
    yield Target("append compacted", "batches", draw_batch, partial(_append, is_compacted=True))
    yield Target(
        "append recompressed", "batches", draw_batch, partial(_append, compression_type="zstd")
    )
    yield Target(
        "append bounded times",
        "batches",
        draw_batch,
        partial(
            _append, message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=1_000
        ),
    )
    yield Target("read batches", "batches", _draw_batches, _read_batches)
    yield Target("read columns", "batches", _draw_batches, _read_columns)
    yield Target(
        "control records",
        "batches",
        draw_batch,
        lambda content: list(iterate_control_records(content)),
    )
    for codec in Codec:
        yield Target(
            f"decompress {codec.name.lower()}",
            "codecs",
            partial(_draw_codec, codec),
            partial(_decompress, codec),
        )
    yield Target("TLS hello", "TLS", draw_hello, read_hello)
    yield Target("certificate", "TLS", draw_certificate, read_certificate)
    yield Target("key store", "TLS", draw_key_store, read_key_store)
    yield Target("login", "SASL", draw_login, read_login)
    yield Target("challenge of a login", "SASL", draw_challenge, read_challenge)
    yield Target("subscription", "opaque", draw_opaque, decode_subscription)
    yield Target("assignment", "opaque", draw_opaque, decode_assignment)
    yield Target("group record", "stored", _draw_pair, _read_group_record)
    yield Target(
        "streams group record", "stored streams groups", _draw_streams_pair, _read_group_record
    )
    yield Target(
        "metadata record",
        "stored",
        lambda rng: mutate(rng, b"\1" + rng.randbytes(rng.randrange(60))),
        decode_metadata_record,
    )
    yield Target(
        "producer snapshot",
        "stored",
        lambda rng: mutate(rng, bytes(2) + rng.randbytes(rng.randrange(80))),
        decode_snapshot,
    )


def fuzz(
    seed: int, *, seconds: float = float("inf"), rounds: int = 1 << 60
) -> tuple[Figures, list[Finding]]:
    """Feed every target in turn until the time or the rounds are over.

    Findings come small, one per target and kind.
    """
    logging.getLogger("log_service").setLevel(logging.CRITICAL)
    figures, findings, seen = Figures(), [], set()
    begun = time.perf_counter()
    every = list(targets())
    for number in range(rounds):
        if time.perf_counter() - begun > seconds:
            break
        rng = Random(f"decoders {seed} {number}")
        for target in every:
            content = target.draw(rng)
            outcome, fault = execute(target, content)
            figures.count(target.group, outcome)
            kind = (target.group, fault.partition(":")[0])
            if fault and kind not in seen:
                seen.add(kind)
                findings.append(_small(target, content, fault))
    figures.seconds = time.perf_counter() - begun
    return figures, findings


def replay(case: Case) -> str:
    """Play one case; returns what it broke, or nothing."""
    target = next(each for each in targets() if each.name == case.target)
    return execute(target, case.sessions[0][0] if case.sessions and case.sessions[0] else b"")[1]


def execute(target: Target, content: bytes) -> tuple[str, str]:
    """Return (outcome, fault); no fault is an empty text."""
    begun = time.process_time()
    try:
        target.read(content)
        outcome, fault = "read", ""
    except REFUSALS:
        outcome, fault = "refused", ""
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        outcome, fault = "failed", f"{type(error).__name__}: {error}"
    taken = time.process_time() - begun
    return outcome, fault or ("slow: more than 3 s of CPU" if taken > SLOW_SECONDS else "")


def _small(target: Target, content: bytes, fault: str) -> Finding:
    kind = fault.partition(":")[0]
    case = Case(engine="decoders", target=target.name, sessions=((content,),))
    small = shrink(
        case,
        lambda tried: (
            bool(tried.sessions and tried.sessions[0])
            and execute(target, tried.sessions[0][0])[1].startswith(kind)
        ),
    )
    return Finding(text=fault, case=small)


# What is drawn


def _draw_message(cls: Any, version: int, rng: Random) -> bytes:
    draw = rng.random()
    if draw < 0.1:
        return rng.randbytes(rng.randrange(60))
    content = encode(draw_message(rng, cls, version, VOCABULARY, draw_payload), version)
    return content if draw < 0.2 else mutate(rng, content)


def _draw_header(rng: Random) -> bytes:
    spec = rng.choice([api.spec for api in REGISTRY.values()])
    head = (
        spec.key.to_bytes(2, "big")
        + rng.randrange(20).to_bytes(2, "big")
        + bytes(4)
        + b"\0\4wire\0"
    )
    return mutate(rng, head)


def _draw_batches(rng: Random) -> bytes:
    return b"".join(draw_batch(rng) for _ in range(rng.choice((1, 2, 3))))


def _draw_codec(codec: Codec, rng: Random) -> bytes:
    return draw_compressed(rng, codec)


def _draw_streams_pair(rng: Random) -> bytes:
    key, value = draw_stored(rng, VOCABULARY, draw_payload)
    key, value = (key, mutate(rng, value)) if rng.random() < 0.7 else (mutate(rng, key), value)
    return bytes([min(len(key), 255)]) + key[:255] + value


def _draw_pair(rng: Random) -> bytes:
    key = rng.choice((b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\2\0\1g", b"\0\0\0\1g\0\1t\0\0\0\0"))
    value = rng.choice((b"\0\3" + bytes(30), b"\0\3\0\10consumer" + bytes(40), rng.randbytes(40)))
    key, value = mutate(rng, key), mutate(rng, value)
    return bytes([len(key) % 256]) + key[:255] + value


# What reads


def forget_default_structs(message: Any) -> None:
    """Take away tagged structs that say nothing but defaults.

    They are not written, as by Apache Kafka, and so are not read again.
    """
    for each in message.SCHEMA.fields:
        value = getattr(message, each.name)
        if each.struct is None or value is None:
            continue
        for inner in value if isinstance(value, list) else [value]:
            forget_default_structs(inner)
        if each.tag is not None and value == each.struct():
            setattr(message, each.name, None)


def _read_message(cls: Any, version: int, max_elements: int, content: bytes) -> None:
    message, end = decode(cls, version, content, max_elements=max_elements)
    if not 0 <= end <= len(content):
        raise BrokenPromiseError(f"read to {end} of {len(content)} bytes")
    again, _ = decode(cls, version, encode(message, version), max_elements=max_elements)
    forget_default_structs(message)
    if again != message and "nan" not in repr(message):
        raise BrokenPromiseError("what was read is not what was written of it")


def _append(content: bytes, **rules: Any) -> None:
    """Accepted batches can be read, or their records are refused."""
    config = LogConfig(**{"message_timestamp_after_max_ms": FOREVER_MS, **rules})
    result = validate_for_append(bytearray(content), config, NOW_MS, Allowance(PLAIN_BOUND_BYTES))
    if result.size_bytes != len(result.buffer):
        raise BrokenPromiseError(f"accepted {result.size_bytes} of {len(result.buffer)} bytes")
    for position, header in result.batches:
        records = list(iterate_records(result.buffer, position, max_size_bytes=PLAIN_BOUND_BYTES))
        if not len(records) == header.record_count > 0:
            raise BrokenPromiseError(
                f"accepted {header.record_count} records and read {len(records)}"
            )


def _read_batches(content: bytes) -> None:
    for position, _ in iterate_headers(content, is_torn_tail_ok=True):
        for _record in iterate_records(content, position, max_size_bytes=PLAIN_BOUND_BYTES):
            pass


def _read_columns(content: bytes) -> None:
    for _ in iterate_record_batches(
        [content], 0, 1 << 62, is_crc_checked=False, max_size_bytes=PLAIN_BOUND_BYTES
    ):
        pass


def _decompress(codec: Codec, content: bytes) -> None:
    plain = decompress(codec, content, PLAIN_BOUND_BYTES)
    if len(plain) > PLAIN_BOUND_BYTES and codec != Codec.NONE:
        raise BrokenPromiseError(f"{len(plain)} bytes where {PLAIN_BOUND_BYTES} are allowed")


def _read_group_record(content: bytes) -> None:
    size = content[0] if content else 0
    key, value = content[1 : 1 + size], content[1 + size :]
    decode_group_record(key, value)
