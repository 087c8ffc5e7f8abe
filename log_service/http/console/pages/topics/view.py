"""Topics as their pages show them: the list, one topic, its configs, and previews of changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from log_service.client.admin.values import (
    ConfigEntry,
    LogDirDescription,
    PartitionOffsets,
    TopicDescription,
)
from log_service.client.connections.cluster_view import TopicView
from log_service.common.types import TopicPartition
from log_service.http.console.previews import ChangeRow

PAGE_SIZE = 50
MAX_SHOWN_PARTITIONS = 1_000
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
    "STATIC_BROKER_CONFIG": "properties file",
    "DEFAULT_CONFIG": "default",
}
OWN = "DYNAMIC_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic in the list. ``extra`` is None until sizes and configs have been requested."""

    name: str
    is_internal: bool
    partition_count: int
    replica_count: int
    offline_count: int
    under_replicated_count: int
    extra: "TopicExtra | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExtra:
    """The facts about a topic that need further requests. Unknown ones are None."""

    size_bytes: int | None
    cleanup_policy: str | None
    retention: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList:
    """One page of the list."""

    rows: tuple[TopicRow, ...]
    page: int
    page_count: int
    found_count: int
    topic_count: int
    partition_count: int


def topic_list(
    topics: Iterable[TopicView], *, search: str, is_internal_included: bool, page: int
) -> TopicList:
    """Return one page of the topics whose names contain a text."""
    wanted, needle = [], search.casefold()
    topic_count = partition_count = 0
    for topic in topics:
        if topic.is_internal and not is_internal_included:
            continue
        topic_count += 1
        partition_count += topic.partition_count
        if needle in topic.name.casefold():
            wanted.append(topic)
    wanted.sort(key=lambda topic: topic.name)
    page_count = max(1, -(-len(wanted) // PAGE_SIZE))
    page = min(max(1, page), page_count)
    shown = wanted[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return TopicList(
        rows=tuple(map(_topic_row, shown)),
        page=page,
        page_count=page_count,
        found_count=len(wanted),
        topic_count=topic_count,
        partition_count=partition_count,
    )


def _topic_row(topic: TopicView) -> TopicRow:
    partitions = topic.partitions
    return TopicRow(
        name=topic.name,
        is_internal=topic.is_internal,
        partition_count=topic.partition_count,
        replica_count=max((len(each.replicas) for each in partitions), default=0),
        offline_count=sum(each.leader < 0 for each in partitions),
        under_replicated_count=sum(len(each.isr) < len(each.replicas) for each in partitions),
    )


def retention_of(entries: Mapping[str, ConfigEntry]) -> str | None:
    """Return the retention time of records in words.

    Return None if it is unknown, or if the cleanup policy is only ``compact``.
    """
    policy = entries.get("cleanup.policy")
    if policy is not None and "delete" not in (policy.value or ""):
        return None
    entry = entries.get("retention.ms")
    if entry is None or entry.value is None:
        return None
    return "for ever" if entry.value == "-1" else duration(int(entry.value))


def duration(time_ms: int) -> str:
    """Return a duration in its largest fitting unit."""
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if time_ms >= size_ms:
            return f"{time_ms / size_ms:.4g} {unit}"
    return f"{time_ms} ms"


def sizes_of(
    directories: Mapping[int, Mapping[str, LogDirDescription]], topics: Iterable[str]
) -> dict[TopicPartition, int]:
    """Return the size of each partition's largest replica, for the partitions of ``topics``."""
    wanted, sizes = frozenset(topics), dict[TopicPartition, int]()
    for by_path in directories.values():
        for directory in by_path.values():
            for where, replica in directory.replicas.items():
                if where.topic in wanted and not replica.is_future:
                    sizes[where] = max(sizes.get(where, 0), replica.size_bytes)
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition of a topic. Offsets are None if its leader did not report them."""

    partition: int
    leader: int | None
    replicas: str
    isr: str
    is_in_sync: bool
    start: int | None
    end: int | None
    record_count: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """One topic with its partitions."""

    name: str
    topic_id: str
    is_internal: bool
    partition_count: int
    replica_count: int
    record_count: int | None
    size_bytes: int | None
    rows: tuple[PartitionRow, ...]


def topic_page(
    topic: TopicDescription,
    offsets: Mapping[TopicPartition, PartitionOffsets],
    sizes: Mapping[TopicPartition, int] | None,
) -> TopicPage:
    """Return the page of a topic. ``sizes`` None means that no broker reported any."""
    rows = []
    for each in topic.partitions:
        where = TopicPartition(topic.name, each.partition)
        found = offsets.get(where)
        rows.append(
            PartitionRow(
                partition=each.partition,
                leader=None if each.leader < 0 else each.leader,
                replicas=", ".join(map(str, each.replicas)),
                isr=", ".join(map(str, each.isr)),
                is_in_sync=len(each.isr) >= len(each.replicas),
                start=None if found is None else found.log_start_offset,
                end=None if found is None else found.high_watermark,
                record_count=None
                if found is None
                else found.high_watermark - found.log_start_offset,
                size_bytes=None if sizes is None else sizes.get(where),
            )
        )
    counts = [each.record_count for each in rows if each.record_count is not None]
    return TopicPage(
        name=topic.name,
        topic_id=str(topic.topic_id),
        is_internal=topic.is_internal,
        partition_count=topic.partition_count,
        replica_count=max((len(each.replicas) for each in topic.partitions), default=0),
        record_count=sum(counts) if len(counts) == len(rows) else None,
        size_bytes=None if sizes is None else sum(sizes.values()),
        rows=tuple(rows[:MAX_SHOWN_PARTITIONS]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One config. ``value`` is None for a secret, ``default`` is None if it is unknown."""

    name: str
    value: str | None
    default: str | None
    source: str
    is_own: bool
    is_read_only: bool
    documentation: str


def config_rows(entries: Mapping[str, ConfigEntry]) -> tuple[ConfigRow, ...]:
    """Return the configs of a topic. Those that are set for the topic itself come first."""
    rows = [
        ConfigRow(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            default=_default_of(each),
            source=SOURCES.get(each.source, each.source.lower().replace("_", " ")),
            is_own=each.source == OWN,
            is_read_only=each.is_read_only,
            documentation=each.documentation or "",
        )
        for each in entries.values()
    ]
    return tuple(sorted(rows, key=lambda row: (not row.is_own, row.name)))


def _default_of(entry: ConfigEntry) -> str | None:
    """Return the value that applies once the topic's own value is reset, None if it is unknown.

    It is the value of the next synonym, such as the broker's default.
    """
    others = [value for _, value, source in entry.synonyms if source != OWN]
    if others:
        return others[0]
    return None if entry.source == OWN else entry.value


def config_change(
    entries: Mapping[str, ConfigEntry], changes: Mapping[str, str | None]
) -> tuple[ChangeRow, ...]:
    """Return one row for each changed config. A value of None in ``changes`` resets the key."""
    rows = []
    for name, value in changes.items():
        entry = entries.get(name)
        before = "(unknown key)" if entry is None else _shown(entry.value)
        default = None if entry is None else _default_of(entry)
        after = f"{_shown(default)} (reset)" if value is None else value
        rows.append(ChangeRow(what=name, before=before, after=after))
    return tuple(rows)


def _shown(value: str | None) -> str:
    return "(not shown)" if value is None else value or "(empty)"


def deletion_warnings(page: TopicPage, groups: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings before a topic is deleted: lost records, and groups that read it."""
    warnings = []
    if page.record_count is None:
        warnings.append("Its records are deleted, and no one can bring them back.")
    else:
        warnings.append(f"{page.record_count} records are deleted. No one can bring them back.")
    if groups:
        warnings.append(f"Members of these groups read it now: {', '.join(groups)}.")
    return tuple(warnings)
