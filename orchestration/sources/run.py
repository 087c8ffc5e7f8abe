"""Runs a source once: fences older runs, reads the position, and sends new records.

The sender is opened first. From then on no older run can commit, and the open transaction of a
killed run is aborted, so the position that is read afterwards is final. Each transaction has a
portion and the position after it. So each record is sent exactly once, even if a run is killed at
any moment. Dagster is not known here.

Invariant: readers of committed records find everything before the position once, and nothing else
of the source.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from orchestration.log_client.protocol import LogClient, Sender, TopicDescription
from orchestration.sources.positions import POSITIONS, position_record, read_position
from orchestration.sources.reading import Situation, Source, SourceError
from orchestration.topics.spec import TopicSpec, reconcile

SENDER_PREFIX = "tidelog-source."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The counts of a run by label, such as ``records`` and ``transactions``."""

    counts: Mapping[str, int]


def sender_id(name: str, deployment: str | None) -> str:
    """Return the transactional id of a source, which is also its name in the positions.

    Each deployment on a cluster has ids of its own.
    """
    return SENDER_PREFIX + ".".join(filter(None, [deployment, name]))


def prepared(log: LogClient, target: TopicSpec, note: Callable[[str], None]) -> TopicDescription:
    """Return the target topic. Create it and the topic of positions if they are missing.

    The topic of positions gets the replication factor of the target.
    """
    found = _existing(log, target, note)
    _existing(log, replace(POSITIONS, replication_factor=found.replication_factor), note)
    return found


def _existing(log: LogClient, spec: TopicSpec, note: Callable[[str], None]) -> TopicDescription:
    if log.describe_topic(spec.name) is None:
        note(f"topic {spec.name}: {reconcile(log, spec).summary}")
    found = log.describe_topic(spec.name)
    if found is None:
        raise SourceError(
            f"the topic {spec.name} was created and is not there yet", is_passing=True
        )
    return found


def run_source(
    source: Source,
    name: str,
    target: TopicDescription,
    log: LogClient,
    sender: Sender,
    *,
    run_id: str,
    now: datetime,
    note: Callable[[str], None],
) -> Sent:
    """Send new records to ``target``.

    ``name`` is the source's key among the positions.

    :raises SourceError: the source cannot be read. Records that were committed before stay.
    :raises SenderFencedError: another run took over.
    """
    found = read_position(log, name, target)
    if found.note is not None:
        note(found.note)
    counts: Counter[str] = Counter()
    for portion in source.portions(
        found.position, Situation(log=log, target=target, now=now), note
    ):
        records = [(target.topic, one) for one in portion.records]
        sender.send_all(
            [*records, (POSITIONS.name, position_record(name, target, portion.position, run_id))]
        )
        counts.update(
            {"records": len(portion.records), "transactions": 1, **(portion.counts or {})}
        )
        if portion.finish is not None:
            portion.finish()
    return Sent(counts=counts)
