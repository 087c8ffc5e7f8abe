"""Judges the topics of a history.

Each topic is as its acknowledged changes say, through every death of the node.

Each topic of the history is changed by one task alone, one change after the other. A change that
failed may have happened, so that nothing is known of what it would have changed until the next one
is acknowledged. The metadata log is always synced, so that nothing is excused.

A change that took longer than a client waits for a response was sent again. A request that the
client has given up may lie on a link that is cut, or with a broker that forwards it, and be done
much later, after other changes: of its topic nothing is known any more. The same may be so of a
change that was slow while a node was paused. A client that hears meanwhile that the node is gone
does not wait for it, but asks another one; when the node goes on, it reads the first request, too.

In a cluster a broker may not have heard yet of a change that the controller has acknowledged. What
a broker says before ``settled_at``, a place of the history, may be old; from then on it is what was
acknowledged last.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.sim.node_checker import Violation
from tests.sim.node_history import (
    Alter,
    Create,
    CreatePartitions,
    Delete,
    Described,
    Entry,
    History,
    Operation,
    Paused,
)

ABSENT = "absent"
REQUEST_TIMEOUT_SECONDS = 5
"""How long a client of the simulation waits for a response."""
SLOW_SECONDS = 0.5
"""A change that took less was asked for once."""


@dataclass(slots=True)
class Known:
    """The state that a topic must have.

    None if that is unknown. ``topic_id`` is ``ABSENT`` for one that does not exist.
    """

    topic_id: str | None = ABSENT
    partition_count: int | None = None
    retention_ms: str | None = None
    is_haunted: bool = False

    def forget(self) -> None:
        self.topic_id = self.partition_count = self.retention_ms = None


def check_metadata(history: History, settled_at: int = 0) -> Iterator[Violation]:
    """Yield what contradicts an acknowledged change."""
    topics: dict[str, Known] = {}
    pauses = list(history.of(Paused))
    for entry in _in_order_of_ends(history):
        if isinstance(entry, Create | Delete | CreatePartitions | Alter | Described):
            known = topics.setdefault(entry.topic, Known())
            if isinstance(entry, Described):
                if entry.is_ok and entry.at >= settled_at and not known.is_haunted:
                    yield from _contradictions(known, entry)
            elif _may_be_done_again(entry, pauses):
                known.is_haunted = True
            elif not entry.is_ok:
                known.forget()
            else:
                _learn(known, entry)


def _may_be_done_again(change: Operation, pauses: Iterable[Paused]) -> bool:
    """Whether a request for a change may lie somewhere that the client has given up."""
    seconds = change.ended_time - change.time
    if seconds >= REQUEST_TIMEOUT_SECONDS:
        return True
    return seconds >= SLOW_SECONDS and any(
        pause.at < change.ended_at and change.at < pause.ended_at for pause in pauses
    )


def _in_order_of_ends(history: History) -> list[Entry]:
    """One task per topic: the order in which its operations ended is that in which they happened.
    What never ended comes last.
    """
    return sorted(
        history.entries,
        key=lambda entry: entry.ended_at if isinstance(entry, Operation) else entry.at,
    )


def _learn(known: Known, entry: Create | Delete | CreatePartitions | Alter) -> None:
    if isinstance(entry, Delete):
        known.topic_id, known.partition_count, known.retention_ms = ABSENT, None, None
    elif isinstance(entry, CreatePartitions):
        known.partition_count = entry.partition_count
    elif isinstance(entry, Alter):
        known.retention_ms = entry.retention_ms
    elif entry.topic_id:
        known.topic_id, known.partition_count, known.retention_ms = (
            entry.topic_id,
            entry.partition_count,
            entry.retention_ms,
        )
    else:
        known.forget()


def _contradictions(known: Known, told: Described) -> Iterator[Violation]:
    found_id = told.topic_id or ABSENT
    if known.topic_id is not None and found_id != known.topic_id:
        yield Violation("metadata stays", f"{told}: acknowledged was topic id {known.topic_id}")
    elif told.topic_id and known.partition_count not in {None, told.partition_count}:
        yield Violation(
            "metadata stays", f"{told}: acknowledged were {known.partition_count} partitions"
        )
    elif told.topic_id and known.retention_ms not in {None, told.retention_ms}:
        yield Violation(
            "metadata stays", f"{told}: acknowledged was retention.ms={known.retention_ms}"
        )
