"""How far one partition is mirrored, and where an offset of the source lies in the target.

Decides which runs of offsets are remembered, and how an offset is translated. A *run* says that source offsets and target offsets go
side by side: the record at ``source + i`` lies at ``target + i``, for each i below ``length``. Markers of transactions, compaction and
aborted records end a run. KIP-382 calls the beginning of a run an offset sync.

Invariants:

- A reader of the target that begins at a translated offset reads every record that a reader of the source reads from that offset on,
  of those that are mirrored. It may read some that come before.
- A larger offset is never translated to a smaller one.
- At most ``MAX_RUNS`` runs are remembered. They lie close together near the end, where groups usually are, and far apart behind.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, TopicPartition

MAX_RUNS = 129
"""Two for each power of two of the distance from the end, of which an offset of 63 bits has 64, and the last one. Thirty are usual."""


class Run(NamedTuple):
    """``length`` records whose offsets go side by side, from ``source`` on and from ``target`` on."""

    source: int
    target: int
    length: int

    @property
    def source_end(self) -> int:
        """The source offset behind the run."""
        return self.source + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The incarnations of two topics that belong together: their topic ids, as texts."""

    source_topic_id: str
    target_topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One partition's progress. ``position`` is the next source offset to mirror, ``leader_epoch`` that of the last record mirrored.

    ``lost_count`` counts source offsets that retention removed before they were mirrored. ``runs`` are sorted.
    """

    lineage: Lineage
    position: int
    leader_epoch: int = NO_LEADER_EPOCH
    lost_count: int = 0
    runs: tuple[Run, ...] = ()

    @classmethod
    def begun(cls, lineage: Lineage, position: int, target_end: int) -> "Progress":
        """Return the progress of a partition before anything is mirrored.

        Its records will lie at ``target_end`` or above.
        """
        return cls(lineage=lineage, position=position, runs=(Run(position, target_end, 0),))

    def advanced(self, position: int, leader_epoch: int, runs: Iterable[Run]) -> "Progress":
        """Return the progress once the records up to ``position`` are mirrored, where ``runs`` say."""
        return replace(self, position=position, leader_epoch=leader_epoch, runs=kept_runs([*self.runs, *runs]))

    def skipped_to(self, log_start_offset: int) -> "Progress":
        """Return the progress once the source has lost what lies below its log start: mirroring goes on there."""
        lost_count = self.lost_count + log_start_offset - self.position
        return replace(self, position=log_start_offset, leader_epoch=NO_LEADER_EPOCH, lost_count=lost_count)

    def cut_to(self, end_offset: int) -> "Progress":
        """Return the progress once the source's log was truncated to ``end_offset``. Other records
        will come there.

        The target keeps what the source has lost.
        """
        kept = [run._replace(length=min(run.length, end_offset - run.source)) for run in self.runs if run.source <= end_offset]
        return replace(self, position=end_offset, leader_epoch=NO_LEADER_EPOCH, runs=tuple(kept))

    def translated(self, offset: int) -> int | None:
        """Return where a reader goes on in the target that has read the source up to ``offset``.

        Return None where that is not known.
        """
        before = [run for run in self.runs if run.source <= offset]
        return before[-1].target + min(offset - before[-1].source, before[-1].length) if before else None

    def is_behind_all(self, offset: int) -> bool:
        """Whether a reader of the source that is at ``offset`` has read every record that is mirrored."""
        return bool(self.runs) and offset >= self.runs[-1].source_end


def runs_of(pairs: Sequence[tuple[int, int]]) -> list[Run]:
    """Return the runs of (source offset, target offset) of records in their order."""
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
    """Return the runs to remember. These are the last one, and the first and the last of each power
    of two of the distance from the end.

    So a reader that lags by n records, and whose offset lies in a run that is forgotten, reads fewer than n records again.
    """
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and run.source == last.source_end and run.target == last.target + last.length:
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
    """Return the key of a partition's progress; ``topic_partition`` is of the source."""
    return _as_json({"topic": topic_partition.topic, "partition": topic_partition.partition})


def encode_value(progress: Progress) -> bytes:
    """Return progress as it is kept."""
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
    """Return the partition and its progress. It is None for a tombstone, because then nothing of
    the partition counts as mirrored.

    Raises:
        KafkaError: INVALID_RECORD, no mirror wrote this.
    """
    try:
        where, kept = json.loads(key or b"null"), json.loads(value or b"null")
        partition = TopicPartition(str(where["topic"]), _whole(where["partition"]))
        if value is None:
            return partition, None
        progress = Progress(
            lineage=Lineage(source_topic_id=str(kept["source_topic_id"]), target_topic_id=str(kept["target_topic_id"])),
            position=_whole(kept["offset"]),
            leader_epoch=_whole(kept["leader_epoch"]),
            lost_count=_whole(kept["lost"]),
            runs=tuple(Run(*map(_whole, run)) for run in kept["runs"]),
        )
    except (ValueError, TypeError, LookupError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"no mirror wrote the record with the key {key!r}: {error!r}") from error
    return partition, progress


def _whole(given: Any) -> int:
    if type(given) is not int:
        raise TypeError(f"{given!r} is no whole number")
    return given


def _as_json(what: Any) -> bytes:
    return json.dumps(what, separators=(",", ":"), sort_keys=True).encode()
