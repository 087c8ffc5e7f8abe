"""Finds the records on which a transform throws, by bisection, so that the others get rows.

Spark says that a batch failed, but not for which record. So the halves of the batch are computed,
then the halves of a failing half, down to single records. One record of n costs about log2(n) small
Spark jobs. Decides which records are at fault, and how many a table allows. A record is at fault
only if the transform fails on it alone. If the transform fails on all records together but on no
single one, or on an empty batch, the transform is at fault. Knows no Spark, because the caller
computes.
Invariant: the rows come from one computation over all other records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from log_service.common.counts import counted
from orchestration.dead_letters.table import Rejection
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, Places
from orchestration.transforms.declarations import MOST_FAILED
from orchestration.transforms.errors import ExecutionError, TransformError, plain_sentence

FAILED_RULE = "transform"
MAX_SENTENCE = 400
SHOWN_PLACES = 10
NOTHING: Places = {}
_TRACEBACK = "Traceback (most recent call last):"

Compute = Callable[[Sequence[OffsetRange], Places], pa.Table]
"""Computes the records of ranges, except those at some offsets by partition.

Raises ``ExecutionError`` if Spark fails on one.
"""


def allowed(max_failed: float | None, records: int) -> int:
    """Return how many records of a batch may fail.

    ``max_failed`` is a count, or a share of ``records``. A share allows at least one record, for
    small batches.
    """
    if max_failed is None:
        return 0
    return (
        max_failed
        if isinstance(max_failed, int)
        else min(MOST_FAILED, max(1, int(max_failed * records)))
    )


def sentence(error: BaseException) -> str:
    """Return the error as one line, without Spark's codes and statements.

    Of a Python traceback only the last line is kept.
    """
    kind, _, text = str(error).partition(": ")
    text = plain_sentence(text)
    if _TRACEBACK in text:
        kind, text = "", text.splitlines()[-1].strip()
    line = f"{kind}: {text.splitlines()[0] if text else ''}" if kind else text
    return line if len(line) <= MAX_SENTENCE else f"{line[:MAX_SENTENCE]}..."


@dataclass(slots=True, kw_only=True)
class Isolation:
    """Finds the records of ``ranges`` on which ``compute`` fails.

    At most ``limit`` of them become dead letters. Records at ``forgiven`` places are dead letters
    already and do not count.
    """

    name: str
    ranges: OffsetRanges
    compute: Compute
    limit: int
    is_declared: bool
    forgiven: Places = field(default_factory=dict)
    _found: list[Rejection] = field(default_factory=list)
    _counted: list[Rejection] = field(default_factory=list)

    def run(self, error: ExecutionError) -> tuple[pa.Table, tuple[Rejection, ...]]:
        """Return the rows of all records that do not fail, and the rejections of the others.

        ``error`` was raised by the whole batch.

        :raises TransformError: no record alone is at fault, or too many are. The text names the
            first ones.
        """
        if self._failure_of(()) is not None:
            raise error
        self._search(list(self.ranges), error, is_sure=False)
        failed: dict[int, list[int]] = {}
        for one in self._found:
            failed.setdefault(one.partition, []).append(one.offset)
        return self.compute(list(self.ranges), failed), tuple(self._found)

    def _search(self, ranges: list[OffsetRange], error: ExecutionError, *, is_sure: bool) -> None:
        """Find the failing records of ``ranges``.

        If the first half does not fail, the second one is searched without computing it first.
        ``is_sure`` says that ``error`` was raised by exactly these ranges.
        """
        if sum(one.count for one in ranges) == 1:
            alone = error if is_sure else self._failure_of(ranges)
            if alone is None:
                raise self._of_no_record(error)
            self._convict(ranges[0], alone)
            return
        first, second = halves(ranges)
        of_first = self._failure_of(first)
        if of_first is None:
            self._search(second, error, is_sure=False)
            return
        self._search(first, of_first, is_sure=True)
        of_second = self._failure_of(second)
        if of_second is not None:
            self._search(second, of_second, is_sure=True)

    def _failure_of(self, ranges: Sequence[OffsetRange]) -> ExecutionError | None:
        try:
            self.compute(ranges, NOTHING)
        except ExecutionError as error:
            return error
        return None

    def _convict(self, one: OffsetRange, error: ExecutionError) -> None:
        cause = error.__cause__ or error
        reason = sentence(ExecutionError(f"{type(cause).__name__}: {cause}"))
        self._found.append(
            Rejection(partition=one.partition, offset=one.start, reason=reason, rule=FAILED_RULE)
        )
        if one.start not in self.forgiven.get(one.partition, ()):
            self._counted.append(self._found[-1])
        if len(self._counted) > self.limit or len(self._found) > 2 * MOST_FAILED:
            raise self._of_too_many(self._counted or self._found) from error

    def _of_too_many(self, failed: Sequence[Rejection]) -> TransformError:
        last = failed[-1]
        place = f"partition {last.partition}, offset {last.offset} of the topic {self.ranges.topic}"
        if not self.is_declared:
            return TransformError(
                f"Spark failed on the transform of table {self.name} for the record at {place}:"
                f" {last.reason}. Nothing was committed. Correct the transform, or declare"
                " max_failed=, so that such records become dead letters"
            )
        places = ", ".join(f"{one.partition}:{one.offset}" for one in failed[:SHOWN_PLACES])
        return TransformError(
            f"Spark failed on the transform of table {self.name} for more than"
            f" {counted(self.limit, 'record')} of a batch, as many as max_failed lets it bear:"
            f" {places}{', ...' if len(failed) > SHOWN_PLACES else ''} of the topic"
            f" {self.ranges.topic}. That at {place}: {last.reason}. Nothing was committed"
        )

    def _of_no_record(self, error: ExecutionError) -> TransformError:
        return TransformError(
            f"{error}. It fails for the offsets {self.ranges} of the topic {self.ranges.topic}, and"
            " for no record alone"
        )


def halves(ranges: Sequence[OffsetRange]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Return the first and the second half of ``ranges``, which span at least two offsets."""
    left = sum(one.count for one in ranges) // 2
    first, second = [], []
    for one in ranges:
        middle = min(one.end, one.start + left)
        left -= middle - one.start
        first += (
            [OffsetRange(partition=one.partition, start=one.start, end=middle)]
            if middle > one.start
            else []
        )
        second += (
            [OffsetRange(partition=one.partition, start=middle, end=one.end)]
            if middle < one.end
            else []
        )
    return first, second
