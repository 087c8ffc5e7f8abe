"""Reads ranges, by the run process or by Spark's workers, and reads the next range ahead.

Decides by the number of offsets which of the two reads a batch. The next range is read while Spark
works on the last one. A batch that was read ahead is used only if the next plan has exactly its
ranges. So a wrong guess costs only the reading. If reading ahead fails, the error is dropped, and
the range is read again.
Invariant: at most one batch is read ahead, so memory and disk hold at most two.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import types

from orchestration.formats import ValueFormat
from orchestration.formats.json_values import json_format
from orchestration.log_client.protocol import RangeReader
from orchestration.offsets.byte_limits import ByteLimits
from orchestration.offsets.ranges import OffsetRanges
from orchestration.spark.source import RecordBatchFrame, read_by_workers
from orchestration.transforms.batch.intake import Intake, take_in
from orchestration.values.value_check import ValueCheck


class ReadAhead:
    """Reads one batch in its own thread, for a run of several batches.

    It is a context manager. Leaving it discards a batch that was not taken.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")
        self._ranges: OffsetRanges | None = None
        self._intake: Future[Intake] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._drop()
        self._thread.shutdown()

    def start(self, ranges: OffsetRanges, read: Callable[[], Intake]) -> None:
        """Begin to read ``ranges``."""
        self._drop()
        self._ranges, self._intake = ranges, self._thread.submit(read)

    def take(self, ranges: OffsetRanges) -> Intake | None:
        """Return the batch of exactly these ranges, and wait for it if need be.

        Return None if there is none or reading failed.
        """
        if self._intake is None or self._ranges != ranges or self._intake.exception() is not None:
            self._drop()
            return None
        intake, self._intake = self._intake.result(), None
        return intake

    def _drop(self) -> None:
        """Discard the batch that was read ahead. A read in progress ends by itself."""
        if self._intake is not None and not self._intake.cancel():
            self._intake.add_done_callback(_release)
        self._intake = None


def _release(intake: "Future[Intake]") -> None:
    if intake.exception() is None:
        intake.result().release()


def read_batch(
    session: Any,
    reader: RangeReader,
    ranges: OffsetRanges,
    fields: types.StructType | None,
    *,
    arrow_records: int,
    value_format: ValueFormat | None = None,
    scratch: Path | None = None,
    ahead: ReadAhead | None = None,
    following: Callable[[OffsetRanges], OffsetRanges] | None = None,
    has_headers: bool = False,
    limits: ByteLimits | None = None,
) -> Intake | RecordBatchFrame:
    """Read the records of ``ranges``, and parse their values as columns ``fields``.

    Values are in ``value_format``, or in JSON if it is None. Without ``fields`` a value may be any
    bytes. The run process reads up to ``arrow_records`` offsets, and Spark's workers read more.
    ``scratch`` is a directory that Spark can read, too. It is None if Spark runs on another
    machine. ``following`` returns the ranges that will probably be requested after given ones. With
    ``has_headers`` the transform gets the records' headers.

    The run process stops when ``limits`` are reached. The ranges of the result then say how far it
    read. Spark's workers read everything, and keep it on their disks. They apply only the limit of
    a single record.
    """
    limits = limits or ByteLimits(run_bytes=None)
    if ranges.count > arrow_records:
        chosen = value_format or json_format(fields)
        value_faults = None if fields is None or chosen is not None else ValueCheck(fields)
        return read_by_workers(
            session,
            reader,
            ranges,
            value_faults,
            chosen,
            has_headers=has_headers,
            record_bytes=limits.record_bytes,
        )

    def read(wanted: OffsetRanges) -> Intake:
        return take_in(
            reader,
            wanted,
            fields,
            scratch,
            value_format=value_format,
            has_headers=has_headers,
            limits=limits,
        )

    intake = (ahead.take(ranges) if ahead is not None else None) or read(ranges)
    if (
        ahead is not None
        and following is not None
        and 0 < (coming := following(intake.ranges)).count <= arrow_records
    ):
        ahead.start(coming, lambda: read(coming))
    return intake
