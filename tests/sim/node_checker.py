"""Judges a history, in the manner of Jepsen's checker of Kafka: what no client may ever see.

The checker knows nothing but what clients asked and were told, and when a node died. Every rule is
a function that yields ``Violation``; its docstring says what is promised and what is excused. A
loss of power excuses what was not synced before it. A kill excuses nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from log_service.common.types import TopicPartition
from tests.sim.node_history import (
    NEVER,
    Commit,
    Committed,
    DeleteRecords,
    Died,
    Final,
    History,
    Lost,
    Poll,
    Positioned,
    SeenRecord,
    Send,
    Superseded,
    Taken,
    TopicPlan,
)
from tests.sim.node_host import Death


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which rule, and what shows it."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass
class Case:
    """A history with what several rules ask of it."""

    history: History
    sends_by_value: dict[str, Send] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sends_by_value = {send.value: send for send in self.history.of(Send)}

    @cached_property
    def finals(self) -> list[Final]:
        return list(self.history.of(Final))

    @cached_property
    def sends(self) -> list[Send]:
        return list(self.history.of(Send))

    @cached_property
    def polls(self) -> list[Poll]:
        return list(self.history.of(Poll))

    @cached_property
    def power_losses(self) -> list[Died]:
        return [died for died in self.history.of(Died) if died.death is Death.POWER]

    def has_lost_power(self, *, since: float = -1.0, until: int = NEVER) -> bool:
        """Whether power went at or after a time, before a place of the history."""
        return any(died.time >= since and died.at < until for died in self.power_losses)

    def is_lossless(self, topic: str, *, until: int = NEVER) -> bool:
        """Whether nothing that was ever seen of a topic may have been lost before that place."""
        if any(lost.partition.topic == topic and lost.at < until for lost in self.losses):
            return False
        return self.topic(topic).is_synced or not self.has_lost_power(until=until)

    @cached_property
    def losses(self) -> list[Lost]:
        return list(self.history.of(Lost))

    def is_lost(self, send: Send) -> bool:
        """Return whether an unclean election may have taken a record.

        It takes no earlier offset and no later record.
        """
        return any(
            lost.partition == send.partition
            and send.at < lost.at
            and (send.offset < 0 or send.offset >= lost.offset)
            for lost in self.losses
        )

    @cached_property
    def deletions(self) -> list[DeleteRecords]:
        return list(self.history.of(DeleteRecords))

    def may_be_forgotten(self, partition: TopicPartition, offset: int, *, until: int) -> bool:
        """Return whether a leader may not know yet of the record that a producer has sent at
        ``offset``.

        The place is one of the history.

        A follower that ends below its leader's start begins anew there, and knows of the producers
        what it copies from there on. As with Apache Kafka, where it leads later it takes a record
        that was deleted for a new one, if the producer sends it again.
        """
        topic = self.topic(partition.topic)
        has_followers = topic.replication_factor > 1 or topic.is_moved
        return has_followers and any(
            deletion.partition == partition
            and deletion.at < until
            and (deletion.before < 0 or offset < deletion.before)
            for deletion in self.deletions
        )

    @cached_property
    def superseded(self) -> list[Superseded]:
        return list(self.history.of(Superseded))

    def known_before(self, group: str, asked_at: int, told_at: int) -> int:
        """Return the place of the history up to which every coordinator of a group knows
        acknowledged commits.

        A coordinator that has not heard of its successor tells what it knew, as with Apache Kafka,
        and not what the successor acknowledged.
        """
        late = [
            each
            for each in self.superseded
            if each.coordinates(group) and each.at < told_at and asked_at < each.ended_at
        ]
        return min([asked_at, *(each.since for each in late)])

    def topic(self, name: str) -> TopicPlan:
        return self.history.topics[name]

    def is_promised(self, send: Send) -> bool:
        """Whether an acknowledgement says that the record stays: not where one of several replicas
        gave it.
        """
        topic = self.topic(send.partition.topic)
        return send.is_ok and (
            send.is_acked_by_all or (topic.replication_factor <= 1 and not topic.is_moved)
        )

    def is_idempotent(self, value: str) -> bool:
        """Whether a record's producer numbers what it sends; true of a record that no producer
        sent.
        """
        send = self.sends_by_value.get(value)
        return send is None or send.is_idempotent

    @cached_property
    def latest(self) -> dict[tuple[TopicPartition, bytes | None], list[Send]]:
        """The records of each key of the compacted topics."""
        found: dict[tuple[TopicPartition, bytes | None], list[Send]] = defaultdict(list)
        for send in self.sends:
            if self.topic(send.partition.topic).is_compacted:
                found[send.partition, send.key].append(send)
        return found

    def is_superseded(self, send: Send, values: set[str]) -> bool:
        """Return whether compaction may have taken a record.

        A later one of its key is in the log, or was a tombstone, which may be gone too.

        Its value may be in the log all the same: a producer that is not idempotent may have written
        it twice.
        """
        if not self.topic(send.partition.topic).is_compacted:
            return False
        if send.is_tombstone:
            return True
        others = [other for other in self.latest[send.partition, send.key] if other is not send]
        return any(
            (other.value in values or other.is_tombstone) and self._may_be_later(other, send)
            for other in others
        )

    def _may_be_later(self, other: Send, send: Send) -> bool:
        """Whether ``other`` may lie behind ``send`` in the log."""
        place = self.offsets.get((other.partition, other.value), other.offset)
        return place > send.offset if place >= 0 and send.offset >= 0 else other.ended_at > send.at

    @cached_property
    def offsets(self) -> dict[tuple[TopicPartition, str], int]:
        """The last position of each record that was seen."""
        return {(partition, record.value): record.offset for _, partition, record, _ in self.seen()}

    def seen(self) -> Iterator[tuple[int, TopicPartition, SeenRecord, str]]:
        """Every record that a reader got: where in the history, of which partition, and the reader."""
        for poll in self.polls:
            for record in poll.records:
                yield poll.at, poll.partition, record, poll.consumer
        for final in self.finals:
            for record in final.records:
                yield final.at, final.partition, record, "the final read"


Rule = Callable[[Case], Iterator[Violation]]


def acknowledged_is_there(case: Case) -> Iterator[Violation]:
    """Each acknowledged record is in the log, at the offset of its response.

    Excused is what was deleted on purpose, what was not synced when power went, what one of several
    replicas alone acknowledged, and where a topic is compacted what has a later record of its key,
    or is a tombstone itself. An unclean election excuses what its leader lacked.
    """
    for final in case.finals:
        by_offset = {record.offset: record.value for record in final.records}
        values = set(by_offset.values())
        for send in case.sends:
            if (
                send.partition != final.partition
                or not case.is_promised(send)
                or case.is_superseded(send, values)
            ):
                continue
            if case.is_lost(send):
                continue
            if not case.topic(send.partition.topic).is_synced and case.has_lost_power(
                since=send.ended_time
            ):
                continue
            if 0 <= send.offset < final.log_start_offset:
                if not case.topic(send.partition.topic).is_trimmed:
                    yield Violation(
                        "acknowledged is there",
                        f"{send} lies below log start offset {final.log_start_offset}",
                    )
            elif send.offset >= 0 and by_offset.get(send.offset) != send.value:
                found = by_offset.get(send.offset)
                yield Violation(
                    "acknowledged is there",
                    f"{send}: offset holds {found!r}, the log ends at {final.high_watermark}",
                )
            elif send.offset < 0 and send.value not in values and not final.log_start_offset:
                yield Violation("acknowledged is there", f"{send} is nowhere")


def nothing_from_nowhere(case: Case) -> Iterator[Violation]:
    """Whatever is read was sent, to that partition."""
    for _, partition, record, who in case.seen():
        send = case.sends_by_value.get(record.value)
        if send is None or send.partition != partition:
            yield Violation(
                "nothing from nowhere",
                f"{who} read {record} in {partition}, which was sent as {send}",
            )


def no_duplicate(case: Case) -> Iterator[Violation]:
    """A record of an idempotent producer is in the log once.

    If records survive, no reader ever saw it at two offsets.

    Excused is what was deleted on purpose before it was sent again, where a leader may have begun
    behind it.
    """
    for final in case.finals:
        offsets: dict[str, int] = {}
        for record in final.records:
            if (
                case.is_idempotent(record.value)
                and offsets.setdefault(record.value, record.offset) != record.offset
            ):
                text = f"{final.partition}: {record.value} is at {offsets[record.value]} and at {record.offset}"
                yield Violation("no duplicate", text)
    places: dict[tuple[TopicPartition, str], int] = {}
    for at, partition, record, who in case.seen():
        offset = places.setdefault((partition, record.value), record.offset)
        if offset == record.offset or case.may_be_forgotten(
            partition, min(offset, record.offset), until=at
        ):
            continue
        if case.is_lossless(partition.topic) and case.is_idempotent(record.value):
            yield Violation(
                "no duplicate",
                f"{partition}: {record.value} was seen at {offset}, and at {record.offset} by {who}",
            )


def order_is_kept(case: Case) -> Iterator[Violation]:
    """Records of one producer lie in the partition in the order in which they were sent."""
    for final in case.finals:
        last: dict[str, Send] = {}
        for record in final.records:
            send = case.sends_by_value.get(record.value)
            if send is None or not send.is_idempotent:
                continue
            before = last.get(send.producer)
            if before is not None and before.number > send.number:
                yield Violation(
                    "order is kept",
                    f"{final.partition}: {send.value} at {record.offset} comes after {before.value}",
                )
            last[send.producer] = send


def log_is_whole(case: Case) -> Iterator[Violation]:
    """Offsets follow each other from the log's start to its end, and leader epochs never fall."""
    for final in case.finals:
        offsets = [record.offset for record in final.records]
        is_compacted = case.topic(final.partition.topic).is_compacted
        is_ordered = offsets == sorted(set(offsets)) and all(
            final.log_start_offset <= offset < final.high_watermark for offset in offsets
        )
        if not is_ordered or (
            not is_compacted and len(offsets) != final.high_watermark - final.log_start_offset
        ):
            text = f"{final.partition}: read {offsets[:3]}..{offsets[-3:]} ({len(offsets)})"
            yield Violation(
                "log is whole", f"{text} of [{final.log_start_offset}, {final.high_watermark})"
            )
        epochs = [record.leader_epoch for record in final.records]
        if epochs != sorted(epochs):
            yield Violation("log is whole", f"{final.partition}: leader epochs fall: {epochs}")
        if final.log_start_offset and not case.topic(final.partition.topic).is_trimmed:
            yield Violation(
                "log is whole",
                f"{final.partition} begins at {final.log_start_offset}, and no client asked for that",
            )


def one_value_per_offset(case: Case) -> Iterator[Violation]:
    """Each (leader epoch, offset) has one value for ever.

    If records survive, each offset has one, as first read and as acknowledged.
    """
    by_epoch: dict[tuple[TopicPartition, int, int], str] = {}
    by_offset: dict[tuple[TopicPartition, int], str] = {}
    for _, partition, record, who in case.seen():
        first = by_epoch.setdefault((partition, record.leader_epoch, record.offset), record.value)
        if first != record.value:
            yield Violation(
                "one value per offset",
                f"{partition}: {who} read {record}, where {first!r} was before",
            )
        first = by_offset.setdefault((partition, record.offset), record.value)
        if first != record.value and case.is_lossless(partition.topic):
            yield Violation(
                "one value per offset",
                f"{partition}: {who} read {record}, where {first!r} was before",
            )
    for send in case.sends:
        if case.is_promised(send) and send.offset >= 0 and case.is_lossless(send.partition.topic):
            found = by_offset.get((send.partition, send.offset))
            if found is not None and found != send.value:
                yield Violation("one value per offset", f"{send}: {found!r} was read there")


def reading_goes_on(case: Case) -> Iterator[Violation]:
    """A consumer gets offset after offset without a gap or a step back.

    This holds while it holds the partition and nothing was cut.

    Where the log's start moves it may begin anew, also further back: a start that was moved and not
    written down yet is lost in a crash.
    """
    positions: dict[tuple[str, TopicPartition], int] = {}
    for entry in case.history.entries:
        if isinstance(entry, Positioned):
            positions.pop((entry.consumer, entry.partition), None)
        elif isinstance(entry, Poll):
            key, topic = (entry.consumer, entry.partition), case.topic(entry.partition.topic)
            offsets = [record.offset for record in entry.records]
            is_whole = offsets == sorted(set(offsets)) and (
                topic.is_compacted or len(offsets) == offsets[-1] - offsets[0] + 1
            )
            if not is_whole:
                yield Violation(
                    "reading goes on",
                    f"{entry.consumer} got {offsets} of {entry.partition} in one poll",
                )
            position = positions.get(key, offsets[0])
            is_excused = (
                not case.is_lossless(topic.name, until=entry.at)
                or topic.is_trimmed
                or (topic.is_compacted and offsets[0] > position)
            )
            if offsets[0] != position and not is_excused:
                yield Violation(
                    "reading goes on",
                    f"{entry.consumer} got {offsets[0]} of {entry.partition} where {position} was due",
                )
            positions[key] = offsets[-1] + 1


def group_reads_everything(case: Case) -> Iterator[Violation]:
    """A group gets every record that is in the log at the end at least once, where nothing is cut."""
    groups = sorted({poll.group for poll in case.polls if poll.group})
    got: dict[tuple[str, TopicPartition], set[str]] = defaultdict(set)
    for poll in case.polls:
        got[poll.group, poll.partition].update(record.value for record in poll.records)
    for final in case.finals:
        topic = case.topic(final.partition.topic)
        if topic.is_trimmed or not (
            case.is_lossless(topic.name)
            and (case.history.are_offsets_synced or not case.power_losses)
        ):
            continue
        for group in groups:
            missed = [
                record
                for record in final.records
                if record.value not in got[group, final.partition]
            ]
            if missed:
                yield Violation(
                    "group reads everything",
                    f"{group} never got {len(missed)} of {final.partition}, first {missed[0]}",
                )


def commits_stay(case: Case) -> Iterator[Violation]:
    """A committed offset never goes back.

    A client gets at least the offset that was acknowledged before it asked, and only a committed
    one.

    Excused is what a coordinator cannot know that has not heard of its successor.
    """
    commits: dict[tuple[str, TopicPartition], list[Commit]] = defaultdict(list)
    for commit in case.history.of(Commit):
        commits[commit.group, commit.partition].append(commit)
    for told in case.history.of(Committed):
        if not told.is_ok:
            continue
        known = commits[told.group, told.partition]
        if told.offset >= 0 and told.offset not in {
            commit.offset for commit in known if commit.at < told.ended_at
        }:
            yield Violation("commits stay", f"{told} was never committed")
        known_before = case.known_before(told.group, told.at, told.ended_at)
        before = [commit for commit in known if commit.is_ok and commit.ended_at < known_before]
        safe = max(
            (commit.offset for commit in before if _is_commit_safe(case, commit, told.ended_at)),
            default=-1,
        )
        if told.offset < safe:
            yield Violation("commits stay", f"{told}, but {safe} was acknowledged before")


def _is_commit_safe(case: Case, commit: Commit, until: int) -> bool:
    """Whether an acknowledged commit stands: it was synced, or power never went since.

    A member that has to begin anew may commit less: where records went, or the log's start moved,
    which a crash may undo.
    """
    is_kept = case.history.are_offsets_synced or not case.has_lost_power(
        since=commit.ended_time, until=until
    )
    return (
        is_kept
        and case.is_lossless(commit.partition.topic, until=until)
        and not case.topic(commit.partition.topic).is_trimmed
    )


def group_goes_on_where_it_committed(case: Case) -> Iterator[Violation]:
    """A member that gets a partition begins at or before the end of its group's reading.

    It begins at the committed offset or later.

    Not before what was acknowledged to any member until this one got the partition, as far as its
    coordinator could know that: a commit never goes back over a rebalance.
    """
    commits: dict[tuple[str, TopicPartition], list[Commit]] = defaultdict(list)
    for commit in sorted(case.history.of(Commit), key=lambda commit: -commit.offset):
        commits[commit.group, commit.partition].append(commit)
    furthest: dict[tuple[str, TopicPartition], int] = defaultdict(int)
    begins: dict[tuple[str, TopicPartition], int] = {}
    for entry in case.history.entries:
        if isinstance(entry, Positioned):
            begins[entry.consumer, entry.partition] = entry.at
        elif isinstance(entry, Poll) and entry.group:
            key, topic = (entry.group, entry.partition), case.topic(entry.partition.topic)
            first = entry.records[0].offset
            begun_at = begins.pop((entry.consumer, entry.partition), None)
            is_cut = (
                topic.is_trimmed
                or topic.is_compacted
                or not case.is_lossless(topic.name, until=entry.at)
            )
            if begun_at is not None and first > furthest[key] and not is_cut:
                yield Violation(
                    "group goes on",
                    f"{entry.consumer} begins {entry.partition} at {first}; the group came to {furthest[key]}",
                )
            known_before = (
                0 if begun_at is None else case.known_before(entry.group, begun_at, entry.at)
            )
            safe = _safe_commit(case, commits[key], known_before, entry.at)
            if first < safe:
                yield Violation(
                    "group goes on",
                    f"{entry.consumer} begins {entry.partition} at {first}; the group committed {safe}",
                )
            furthest[key] = max(furthest[key], entry.records[-1].offset + 1)


def _safe_commit(case: Case, commits: list[Commit], before: int, until: int) -> int:
    """Return the largest commit that was acknowledged ``before`` a place and stands.

    Commits come in the order of their offsets.
    """
    return next(
        (
            commit.offset
            for commit in commits
            if commit.is_ok and commit.ended_at < before and _is_commit_safe(case, commit, until)
        ),
        0,
    )


def taken_at_most_once(case: Case) -> Iterator[Violation]:
    """A group whose members commit first works on no record twice, where commits and records
    survive.
    """
    taken: dict[tuple[str, TopicPartition, int], str] = {}
    for entry in case.history.of(Taken):
        if not (
            case.is_lossless(entry.partition.topic)
            and (case.history.are_offsets_synced or not case.power_losses)
        ):
            continue
        for record in entry.records:
            key = (entry.group, entry.partition, record.offset)
            if key in taken:
                yield Violation(
                    "taken at most once",
                    f"{entry.consumer} works on {record} of {entry.partition}, as {taken[key]} did",
                )
            taken[key] = entry.consumer


def asked_to_delete(history: History) -> dict[TopicPartition, int]:
    """Return the largest offset up to which clients asked to delete records.

    Each request may have been done, whatever its response was.
    """
    asked: dict[TopicPartition, int] = defaultdict(int)
    for delete in history.of(DeleteRecords):
        asked[delete.partition] = max(asked[delete.partition], delete.before)
    return dict(asked)


def deleted_stays_within_bounds(case: Case) -> Iterator[Violation]:
    """The log's start moves no further than a client asked for, where only DeleteRecords moves it."""
    asked = asked_to_delete(case.history)
    for final in case.finals:
        topic = case.topic(final.partition.topic)
        is_by_request = (
            topic.is_trimmed
            and "retention.ms" not in topic.configs
            and "retention.bytes" not in topic.configs
        )
        if is_by_request and final.log_start_offset > asked.get(final.partition, 0):
            text = f"{final.partition} begins at {final.log_start_offset}, asked for was {asked.get(final.partition, 0)}"
            yield Violation("deleted stays within bounds", text)


RULES: tuple[Rule, ...] = (
    acknowledged_is_there,
    nothing_from_nowhere,
    no_duplicate,
    order_is_kept,
    log_is_whole,
    one_value_per_offset,
    reading_goes_on,
    group_reads_everything,
    commits_stay,
    group_goes_on_where_it_committed,
    taken_at_most_once,
    deleted_stays_within_bounds,
)


def check(history: History) -> list[Violation]:
    """Return every broken promise."""
    case = Case(history)
    return [violation for rule in RULES for violation in rule(case)]
