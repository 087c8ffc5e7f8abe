"""Reads the edges that the cluster knows: from producers to topics, and from topics to groups.

The names of producers' clients come from the metrics pages of tidelog's nodes, because Kafka's
protocol reports only the ids of producers. Without such pages those ids are shown. Rates are the
growth between two requests of the page.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import nlargest

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ItemsFailed, PartitionOffsets
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.http import ONCE_PREFIX
from log_service.http.console.addresses import path_to
from log_service.http.console.flow import FlowEdge, FlowKind, FlowNode, FlowPart
from log_service.http.console.page_requests import PageRequest
from log_service.http.console.pages.groups.progress import read_ends, read_progress

MAX_GROUPS = 100
MAX_TOPICS = 100
MAX_PRODUCERS_OF_TOPIC = 10
SILENT_MS = 600_000
"""Time without records after which a producer is no longer shown by its id."""
LEAST_INTERVAL_MS = 2_000
NO_NAMES = (
    "Kafka tells the ids of idempotent producers, and not the names of clients. The metrics pages"
    " of tidelog's nodes have the names: set metrics.urls."
)
Positions = Mapping[TopicPartition, int | None]
Pair = tuple[str, str]
"""A group and a topic."""


@dataclass(slots=True)
class Pace:
    """Measures how fast counts grow between two calls of ``look``."""

    at_ms: int = 0
    counts: Mapping[Pair, int] = field(default_factory=dict)
    rates: dict[Pair, float] = field(default_factory=dict)

    def look(self, now_ms: int, counts: Mapping[Pair, int]) -> Mapping[Pair, float]:
        """Return the growth per second of each count since the last call.

        A new count has no rate yet. If the last call was too recent, return the rates of that call.
        """
        elapsed_ms = now_ms - self.at_ms
        if self.at_ms and elapsed_ms < LEAST_INTERVAL_MS:
            return self.rates
        before, self.counts, self.at_ms = self.counts, counts, now_ms
        self.rates = {
            pair: max(0, count - before[pair]) * 1_000 / elapsed_ms
            for pair, count in counts.items()
            if pair in before
        }
        return self.rates


@asynccontextmanager
async def _new_pace() -> AsyncIterator[Pace]:
    yield Pace()


async def read_flow(page_request: PageRequest) -> FlowPart:
    """Return the edges of producers and groups that the person may see."""
    admin, clock = await page_request.admin(), page_request.context.env.clock
    known = {each.name for each in await admin.list_topics()}
    listed = await admin.list_groups()
    groups = [each for each in listed if not each.group_id.startswith(ONCE_PREFIX)]
    progress = await read_progress(admin, groups[:MAX_GROUPS])
    positions = {group_id: each.positions for group_id, each in progress.items()}
    sampler = page_request.context.sampler
    is_named = sampler is not None and sampler.is_naming_clients
    produced = sampler.producer_rates if sampler is not None and is_named else {}
    topics = {where.topic for found in positions.values() for where in found}
    topics |= {topic for _, topic in produced} if is_named else known
    shown = sorted(topics & known)[:MAX_TOPICS]
    offsets = await read_ends(admin, shown)
    pace = await page_request.clients.shared_client("the pace of a login", _new_pace)
    edges = _of_groups(positions, offsets, pace, clock.monotonic_ms())
    if is_named:
        edges += [
            FlowEdge(source=_producer(client), target=_topic(topic), records_per_s=rate)
            for (client, topic), rate in produced.items()
            if topic in shown
        ]
    else:
        edges += await _by_ids(admin, offsets, clock.wall_ms())
    notes = [] if is_named else [NO_NAMES]
    for name, most, count in (
        ("groups", MAX_GROUPS, len(groups)),
        ("topics", MAX_TOPICS, len(topics & known)),
    ):
        notes += [f"The first {most} of {count} {name} are looked at."] if count > most else []
    return FlowPart(
        edges=tuple(edges),
        paths=(
            *((_topic(each), path_to("topics", each)) for each in shown),
            *((_group(each), path_to("group", id=each)) for each in positions),
        ),
        notes=tuple(notes),
    )


def _topic(name: str) -> FlowNode:
    return FlowNode(kind=FlowKind.TOPIC, name=name)


def _group(name: str) -> FlowNode:
    return FlowNode(kind=FlowKind.GROUP, name=name)


def _producer(name: str) -> FlowNode:
    return FlowNode(kind=FlowKind.PRODUCER, name=name)


def _of_groups(
    positions: Mapping[str, Positions],
    offsets: Mapping[TopicPartition, PartitionOffsets],
    pace: Pace,
    now_ms: int,
) -> list[FlowEdge]:
    """Return an edge from each topic to each group that reads it, with the group's lag.

    The lag counts only partitions whose end offset is known.
    """
    counts: dict[tuple[str, str], int] = {}
    lags: dict[tuple[str, str], int] = {}
    for group, found in positions.items():
        for where, position in found.items():
            if where in offsets and position is not None:
                pair = group, where.topic
                counts[pair] = counts.get(pair, 0) + position
                behind = max(0, offsets[where].high_watermark - position)
                lags[pair] = lags.get(pair, 0) + behind
    rates = pace.look(now_ms, counts)
    return [
        FlowEdge(
            source=_topic(topic),
            target=_group(group),
            records_per_s=rates.get((group, topic)),
            lag=lag,
        )
        for (group, topic), lag in lags.items()
    ]


async def _by_ids(
    admin: Admin, offsets: Mapping[TopicPartition, PartitionOffsets], now_ms: int
) -> list[FlowEdge]:
    """Return an edge for each idempotent producer that wrote lately, by its producer id."""
    try:
        producers = await admin.describe_producers(list(offsets))
    except ItemsFailed as error:
        producers = dict(error.results)
    except KafkaError:
        return []
    latest: dict[str, dict[int, int]] = {}
    for where, found in producers.items():
        for each in found:
            if now_ms - each.last_timestamp_ms < SILENT_MS:
                of_topic = latest.setdefault(where.topic, {})
                last_ms = max(of_topic.get(each.producer_id, 0), each.last_timestamp_ms)
                of_topic[each.producer_id] = last_ms
    return [
        FlowEdge(source=_producer(f"producer id {producer_id}"), target=_topic(topic))
        for topic, found_ms in latest.items()
        for producer_id in nlargest(MAX_PRODUCERS_OF_TOPIC, found_ms, key=found_ms.__getitem__)
    ]
