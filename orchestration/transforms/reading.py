"""Who reads the records of a range: the run process or Spark's workers; and the range after it, while Spark is at work.

Decides the first by the number of offsets. The second is a guess that costs nothing when it is wrong: what was read ahead is used only for
just the ranges that the next plan asks for, else it is thrown away; a failure to read ahead is met again by the read in earnest.
Invariant: at most one batch is read ahead, so memory and disk hold at most two.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import types

from orchestration.byte_limits import ByteLimits
from orchestration.formats import ValueFormat
from orchestration.formats.json_values import json_format
from orchestration.log_client import RangeReader
from orchestration.offsets import OffsetRanges
from orchestration.spark.source import RecordBatchFrame, read_by_workers
from orchestration.transforms.intake import Intake, take_in
from orchestration.values.judge import ValueJudge


class ReadAhead:
    """Reads one batch in a thread of its own, for a run of several. A context manager: leaving it throws away what was not asked for."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")
        self._ranges: OffsetRanges | None = None
        self._intake: Future[Intake] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._drop()
        self._thread.shutdown()

    def start(self, ranges: OffsetRanges, read: Callable[[], Intake]) -> None:
        """Begin to read ``ranges``."""
        self._drop()
        self._ranges, self._intake = ranges, self._thread.submit(read)

    def take(self, ranges: OffsetRanges) -> Intake | None:
        """Return what was read of just these ranges, None where there is nothing or reading failed."""
        if self._intake is None or self._ranges != ranges or self._intake.exception() is not None:
            self._drop()
            return None
        intake, self._intake = self._intake.result(), None
        return intake

    def _drop(self) -> None:
        """Let go of what was read; a read that is under way ends by itself."""
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
    """Return the records of ``ranges``, whose values have ``fields`` (None: any bytes), in JSON or in ``value_format``.

    Up to ``arrow_records`` offsets go through the run process, more through Spark's workers. ``scratch`` is a directory that Spark can
    read, too; None where Spark runs on another machine. ``following`` returns the ranges that are going to be asked for after given ones,
    as far as that can be known. With ``has_headers`` the transform is given the records' headers.

    The run process stops where ``limits`` are reached: the ranges of what is returned say what was read. Spark's workers read all, and keep
    it on their disks; of ``limits`` they know that of a record.
    """
    limits = limits or ByteLimits(run_bytes=None)
    if ranges.count > arrow_records:
        chosen = value_format or json_format(fields)
        judge = None if fields is None or chosen is not None else ValueJudge(fields)
        return read_by_workers(session, reader, ranges, judge, chosen, has_headers=has_headers, record_bytes=limits.record_bytes)

    def read(wanted: OffsetRanges) -> Intake:
        return take_in(reader, wanted, fields, scratch, value_format=value_format, has_headers=has_headers, limits=limits)

    intake = (ahead.take(ranges) if ahead is not None else None) or read(ranges)
    if ahead is not None and following is not None and 0 < (coming := following(intake.ranges)).count <= arrow_records:
        ahead.start(coming, lambda: read(coming))
    return intake
