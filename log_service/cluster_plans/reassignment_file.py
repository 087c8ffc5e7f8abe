"""Writes, reads and checks plans in the JSON file of ``kafka-reassign-partitions``.

The format is ``{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2],
"log_dirs": ["any", "any"]}]}``. Every mistake is reported with its field, such as
``partitions[3].replicas[1]``. A file with a mistake is not used at all. All mistakes are reported
at once: those in the file, and topics, partitions and brokers that the cluster does not have.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from log_service.cluster_plans.layout import (
    NO_LEADER,
    ClusterLayout,
    PartitionLayout,
    PlanRefused,
    why_cordoned,
)
from log_service.cluster_plans.plan import Move, Plan
from log_service.common.types import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"
MAX_MISTAKES = 50
MAX_BROKER_ID = 2**31 - 1
FIELDS = ("version", "partitions")
PARTITION_FIELDS = ("topic", "partition", "replicas", "log_dirs")

Targets = Mapping[TopicPartition, tuple[int, ...]]


class PlanFileMistakes(PlanRefused):
    """A plan file has mistakes. Each one is listed with its field."""

    def __init__(self, name: str, mistakes: list[str]) -> None:
        shown = mistakes[:MAX_MISTAKES]
        if len(mistakes) > len(shown):
            shown.append(f"and {len(mistakes) - len(shown)} more")
        super().__init__(
            "\n  ".join(
                [f"{name} is not a plan that can be carried out; nothing was changed:", *shown]
            )
        )
        self.mistakes = tuple(mistakes)


def written(plan: Plan) -> str:
    """Return the moves of a plan as the text of a reassignment file."""
    return _written({move.where: move.after for move in plan.moves})


def written_back(plan: Plan) -> str:
    """Return the text of a reassignment file that undoes a plan. It has the present replicas."""
    return _written({move.where: move.before for move in plan.moves})


def _written(targets: Targets) -> str:
    lines = [
        json.dumps(
            {
                "topic": where.topic,
                "partition": where.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_DIRECTORY] * len(replicas),
            }
        )
        for where, replicas in sorted(targets.items())
    ]
    listed = ",".join(f"\n  {line}" for line in lines)
    return f'{{"version": {VERSION}, "partitions": [{listed}\n]}}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file, as far as it can be understood.

    ``brokers`` are broker ids, each with its index in the list of replicas.
    """

    place: str
    topic: str | None = None
    partition: int | None = None
    brokers: tuple[tuple[int, int], ...] = ()
    mistakes: tuple[str, ...] = ()

    @property
    def where(self) -> TopicPartition | None:
        """The partition, if the entry names one."""
        return (
            None
            if self.topic is None or self.partition is None
            else TopicPartition(self.topic, self.partition)
        )

    @property
    def replicas(self) -> tuple[int, ...]:
        """The ids of the brokers in their order."""
        return tuple(broker for _, broker in self.brokers)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A file's entries, and the mistakes that can be found without the cluster."""

    name: str
    entries: tuple[Entry, ...] = ()
    mistakes: tuple[str, ...] = ()

    @property
    def targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The wanted replicas by partition."""
        return {entry.where: entry.replicas for entry in self.entries if entry.where is not None}


def read(text: str, name: str) -> PlanFile:
    """Read the text of a reassignment file. ``name`` is the file's name in errors.

    ``plan_of`` reports its mistakes, together with those that only the cluster shows.

    Raises:
        PlanFileMistakes: the text is not JSON, or is nested too deeply.
    """
    try:
        content = json.loads(text, object_pairs_hook=_Fields)
    except json.JSONDecodeError as error:
        raise PlanFileMistakes(
            name, [f"line {error.lineno}, column {error.colno}: {error.msg}"]
        ) from error
    except RecursionError as error:
        raise PlanFileMistakes(name, ["its lists are nested too deeply"]) from error
    if not isinstance(content, _Fields):
        return PlanFile(
            name=name, mistakes=('it is to be an object: {"version": 1, "partitions": [...]}',)
        )
    mistakes = [*_wrong_fields(content, FIELDS, "")]
    if "version" in content and (
        content["version"] != VERSION or isinstance(content["version"], bool)
    ):
        mistakes.append(f"version: {_shown(content['version'])} is not {VERSION}")
    partitions = content.get("partitions")
    if not isinstance(partitions, list):
        mistakes.append(
            "partitions: the list of partitions is missing"
            if partitions is None
            else f"partitions: {_shown(partitions)} is not a list"
        )
        partitions = []
    return PlanFile(name=name, entries=tuple(_entries(partitions)), mistakes=tuple(mistakes))


class _Fields(dict[str, Any]):
    """A JSON object that remembers which of its fields occurred twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = (
            sorted({name for name in names if names.count(name) > 1})
            if len(names) > len(self)
            else []
        )


def _entries(partitions: Sequence[object]) -> Iterator[Entry]:
    places: dict[TopicPartition, str] = {}
    for index, written_entry in enumerate(partitions):
        entry = _entry(written_entry, f"partitions[{index}]")
        if entry.where is not None:
            first = places.setdefault(entry.where, entry.place)
            if first != entry.place:
                entry = replace(
                    entry,
                    mistakes=(
                        *entry.mistakes,
                        f"{entry.place}: {entry.where} is there already, in {first}",
                    ),
                )
        yield entry


def _entry(entry: object, place: str) -> Entry:
    if not isinstance(entry, _Fields):
        return Entry(
            place=place,
            mistakes=(
                (
                    f'{place}: {_shown(entry)} is not {{"topic": ..., "partition": ..., "replicas":'
                    " [...]}"
                ),
            ),
        )
    found = [
        *_wrong_fields(entry, PARTITION_FIELDS, f"{place}."),
        *(
            f"{place}.{field}: it is missing"
            for field in PARTITION_FIELDS[:3]
            if field not in entry
        ),
    ]
    topic, partition, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    is_topic = isinstance(topic, str) and bool(topic)
    if "topic" in entry and not is_topic:
        found.append(f"{place}.topic: {_shown(topic)} is not a topic's name")
    if "partition" in entry and not _is_number(partition):
        found.append(f"{place}.partition: {_shown(partition)} is not a partition's number")
    if "replicas" in entry:
        found += _replica_mistakes(replicas, f"{place}.replicas")
    if "log_dirs" in entry:
        found += _directory_mistakes(entry["log_dirs"], replicas, f"{place}.log_dirs")
    listed = replicas if isinstance(replicas, list) else []
    return Entry(
        place=place,
        topic=topic if is_topic else None,
        partition=partition if _is_number(partition) else None,
        brokers=tuple((at, broker) for at, broker in enumerate(listed) if _is_number(broker)),
        mistakes=tuple(found),
    )


def _wrong_fields(entry: _Fields, known: tuple[str, ...], place: str) -> Iterator[str]:
    for field in entry:
        if field not in known:
            yield f"{place}{field}: there is no such field; there are {', '.join(known)}"
    for field in entry.twice:
        yield f"{place}{field}: it is there twice"


def _replica_mistakes(replicas: object, place: str) -> Iterator[str]:
    if not isinstance(replicas, list) or not replicas:
        yield f"{place}: {_shown(replicas)} is not a list of broker ids like [1, 2, 3]"
        return
    for index, broker in enumerate(replicas):
        if not _is_number(broker):
            yield f"{place}[{index}]: {_shown(broker)} is not a broker id"
        elif broker in replicas[:index]:
            yield f"{place}[{index}]: broker {broker} is there twice"


def _directory_mistakes(directories: object, replicas: object, place: str) -> Iterator[str]:
    if not isinstance(directories, list):
        yield f"{place}: {_shown(directories)} is not a list"
        return
    if isinstance(replicas, list) and len(directories) != len(replicas):
        yield f"{place}: it names {len(directories)} directories for {len(replicas)} replicas"
    for index, directory in enumerate(directories):
        if directory != ANY_DIRECTORY:
            yield (
                f'{place}[{index}]: {_shown(directory)} is not "any": the broker chooses the'
                " directory"
            )


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_BROKER_ID


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


def plan_of(file: PlanFile, layout: ClusterLayout, *, throttle_bytes: int | None = None) -> Plan:
    """Return the plan that moves the partitions of a file to the brokers that it names.

    Raises:
        PlanFileMistakes: a field is missing, unknown, repeated or of the wrong type; a topic,
            partition or broker does not exist, a broker is fenced or cordoned, or a partition moves
            already. All mistakes are listed at once, entry by entry.
    """
    by_name = {partition.where: partition for partition in layout.partitions}
    mistakes = [*file.mistakes]
    for entry in file.entries:
        mistakes += [*entry.mistakes, *_misfits(entry, by_name, layout)]
    if mistakes:
        raise PlanFileMistakes(file.name, mistakes)
    moves = [
        _move(by_name[where], replicas)
        for where, replicas in file.targets.items()
        if by_name[where].replicas != replicas
    ]
    elections = [
        move.where for move in moves if move.source != move.after[0] and move.source in move.after
    ]
    return Plan(moves=tuple(moves), elections=tuple(elections), throttle_bytes=throttle_bytes)


def _misfits(
    entry: Entry, by_name: Mapping[TopicPartition, PartitionLayout], layout: ClusterLayout
) -> Iterator[str]:
    """Yield a sentence for each part of an entry that the cluster lacks or cannot carry out."""
    partition = by_name.get(entry.where) if entry.where is not None else None
    if partition is None:
        yield from _missing(entry, layout)
    elif partition.is_moving:
        yield (
            f"{entry.place}: {entry.where} is already on the way to other brokers; see: tidelog"
            " cluster watch"
        )
    if (
        partition is not None
        and partition.leader == NO_LEADER
        and set(entry.replicas) - set(partition.replicas)
    ):
        yield f"{entry.place}: {entry.where} has no leader, so nothing can be copied from it"
    brokers = {broker.broker_id: broker for broker in layout.brokers}
    for at, broker in entry.brokers:
        if broker not in brokers:
            yield (
                f"{entry.place}.replicas[{at}]: there is no broker {broker}; there are"
                f" {', '.join(map(str, sorted(brokers)))}"
            )
        elif brokers[broker].is_fenced and (partition is None or broker not in partition.replicas):
            yield (
                f"{entry.place}.replicas[{at}]: broker {broker} is fenced, which is to say down or"
                " not ready"
            )
        elif brokers[broker].is_cordoned and (
            partition is None or broker not in partition.replicas
        ):
            yield (
                f"{entry.place}.replicas[{at}]: broker {broker} takes no new replicas:"
                f" {why_cordoned(brokers[broker])}"
            )


def _missing(entry: Entry, layout: ClusterLayout) -> Iterator[str]:
    if entry.topic is None:
        return
    count = sum(partition.where.topic == entry.topic for partition in layout.partitions)
    if not count:
        yield f"{entry.place}.topic: there is no topic {entry.topic}"
    elif entry.partition is not None:
        yield (
            f"{entry.place}.partition: {entry.topic} has {count} partitions, numbered from 0: there"
            f" is no {entry.partition}"
        )


def _move(partition: PartitionLayout, replicas: tuple[int, ...]) -> Move:
    return Move(
        where=partition.where,
        before=partition.replicas,
        after=replicas,
        size_bytes=partition.size_bytes,
        source=partition.leader,
    )
