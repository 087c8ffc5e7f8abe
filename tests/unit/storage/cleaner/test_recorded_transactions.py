"""Our passes over Apache Kafka's own files leave the same bytes as its passes.

That includes indexes of aborted transactions. ``recorded_transactions.json`` holds what
``tests/integration/test_differential_transactions.py`` saw on Apache Kafka 4.3.1: the files of
compacted partitions, and the files after each of its passes. What it appended before a pass is
taken from the latter, and so is the time.
"""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from log_service.records.batch import BatchHeader, iterate_headers
from log_service.storage.cleaner.selection import look_at
from tests.unit.storage.cleaner.context import CompactedLog

RECORDED = json.loads(Path(__file__).with_name("recorded_transactions.json").read_text())
ONE_SEGMENT = 1 << 20


def unpacked(content: str) -> dict[str, bytes]:
    files: dict[str, str] = json.loads(zlib.decompress(base64.b64decode(content)))
    return {name: bytes.fromhex(digits) for name, digits in files.items()}


def batches_of(files: dict[str, bytes]) -> list[tuple[BatchHeader, bytes]]:
    whole = b"".join(content for name, content in sorted(files.items()) if name.endswith(".log"))
    return [
        (header, whole[position : position + header.size_bytes])
        for position, header in iterate_headers(whole)
    ]


def moved_here(told: dict[str, Any]) -> CompactedLog:
    """Return a log that was opened on Kafka's files."""
    log = CompactedLog(delete_retention_ms=told["delete_retention_ms"], segment_bytes=ONE_SEGMENT)
    for name in log.names():
        log.files.remove(log.directory / name)
    for name, content in unpacked(told["before"]).items():
        log.files.write_atomically(log.directory / name, content)
    log.open(is_clean=True)
    return log


def horizons(files: dict[str, bytes]) -> set[int]:
    return {
        header.base_timestamp
        for header, _ in batches_of(files)
        if header.delete_horizon_ms is not None
    }


def append_what_kafka_appended(log: CompactedLog, after: dict[str, bytes]) -> None:
    """Append, each in a segment of its own, the batches that Kafka had at its end."""
    for header, content in batches_of(after):
        if header.base_offset >= log.log.log_end_offset:
            log.log.roll()
            log.log.append_as_follower(content)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_our_passes_leave_the_bytes_that_kafkas_left(name: str) -> None:
    log, known_horizons = moved_here(RECORDED[name]), set[int]()
    for number, told in enumerate(RECORDED[name]["passes"]):
        after = unpacked(told["after"])
        append_what_kafka_appended(log, after)
        new_horizons = horizons(after) - known_horizons
        known_horizons |= new_horizons
        began_ms = [horizon_ms - log.config.delete_retention_ms for horizon_ms in new_horizons] or [
            told["until_ms"]
        ]
        (log.clock.now_ms,) = began_ms
        if look_at(log.log, log.clock.now_ms, log.log.log_end_offset).cleanable_bytes:
            log.clean()
        found = {
            name: log.files.read_bytes(log.directory / name)
            for name in log.names()
            if name.endswith((".log", ".txnindex"))
        }
        assert found == after, f"pass {number}"
        in_memory, cleaned_offset = log.log.aborted_transactions.ended, log.log.cleaned_offset
        log.reopen_clean()
        assert log.log.aborted_transactions.ended == in_memory
        log.log.cleaned_offset = cleaned_offset
