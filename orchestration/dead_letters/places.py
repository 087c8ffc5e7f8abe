"""Reads the place of a dead letter, ``PARTITION:OFFSET`` or ``TOPIC/PARTITION:OFFSET``.

Decides which dead letter is meant. A table can have two with the same partition and offset, because
a join rejects records of two topics, and because a topic may be deleted and created again under its
name. An ambiguous place is refused, and the refusal lists the candidates. The part before the slash
is the topic's name, or its id if two topics have one name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow.dataset as pads

from log_service.common.counts import agreed, counted
from orchestration.dead_letters.table import DeadLetters

PLACE = re.compile(r"(?:([A-Za-z0-9._-]+)/)?(\d+):(\d+)")


class PlaceError(ValueError):
    """A place names no dead letter, or several. The text lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An offset, and the topic's name or id if the place names one."""

    partition: int
    offset: int
    topic: str | None = None

    def __str__(self) -> str:
        return f"{'' if self.topic is None else self.topic + '/'}{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the place that ``text`` names.

        :raises PlaceError: the text names no place.
        """
        found = PLACE.fullmatch(text)
        if found is None:
            raise PlaceError(
                f"{text!r} is not a place like 0:17 or orders/0:17: the topic where there are"
                " several, partition and offset"
            )
        return cls(topic=found[1], partition=int(found[2]), offset=int(found[3]))


def names_of_topics(letters: DeadLetters, target: str) -> dict[str, str | None]:
    """Return, by topic id, the topic part of the notation for places of a table's dead letters.

    It is None if all of them come from one topic, because the places then need no topic.
    """
    topics = letters.topics_of(target)
    if len(topics) < 2:
        return dict.fromkeys(topics)
    names = list(topics.values())
    return {
        topic_id: name if names.count(name) == 1 else topic_id for topic_id, name in topics.items()
    }


def place_of(row: Mapping[str, Any], names: Mapping[str, str | None]) -> Place:
    """Return the place of a dead letter. ``names`` are those of ``names_of_topics``."""
    return Place(topic=names[row["_topic_id"]], partition=row["_partition"], offset=row["_offset"])


def letter_at(letters: DeadLetters, target: str, place: Place) -> dict[str, Any]:
    """Return the dead letter at ``place``.

    :raises PlaceError: there is none, or more than one.
    """
    chosen = (pads.field("_partition") == place.partition) & (pads.field("_offset") == place.offset)
    if place.topic is not None:
        chosen &= (pads.field("topic") == place.topic) | (pads.field("_topic_id") == place.topic)
    rows = letters.of_target(target, chosen)
    if not rows:
        raise PlaceError(
            f"{target} has no dead letter at {place}; see: tidelog dead-letters list {target}"
        )
    if len(rows) > 1:
        names = names_of_topics(letters, target)
        several = " or ".join(str(place_of(row, names)) for row in rows)
        raise PlaceError(
            f"{target} has {counted(len(rows), 'dead letter')} at {place}, of several topics: say"
            f" {several}"
        )
    return rows[0]


def removed_note(count: int, target: str) -> str:
    """Return the note on dead letters of ``target`` whose records are no longer in the log."""
    one = f"the record of 1 dead letter of {target} is no longer in the log; it stays as it is"
    return agreed(
        count,
        one,
        f"the records of {counted(count, 'dead letter')} of {target} are no longer in the log; they"
        " stay as they are",
    )
