"""The mirrored offset of one partition, and the translation of source offsets to target offsets.

The translation uses *runs* of records. In a run the offsets of both clusters advance together: the
record at ``source + i`` is at ``target + i``, for each i below ``length``. This module decides
which runs are remembered, and how an offset is translated with them. Markers, compaction and
aborted records end a run. KIP-382 calls the beginning of a run an offset sync.

Invariants:

- A reader of the target that begins at a translated offset gets every mirrored record that a reader
  of the source gets from the original offset on. It may get some earlier ones again.
- A larger offset is never translated to a smaller one.
- At most ``MAX_RUNS`` runs are remembered. They are dense near the end, where groups usually are,
  and sparse further back.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition

MAX_RUNS = 129
"""Two for each power of two of the distance from the end, and the last run.

An offset of 63 bits has 64 such distances. Thirty runs are usual.
"""


class Run(NamedTuple):
    """A run of ``length`` records. Its first offsets are ``source`` and ``target``."""

    source: int
    target: int
    length: int

    @property
    def source_end(self) -> int:
        """The source offset after the run."""
        return self.source + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The topic ids of a source topic and its target topic, as texts."""

    source_topic_id: str
    target_topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of one partition.

    ``position`` is the next source offset to mirror. ``leader_epoch`` is that of the last mirrored
    record. ``lost_count`` counts source offsets that retention removed before they were mirrored.
    ``runs`` are sorted.
    """

    lineage: Lineage
    position: int
    leader_epoch: int = NO_LEADER_EPOCH
    lost_count: int = 0
    runs: tuple[Run, ...] = ()

    @classmethod
    def begun(cls, lineage: Lineage, position: int, target_end: int) -> "Progress":
        """Return the progress of a partition without mirrored records.

        The first mirrored record will get the target offset ``target_end`` or a higher one.
        """
        return cls(lineage=lineage, position=position, runs=(Run(position, target_end, 0),))

    def advanced(self, position: int, leader_epoch: int, runs: Iterable[Run]) -> "Progress":
        """Return the progress after the records before ``position`` were mirrored.

        ``runs`` has the offsets of the newly mirrored records.
        """
        return replace(
            self, position=position, leader_epoch=leader_epoch, runs=kept_runs([*self.runs, *runs])
        )

    def skipped_to(self, log_start_offset: int) -> "Progress":
        """Return the progress after the source lost the records below its log start offset.

        Mirroring continues at the log start offset.
        """
        lost_count = self.lost_count + log_start_offset - self.position
        return replace(
            self, position=log_start_offset, leader_epoch=NO_LEADER_EPOCH, lost_count=lost_count
        )

    def cut_to(self, end_offset: int) -> "Progress":
        """Return the progress after the source's log was truncated to ``end_offset``.

        Other records of the source will get the offsets from there on. The target keeps the records
        that were already mirrored.
        """
        kept = [
            run._replace(length=min(run.length, end_offset - run.source))
            for run in self.runs
            if run.source <= end_offset
        ]
        return replace(self, position=end_offset, leader_epoch=NO_LEADER_EPOCH, runs=tuple(kept))

    def translated(self, offset: int) -> int | None:
        """Return the target offset at which a reader of the source at ``offset`` continues.

        Return None if the offset is before all remembered runs.
        """
        before = [run for run in self.runs if run.source <= offset]
        return (
            before[-1].target + min(offset - before[-1].source, before[-1].length)
            if before
            else None
        )

    def is_behind_all(self, offset: int) -> bool:
        """Whether a reader of the source at ``offset`` has read every mirrored record."""
        return bool(self.runs) and offset >= self.runs[-1].source_end


def runs_of(pairs: Sequence[tuple[int, int]]) -> list[Run]:
    """Combine (source offset, target offset) pairs of records into runs. The pairs are sorted."""
    runs: list[Run] = []
    if pairs and len(pairs) - 1 == pairs[-1][0] - pairs[0][0] == pairs[-1][1] - pairs[0][1]:
        return [Run(*pairs[0], len(pairs))]
    for source, target in pairs:
        last = runs[-1] if runs else None
        if last is not None and source == last.source_end and target == last.target + last.length:
            runs[-1] = last._replace(length=last.length + 1)
        else:
            runs.append(Run(source, target, 1))
    return runs


def kept_runs(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Select the runs to remember, and join adjacent ones.

    The last run is kept. The other runs are grouped by the binary logarithm of their distance from
    the end, and the first and the last run of each group are kept. If the run of a reader with a
    lag of n records is not kept, the reader gets fewer than n records again.
    """
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if (
            last is not None
            and run.source == last.source_end
            and run.target == last.target + last.length
        ):
            joined[-1] = last._replace(length=last.length + run.length)
        else:
            joined.append(run)
    end = joined[-1].source_end if joined else 0
    first: dict[int, Run] = {}
    last_of: dict[int, Run] = {}
    for run in joined[:-1]:
        distance = (end - run.source_end).bit_length()
        first.setdefault(distance, run)
        last_of[distance] = run
    return tuple(sorted({*first.values(), *last_of.values(), *joined[-1:]}))[-MAX_RUNS:]


def encode_key(topic_partition: TopicPartition) -> bytes:
    """Return the record key of a partition's progress. ``topic_partition`` is of the source."""
    return _as_json({"topic": topic_partition.topic, "partition": topic_partition.partition})


def encode_value(progress: Progress) -> bytes:
    """Return the record value that holds a partition's progress."""
    return _as_json(
        {
            "source_topic_id": progress.lineage.source_topic_id,
            "target_topic_id": progress.lineage.target_topic_id,
            "offset": progress.position,
            "leader_epoch": progress.leader_epoch,
            "lost": progress.lost_count,
            "runs": progress.runs,
        }
    )


def decode(key: bytes | None, value: bytes | None) -> tuple[TopicPartition, Progress | None]:
    """Return the partition and the progress of a record.

    The progress of a tombstone is None: no record of the partition counts as mirrored.

    Raises:
        KafkaError: INVALID_RECORD, the record was not written by a mirror.
    """
    try:
        where, kept = json.loads(key or b"null"), json.loads(value or b"null")
        partition = TopicPartition(str(where["topic"]), _whole(where["partition"]))
        if value is None:
            return partition, None
        progress = Progress(
            lineage=Lineage(
                source_topic_id=str(kept["source_topic_id"]),
                target_topic_id=str(kept["target_topic_id"]),
            ),
            position=_whole(kept["offset"]),
            leader_epoch=_whole(kept["leader_epoch"]),
            lost_count=_whole(kept["lost"]),
            runs=tuple(Run(*map(_whole, run)) for run in kept["runs"]),
        )
    except (ValueError, TypeError, LookupError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"no mirror wrote the record with the key {key!r}: {error!r}"
        ) from error
    return partition, progress


def _whole(given: Any) -> int:
    if type(given) is not int:
        raise TypeError(f"{given!r} is not a whole number")
    return given


def _as_json(what: Any) -> bytes:
    return json.dumps(what, separators=(",", ":"), sort_keys=True).encode()
