"""The request of a replay, and its offsets, decided once from checkpoint, log and archive.

Records that the log no longer holds are read from the topic's archive
(``orchestration.retained.readable_records``). Only records that neither holds are lost. A lost
range of offsets is refused, and so is a span of time without any remaining record. If a part of a
span remains, that part is replayed and the gaps are reported. A replay of everything reads all
records that log or archive holds. Writes nothing and reads no record, except for the times in an
archive.

The time of an offset is the newest timestamp up to that offset, as in Kafka's ListOffsets. So
consecutive spans of time cover each offset once, even if timestamps are out of order.

A table that keeps the newest row of each key forgets the deletions that retention has removed from
the log. So its archive is read only if everything is replayed, without a gap up to the newest
records. Then each deletion is among the records. A table of aggregates is replayed whole, from all
records that its groups count, or not at all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestration.dead_letters.places import removed_note
from orchestration.dead_letters.table import DeadLetters
from orchestration.offsets.known_gaps import beginning, holes_in
from orchestration.offsets.planning import Checkpoint, ProgressError, clip_replay, plan_replay
from orchestration.offsets.ranges import (
    OffsetRange,
    OffsetRanges,
    merged,
    outside,
    places_within,
    ranges_of_offsets,
    within,
)
from orchestration.retained.readable_records import HeldTopic, Ranges, held_topic
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.replay.lost_records import decide_lost, lost_sentence
from orchestration.transforms.run.context import COUNTS_OTHERS, RunContext, TopicState
from orchestration.transforms.run.steps import read_state

MAX_LETTER_RANGES = 50
"""Most ranges per partition. If more are needed, records between dead letters are replayed, too."""
StateReader = Callable[[TopicTable, RunContext], TopicState]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """The records to replay.

    Several kinds of request may be combined. They are ranges of offsets, a span of time [from_ms,
    to_ms), everything, or the dead letters of the table.
    """

    ranges: tuple[OffsetRange, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    is_everything: bool = False
    is_of_dead_letters: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is requested."""
        return (
            not (self.ranges or self.is_everything or self.is_of_dead_letters)
            and not self.is_of_time
        )

    @property
    def is_of_time(self) -> bool:
        """Return whether a span of time is requested."""
        return self.from_ms is not None or self.to_ms is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The offsets to replay.

    ``lost`` describes the lost part, and ``archived_count`` counts the offsets from the archive.
    """

    ranges: OffsetRanges
    state: TopicState
    lost: str = ""
    archived_count: int = 0
    is_everything: bool = False

    def metadata(self) -> dict[str, str | int]:
        """Return the plan as labelled metadata, for a dry run."""
        return {
            "offsets": str(self.ranges) or "none",
            "offset_count": self.ranges.count,
            **record_counts(self.lost, self.archived_count),
        }


def record_counts(lost: str, archived_count: int) -> dict[str, str | int]:
    """Return labelled metadata: the count of archived offsets, and a text on lost ones.

    Empty values are left out.
    """
    return {
        **({"offsets_from_the_archive": archived_count} if archived_count else {}),
        **({"no_longer_in_the_log": lost} if lost else {}),
    }


def plan(
    table: TopicTable,
    context: RunContext,
    request: ReplayRequest,
    *,
    needed: ReplayRequest | None = None,
    read: StateReader = read_state,
) -> ReplayPlan:
    """Return the offsets of ``request``.

    ``needed`` is a span of time. The plan is refused if no record of it is left. ``read`` returns
    the state of topic and table.

    :raises NotReadyError: there is no such topic or table.
    :raises ProgressError: a range was never committed or is lost, or nothing of a span of time is
        left.
    """
    if table.aggregates and not request.is_everything:
        raise ProgressError(why_no_replay_of_groups(table.name))
    state = read(table, context)
    if state.snapshot is None:
        raise NotReadyError(
            f"the table {table.name} does not exist yet: there is nothing to replay"
        )
    held = held_of(table, context, state)
    if table.aggregates:
        ranges = counted_ranges(table, context, held, state)
        return ReplayPlan(
            ranges=ranges,
            state=state,
            archived_count=held.archived_count(ranges),
            is_everything=True,
        )
    reach = _Reach(
        table,
        context,
        state,
        held,
        readable_by(table, held, state, is_everything=request.is_everything),
    )
    if needed is not None:
        reach.validate_left(needed)
    lost = reach.validate_left(request)
    if lost:
        context.reporter.note(f"the replay of {table.name} is not whole: {lost}")
    wanted = reach.wanted(request)
    _validate_above_log_start(table, request, held, state)
    ranges = plan_replay(
        topic=table.topic.name,
        topic_id=state.topic_id,
        wanted=wanted,
        held=reach.readable,
        committed=state.committed,
    )
    archived_count = held.archived_count(ranges)
    return ReplayPlan(
        ranges=ranges,
        state=state,
        lost=lost,
        archived_count=archived_count,
        is_everything=request.is_everything,
    )


def held_of(table: TopicTable, context: RunContext, state: TopicState) -> HeldTopic:
    """Return the ranges of the table's topic that archive and log hold."""
    return held_topic(table.topic.name, state.topic_id, context.log, state.log, context.lake)


def readable_by(
    table: TopicTable, held: HeldTopic, state: TopicState, *, is_everything: bool
) -> Ranges:
    """Return the ranges that a replay of the table may read, for every partition."""
    if not table.latest_by:
        return held.ranges
    return held.tails if is_everything else in_log(held, state)


def in_log(held: HeldTopic, state: TopicState) -> dict[int, list[OffsetRange]]:
    """Return the readable ranges of each partition from its log start offset on."""
    starts = {
        one.partition: OffsetRange(
            partition=one.partition, start=one.log_start_offset, end=one.high_watermark
        )
        for one in state.log
    }
    return {number: within(found, [starts[number]]) for number, found in held.ranges.items()}


def everything_of(readable: Ranges, committed: Mapping[int, Checkpoint]) -> list[OffsetRange]:
    """Return all committed offsets that can be read."""
    return [
        part
        for number, found in sorted(readable.items())
        for part in clip_replay(0, None, found, committed.get(number))
    ]


def counted_ranges(
    table: TopicTable, context: RunContext, held: HeldTopic, state: TopicState
) -> OffsetRanges:
    """Return all offsets that the groups of a table of aggregates count.

    :raises ProgressError: new groups would lack records. Either the table does not note where its
        counts begin, or it counts an earlier topic of that name, or the topic is compacted, or
        neither log nor archive holds all of the records.
    """
    assert state.snapshot is not None
    versions = state.snapshot.transaction_version
    refused = f"the groups of {table.name} cannot be made anew from {table.topic.name}: "
    if versions(COUNTS_OTHERS):
        raise ProgressError(
            f"{refused}they also count records of a topic that is not there any more."
            f" {_instead_of_groups(table.name)}"
        )
    if "compact" in context.log.topic_configs(table.topic.name).get("cleanup.policy", ""):
        raise ProgressError(
            f"{refused}the topic is compacted, so that counted records may be gone."
            f" {_instead_of_groups(table.name)}"
        )
    starts = {number: versions(beginning(state.topic_id, number)) for number in state.committed}
    if None in starts.values():
        raise ProgressError(
            f"{refused}an earlier release began the table, and did not note from where."
            f" {_instead_of_groups(table.name)}"
        )
    whole = [
        OffsetRange(partition=number, start=starts[number] or 0, end=one.next_offset)
        for number, one in sorted(state.committed.items())
    ]
    counted = outside(
        whole,
        [hole for number in state.committed for hole in holes_in(state.topic_id, number, versions)],
    )
    gone = outside(counted, [part for found in held.ranges.values() for part in found])
    if gone:
        places = ", ".join(
            f"{table.topic.name}-{one.partition} [{one.start}, {one.end})" for one in gone
        )
        raise ProgressError(
            f"{refused}neither the log nor an archive of the topic holds {places}, which the groups"
            f" count. {_instead_of_groups(table.name)}"
        )
    return OffsetRanges(
        topic=table.topic.name, topic_id=state.topic_id, ranges=tuple(counted)
    ).without_empty()


def why_no_replay_of_groups(name: str) -> str:
    """Return why only everything can be replayed into a table of aggregates."""
    return (
        f"the table {name} keeps aggregates, and what a range gave to a group cannot be taken out"
        f" of it: there is no replay of a part. tidelog replay {name} --everything --execute makes"
        " all groups anew, from the first record that they count on"
    )


def _instead_of_groups(name: str) -> str:
    return (
        f"Nothing was changed. To begin with what the log still holds, move the folder of {name} in"
        " the lake away, or give the table another name: the next run begins at the log start"
    )


@dataclass(frozen=True, slots=True)
class _Reach:
    """The records that a replay of a table can reach.

    ``held`` is everything that archive and log hold of the topic. ``readable`` has the ranges of it
    that the replay may read, which can be fewer if the table has ``latest_by``.
    """

    table: TopicTable
    context: RunContext
    state: TopicState
    held: HeldTopic
    readable: Ranges

    def wanted(self, request: ReplayRequest) -> list[OffsetRange]:
        wanted = list(request.ranges)
        if request.is_everything:
            wanted += everything_of(self.readable, self.state.committed)
        elif request.is_of_time:
            wanted += self._of_time(request)
        if request.is_of_dead_letters:
            wanted += self._of_letters()
        return merged(wanted)

    def validate_left(self, request: ReplayRequest) -> str:
        """Return a sentence about lost records of the span, or of everything.

        It is empty if no record is lost.

        :raises ProgressError: nothing of a span of time is left.
        """
        if request.is_everything:
            return lost_sentence(
                decide_lost(self.readable, self.state.committed, None), self.held, is_of_time=False
            )
        if not request.is_of_time:
            return ""
        lost = lost_sentence(
            decide_lost(
                self.readable,
                self.state.committed,
                self._at(request.from_ms),
                self._at(request.to_ms),
            ),
            self.held,
            is_archive_read=not self.table.latest_by,
        )
        is_all = not (request.ranges or request.is_of_dead_letters or self._of_time(request))
        if lost and is_all:
            raise ProgressError(
                f"there is nothing to replay for the table {self.table.name}: {lost}"
            )
        return lost

    def _at(self, time_ms: int | None) -> dict[int, int | None] | None:
        return None if time_ms is None else self.held.offsets_at(time_ms)

    def _of_time(self, request: ReplayRequest) -> list[OffsetRange]:
        starts = self._at(request.from_ms) or dict.fromkeys(self.readable, 0)
        ends = self._at(request.to_ms) or {}
        return [
            part
            for number, found in self.readable.items()
            for part in clip_replay(
                starts.get(number), ends.get(number), found, self.state.committed.get(number)
            )
        ]

    def _of_letters(self) -> list[OffsetRange]:
        places = DeadLetters(self.context.lake).places(self.table.name, self.state.topic_id)
        held = [part for found in self.readable.values() for part in found]
        kept = places_within(places, held)
        gone = sum(map(len, places.values())) - sum(map(len, kept.values()))
        if gone:
            self.context.reporter.note(removed_note(gone, self.table.name))
        covering = [
            one
            for number, offsets in kept.items()
            for one in ranges_of_offsets(number, offsets, MAX_LETTER_RANGES)
        ]
        return within(covering, held)


def _validate_above_log_start(
    table: TopicTable, request: ReplayRequest, held: HeldTopic, state: TopicState
) -> None:
    """Refuse ranges that only the archive holds, for a table that keeps the newest row of each key.

    :raises ProgressError: there is such a range.
    """
    if not table.latest_by or request.is_everything:
        return
    starts = {one.partition: one.log_start_offset for one in state.log}
    below = [one for one in request.ranges if one.start < starts.get(one.partition, 0)]
    if held.archived_count(below):
        raise ProgressError(
            f"{' '.join(map(str, below))} reach below the log start, and the table {table.name}"
            " keeps the newest row of each key: a deletion behind these records may have been"
            " forgotten. Replay everything instead: it reads the topic's archive, too"
        )
