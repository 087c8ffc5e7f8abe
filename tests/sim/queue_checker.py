"""Judges what the workers of a queue saw, once the queue is empty.

* A record is accepted or rejected once: no two workers hear that a leader took that from them. Of
  an earlier delivery, whose lock ran out, a leader takes anything once all records up to there are
  done with: it looks no more at what lies before the first record that is not, as Apache Kafka.
* A record that was acknowledged to its producer is not lost: a worker accepted or rejected it, or
  may have, or it was delivered too often.
* Once a leader has taken back a delivery that was released, the record comes with higher counts,
  and none is above the limit. Another worker may be given an earlier delivery late: it hung, or its
  leader did. A lock that runs out is counted before that is stored, so that a new leader may count
  it again, as with Apache Kafka.
* A leader that is named beside an error is a node: some clients go there until their metadata
  changes.

What a leader took and could not tell counts as done or not. A delivery may be lost on its way, so
that a record which was last seen close to the limit may have been given up.
"""

from collections.abc import Iterator

from log_service.common.types import TopicPartition
from tests.sim.node_checker import Violation
from tests.sim.node_history import History, Send
from tests.sim.queue_clients import DELIVERY_LIMIT, Acknowledged, Delivered, LeaderNamed

UNSEEN_DELIVERIES = 4
"""As many deliveries of one record in a row as may be lost on their way to workers that die or
hang.
"""
LATE_SECONDS = 8.0
"""How late a delivery may come: a worker hangs for three seconds at most, a node for three of its
sessions.
"""
UNSET_NODE_ID = 0
"""The fields of a response hold it where nothing is set. No node of a simulation has it."""
Place = tuple[TopicPartition, int]


def check_queue(history: History, topic: str) -> Iterator[Violation]:
    """Yield each broken promise."""
    yield from _check_once(history)
    yield from _check_counts(history)
    yield from _check_none_lost(history, topic)
    yield from _check_leaders(history)


def _check_once(history: History) -> Iterator[Violation]:
    done: dict[Place, Acknowledged] = {}
    for said in history.of(Acknowledged):
        if said.is_ok and said.kind != "release":
            first = done.setdefault((said.partition, said.offset), said)
            if first is not said and not (said.count < first.count and _is_passed(history, said)):
                yield Violation(
                    "a record is done with once",
                    f"{said.partition} offset {said.offset}: {_told(first)}, and {_told(said)}",
                )


def _is_passed(history: History, said: Acknowledged) -> bool:
    """Return whether all records up to the acknowledged one may have been done with.

    The leader had not responded yet.
    """
    before = {
        each.offset
        for each in history.of(Acknowledged)
        if each.partition == said.partition
        and each.kind != "release"
        and _may_be_done(each)
        and each.at < said.ended_at
        and each is not said
    }
    return all(
        send.offset in before
        for send in history.of(Send)
        if send.partition == said.partition and 0 <= send.offset <= said.offset and send.is_ok
    )


def _check_leaders(history: History) -> Iterator[Violation]:
    for named in history.of(LeaderNamed):
        if named.leader_id == UNSET_NODE_ID:
            text = f"{named.worker} was told that {named.partition} is led by {named.leader_id}"
            yield Violation("a leader beside an error is a node", text)


def _check_counts(history: History) -> Iterator[Violation]:
    released: dict[Place, list[Acknowledged]] = {}
    for said in history.of(Acknowledged):
        if said.is_ok and said.kind == "release":
            released.setdefault((said.partition, said.offset), []).append(said)
    for seen in history.of(Delivered):
        before = [
            said
            for said in released.get((seen.partition, seen.offset), ())
            if _is_before(said, seen)
        ]
        least = 1 + max((said.count for said in before), default=0)
        if not least <= seen.count <= DELIVERY_LIMIT:
            text = f"{seen.partition} offset {seen.offset} comes with count {seen.count}, where {least} is due"
            yield Violation("delivery counts grow", f"{seen.worker}: {text}")


def _is_before(said: Acknowledged, seen: Delivered) -> bool:
    if said.worker == seen.worker:
        return said.ended_at < seen.at
    return said.ended_time < seen.time - LATE_SECONDS


def _check_none_lost(history: History, topic: str) -> Iterator[Violation]:
    done = {
        (said.partition, said.offset)
        for said in history.of(Acknowledged)
        if said.kind != "release" and _may_be_done(said)
    }
    counts: dict[Place, int] = {}
    for seen in history.of(Delivered):
        place = (seen.partition, seen.offset)
        counts[place] = max(counts.get(place, 0), seen.count)
    for send in history.of(Send):
        place = (send.partition, send.offset)
        is_due = (
            send.is_ok
            and send.is_acked_by_all
            and send.offset >= 0
            and send.partition.topic == topic
        )
        if (
            is_due
            and place not in done
            and counts.get(place, 0) < DELIVERY_LIMIT - UNSEEN_DELIVERIES
        ):
            yield Violation(
                "no record of a queue is lost",
                f"{send.partition} offset {send.offset}: delivered {counts.get(place, 0)} times",
            )


def _may_be_done(said: Acknowledged) -> bool:
    return said.is_ok or "INVALID_RECORD_STATE" not in said.error


def _told(said: Acknowledged) -> str:
    return f"{said.worker} {said.kind}s it at {said.ended_time:.3f} s"
