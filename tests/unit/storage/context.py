"""Storage tests are written with a clock to set, and batches of given size.

A log stands over a memory disk or the real one.
"""

from pathlib import Path
from random import Random
from typing import Any

from log_service.common.env import Files
from log_service.common.types import TopicPartition
from log_service.config.views import LogConfig
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.builder import build_batch
from log_service.records.validator import ValidatedBatches, accept_own_batches
from log_service.storage.append_result import AppendResult
from log_service.storage.log import Log
from log_service.storage.recovery import OpenedFrom, open_log
from tests.sim.files import MemoryFiles

PARTITION = TopicPartition("flights", 0)
NOW_MS = 1_700_000_000_000


class SettableClock:
    """Time that stands still until it is set."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms


def batch(
    count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"value", **options: Any
) -> bytearray:
    """Return a batch of ``count`` records with rising timestamps."""
    return bytearray(
        build_batch([(timestamp + index, b"key", value) for index in range(count)], **options)
    )


def idempotent(
    producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **options: Any
) -> bytearray:
    return batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **options
    )


def validated(*batches: bytes | bytearray) -> ValidatedBatches:
    return accept_own_batches(bytearray(b"".join(batches)))


class LogContext:
    """One log, its disk, and what it is asked most often."""

    def __init__(
        self,
        files: Files | None = None,
        root: Path = Path("/logs"),
        clock: SettableClock | None = None,
        **config: Any,
    ) -> None:
        self.clock = clock or SettableClock()
        self.files: Any = (
            files if files is not None else MemoryFiles(rng=Random(1), clock=self.clock)
        )
        self.files.make_directory(root)
        self.files.sync_directory(root.parent)
        self.directory = root / str(PARTITION)
        self.config = LogConfig(**config)
        self.log: Log = self.open()

    def open(self, **known: Any) -> Log:
        self.log = open_log(
            self.files,
            self.clock,
            self.directory,
            PARTITION,
            self.config,
            known=OpenedFrom(**known),
        )
        return self.log

    def reopen_clean(self) -> Log:
        import trio

        trio.run(self.log.close)
        return self.open(
            is_clean=True,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.log.log_start_offset,
        )

    def append(self, *batches: bytes | bytearray, leader_epoch: int = 0) -> AppendResult:
        return self.log.append_as_leader(
            validated(*batches), leader_epoch=leader_epoch, now_ms=self.clock.now_ms
        )

    def append_records(self, *counts: int, size_bytes: int = 5, leader_epoch: int = 0) -> None:
        for count in counts:
            self.append(batch(count, value=b"v" * size_bytes), leader_epoch=leader_epoch)

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = 1 << 20,
        upper_offset: int | None = None,
        is_one_batch_guaranteed: bool = True,
    ) -> bytes:
        leased = self.log.read(
            offset,
            max_bytes=max_bytes,
            upper_offset=self.log.log_end_offset if upper_offset is None else upper_offset,
            is_one_batch_guaranteed=is_one_batch_guaranteed,
        )
        if leased.file_slice is None:
            return b""
        assert len(leased.file_slice) == leased.size_bytes
        content = leased.file_slice.read()
        leased.file_slice.release()
        return content

    def base_offsets(self, offset: int = 0, **options: Any) -> list[int]:
        return [
            header.base_offset
            for _, header in iterate_headers(self.read(offset, **options), is_torn_tail_ok=True)
        ]

    def all_values(self, start_offset: int = 0) -> list[tuple[int, bytes | None]]:
        return [
            (record.offset, record.value)
            for chunk in self.log.read_batches(start_offset)
            for position, _ in iterate_headers(chunk)
            for record in iterate_records(chunk, position)
        ]

    def names(self) -> list[str]:
        names: list[str] = self.files.list_directory(self.directory)
        return names

    def segment_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]
