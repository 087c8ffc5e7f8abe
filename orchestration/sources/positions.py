"""Stores the positions of sources as records of the topic ``tidelog.positions``.

A position commits in the same transaction as the records that were sent. The topic has one
partition, is keyed by the source's name and compacted, so positions are kept however long a project
is not run. The newest record of a source counts if it has the topic id of the current target,
because a recreated topic has received nothing yet. Sources are not known here.

Invariant: a position is read only after the source's sender was opened, because that ends the
transaction of a killed run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestration.log_client.protocol import LogClient, OutgoingRecord, TopicDescription
from orchestration.sources.reading import SETTLED_WITHIN_S, Position, settled_ranges
from orchestration.topics.spec import TopicSpec

POSITIONS = TopicSpec(
    name="tidelog.positions",
    partitions=1,
    configs={"cleanup.policy": "compact", "segment.bytes": str(1 << 20)},
    description="How far each source has come; written in the transactions that send what it gave",
)
POSITION_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A source's position, which is None before the first record.

    ``note`` tells that a stored position is ignored, because it belongs to a former topic.
    """

    position: Position | None
    note: str | None = None


def position_record(
    source: str, target: TopicDescription, position: Position, run_id: str
) -> OutgoingRecord:
    """Return the record that stores the position of ``source`` in sending to ``target``."""
    content = {
        "tidelog": POSITION_VERSION,
        "topic": target.topic,
        "topic_id": target.topic_id,
        "run": run_id,
        "position": position,
    }
    return OutgoingRecord(
        key=source.encode(), value=json.dumps(content, separators=(",", ":")).encode()
    )


def read_position(
    log: LogClient, source: str, target: TopicDescription, *, is_final: bool = True
) -> Found:
    """Return the position at which ``source`` continues.

    With ``is_final`` False it does not wait for open transactions, so the position may be old.

    :raises LogServiceError: the log service does not respond.
    :raises SourceError: another producer's transaction stays open.
    """
    return found_among(read_positions(log, is_final=is_final), source, target)


def read_positions(log: LogClient, *, is_final: bool = True) -> dict[bytes, bytes | None]:
    """Return the newest position record of each source.

    ``is_final`` is as for ``read_position``.

    :raises LogServiceError: the log service does not respond.
    :raises SourceError: another producer's transaction stays open.
    """
    if log.describe_topic(POSITIONS.name) is None:
        return {}
    newest: dict[bytes, bytes | None] = {}
    read = log.range_reader()
    for one in settled_ranges(log, POSITIONS.name, within_s=SETTLED_WITHIN_S if is_final else 0.0):
        for batch in read(POSITIONS.name, one):
            newest.update(zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True))
    return newest


def found_among(
    newest: Mapping[bytes, bytes | None], source: str, target: TopicDescription
) -> Found:
    """Return the position at which ``source`` continues, from the newest records of all sources."""
    value = newest.get(source.encode())
    return decide_position(source, target, None if value is None else json.loads(value))


def decide_position(source: str, target: TopicDescription, stored: Any) -> Found:
    """Return the position in a stored record, unless it belongs to another topic than ``target``.

    ``stored`` is None without a record.
    """
    if stored is None:
        return Found(position=None)
    if stored["topic_id"] == target.topic_id:
        return Found(position=stored["position"])
    was = (
        stored["topic"]
        if stored["topic"] != target.topic
        else f"{stored['topic']} with the id {stored['topic_id']}"
    )
    return Found(
        position=None,
        note=(
            f"{source} sent to the topic {was} before: {target.topic} ({target.topic_id}) gets"
            " everything anew"
        ),
    )
