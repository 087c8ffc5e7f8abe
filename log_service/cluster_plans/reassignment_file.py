"""Plans in the JSON file of Kafka's own tool, ``kafka-reassign-partitions``: written, read, and checked against a cluster.

The format is ``{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}``. Every
mistake is told with the field that it is in, such as ``partitions[3].replicas[1]``; one mistake and nothing of the file is used.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from log_service.cluster_plans.layout import NO_LEADER, ClusterLayout, PartitionLayout, PlanRefused
from log_service.cluster_plans.plan import Move, Plan
from log_service.common.types import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"
MAX_MISTAKES = 10
MAX_BROKER_ID = 2**31 - 1
FIELDS = ("version", "partitions")
PARTITION_FIELDS = ("topic", "partition", "replicas", "log_dirs")

Targets = Mapping[TopicPartition, tuple[int, ...]]


class PlanFileMistakes(PlanRefused):
    """A file of a plan has mistakes, each of them told by its field."""

    def __init__(self, name: str, mistakes: list[str]) -> None:
        told = mistakes[:MAX_MISTAKES]
        if len(mistakes) > len(told):
            told.append(f"and {len(mistakes) - len(told)} more")
        super().__init__("\n  ".join([f"{name} is not a plan that can be carried out; nothing was changed:", *told]))
        self.mistakes = tuple(mistakes)


def written(plan: Plan) -> str:
    """Return the moves of a plan as such a file."""
    return _written({move.where: move.after for move in plan.moves})


def written_back(plan: Plan) -> str:
    """Return the file that takes a plan back: where the replicas are now."""
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


def read(text: str, name: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return where a file wants the replicas of which partitions.

    Raises:
        PlanFileMistakes: the text is not JSON, or a field is missing, unknown, twice there or of the wrong type.
    """
    try:
        content = json.loads(text, object_pairs_hook=_Fields)
    except json.JSONDecodeError as error:
        raise PlanFileMistakes(name, [f"line {error.lineno}, column {error.colno}: {error.msg}"]) from error
    except RecursionError as error:
        raise PlanFileMistakes(name, ["its lists are nested too deeply"]) from error
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    mistakes = list(_mistakes(content, targets))
    if mistakes:
        raise PlanFileMistakes(name, mistakes)
    return targets


class _Fields(dict[str, Any]):
    """A JSON object that remembers which of its fields were there twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = sorted({name for name in names if names.count(name) > 1}) if len(names) > len(self) else []


def _mistakes(content: object, targets: dict[TopicPartition, tuple[int, ...]]) -> Iterator[str]:
    """Yield what is wrong with a file, and note in ``targets`` what is right."""
    if not isinstance(content, _Fields):
        yield 'it is to be an object: {"version": 1, "partitions": [...]}'
        return
    yield from _wrong_fields(content, FIELDS, "")
    if "version" in content and (content["version"] != VERSION or isinstance(content["version"], bool)):
        yield f"version: {_shown(content['version'])} is not {VERSION}"
    partitions = content.get("partitions")
    if not isinstance(partitions, list):
        yield "partitions: the list of partitions is missing" if partitions is None else f"partitions: {_shown(partitions)} is no list"
        return
    for index, entry in enumerate(partitions):
        yield from _partition_mistakes(entry, f"partitions[{index}]", targets)


def _partition_mistakes(entry: object, place: str, targets: dict[TopicPartition, tuple[int, ...]]) -> Iterator[str]:
    if not isinstance(entry, _Fields):
        yield f'{place}: {_shown(entry)} is not {{"topic": ..., "partition": ..., "replicas": [...]}}'
        return
    found = [
        *_wrong_fields(entry, PARTITION_FIELDS, f"{place}."),
        *(f"{place}.{field}: it is missing" for field in PARTITION_FIELDS[:3] if field not in entry),
    ]
    topic, partition, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    if "topic" in entry and (not isinstance(topic, str) or not topic):
        found.append(f"{place}.topic: {_shown(topic)} is no topic's name")
    if "partition" in entry and not _is_number(partition):
        found.append(f"{place}.partition: {_shown(partition)} is no partition's number")
    if "replicas" in entry:
        found += _replica_mistakes(replicas, f"{place}.replicas")
    if "log_dirs" in entry:
        found += _directory_mistakes(entry["log_dirs"], replicas, f"{place}.log_dirs")
    if not found:
        where = TopicPartition(str(topic), int(partition or 0))
        if where in targets:
            found.append(f"{place}: {where} was there before")
        targets[where] = tuple(replicas or ())
    yield from found


def _wrong_fields(entry: _Fields, known: tuple[str, ...], place: str) -> Iterator[str]:
    for field in entry:
        if field not in known:
            yield f"{place}{field}: there is no such field; there are {', '.join(known)}"
    for field in entry.twice:
        yield f"{place}{field}: it is there twice"


def _replica_mistakes(replicas: object, place: str) -> Iterator[str]:
    if not isinstance(replicas, list) or not replicas:
        yield f"{place}: {_shown(replicas)} is no list of broker ids like [1, 2, 3]"
        return
    for index, broker in enumerate(replicas):
        if not _is_number(broker):
            yield f"{place}[{index}]: {_shown(broker)} is no broker id"
        elif broker in replicas[:index]:
            yield f"{place}[{index}]: broker {broker} is there twice"


def _directory_mistakes(directories: object, replicas: object, place: str) -> Iterator[str]:
    if not isinstance(directories, list):
        yield f"{place}: {_shown(directories)} is no list"
        return
    if isinstance(replicas, list) and len(directories) != len(replicas):
        yield f"{place}: it names {len(directories)} directories for {len(replicas)} replicas"
    for index, directory in enumerate(directories):
        if directory != ANY_DIRECTORY:
            yield f'{place}[{index}]: {_shown(directory)} is not "any": the broker chooses the directory'


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_BROKER_ID


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


def plan_of(targets: Targets, layout: ClusterLayout, name: str, *, throttle_bytes: int | None = None) -> Plan:
    """Return the plan that brings the partitions of a file to where it wants them.

    Raises:
        PlanFileMistakes: a topic, partition or broker is not there, a broker is fenced, or a partition moves already.
    """
    by_name = {partition.where: partition for partition in layout.partitions}
    brokers = {broker.broker_id: broker for broker in layout.brokers}
    mistakes = []
    for index, (where, replicas) in enumerate(targets.items()):
        place = f"partitions[{index}]"
        partition = by_name.get(where)
        if partition is None:
            mistakes.append(_missing(where, layout, place))
            continue
        if partition.is_moving:
            mistakes.append(f"{place}: {where} is already on the way to other brokers; see: tidelog cluster watch")
        if partition.leader == NO_LEADER and set(replicas) - set(partition.replicas):
            mistakes.append(f"{place}: {where} has no leader, so nothing can be copied from it")
        for at, broker in enumerate(replicas):
            if broker not in brokers:
                known = ", ".join(map(str, sorted(brokers)))
                mistakes.append(f"{place}.replicas[{at}]: there is no broker {broker}; there are {known}")
            elif brokers[broker].is_fenced and broker not in partition.replicas:
                mistakes.append(f"{place}.replicas[{at}]: broker {broker} is fenced, which is to say down or not ready")
    if mistakes:
        raise PlanFileMistakes(name, mistakes)
    moves = [_move(by_name[where], replicas) for where, replicas in targets.items() if by_name[where].replicas != replicas]
    elections = [move.where for move in moves if move.source != move.after[0] and move.source in move.after]
    return Plan(moves=tuple(moves), elections=tuple(elections), throttle_bytes=throttle_bytes)


def _missing(where: TopicPartition, layout: ClusterLayout, place: str) -> str:
    count = sum(partition.where.topic == where.topic for partition in layout.partitions)
    if not count:
        return f"{place}.topic: there is no topic {where.topic}"
    return f"{place}.partition: {where.topic} has {count} partitions, numbered from 0: there is no {where.partition}"


def _move(partition: PartitionLayout, replicas: tuple[int, ...]) -> Move:
    return Move(where=partition.where, before=partition.replicas, after=replicas, size_bytes=partition.size_bytes, source=partition.leader)
