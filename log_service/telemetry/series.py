"""The newest values of metrics that clients pushed (KIP-714), for the metrics page.

This module decides how many series are kept. The caller decides for how long after a client's last
push. A client may send a sum as its total or as its growth since the last push. Growth is added up,
so that the page always shows the total. If there is no room for a new series, it is counted and
left out. Existing ones stay.

Invariant: the number of series is bounded, over all clients and for each of them, and so is the
length of each kept text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from log_service.telemetry.otlp import MAX_TEXT, Labels, Point, Pushed

MAX_SERIES = 20_000
MAX_SERIES_OF_CLIENT = 2_000


class Value(NamedTuple):
    """The newest value of a series. ``is_count`` means that it never decreases."""

    value: float
    is_count: bool


class Shown(NamedTuple):
    """A series for display: its client, and its own labels."""

    instance_id: UUID
    client_id: str
    labels: Labels
    value: Value


@dataclass(slots=True)
class _Client:
    client_id: str
    forgotten_at_ms: int = 0
    values: dict[tuple[str, Labels], Value] = field(default_factory=dict)


class PushedSeries:
    """The metrics that the clients of a node pushed."""

    def __init__(
        self, max_series: int = MAX_SERIES, max_series_of_client: int = MAX_SERIES_OF_CLIENT
    ) -> None:
        self._max_series = max_series
        self._max_series_of_client = max_series_of_client
        self._clients: dict[UUID, _Client] = {}
        self._count = 0
        self.push_count = 0
        self.left_out_count = 0
        """Points that were passed over, because there was no room or because their kind is not
        kept.
        """

    def __repr__(self) -> str:
        return f"<PushedSeries clients={len(self._clients)} series={self._count}>"

    def __len__(self) -> int:
        return self._count

    @property
    def client_count(self) -> int:
        """The number of clients whose metrics are kept."""
        return len(self._clients)

    def take(
        self, instance_id: UUID, client_id: str, pushed: Pushed, now_ms: int, keep_ms: int
    ) -> None:
        """Store the metrics that a client pushed.

        They are kept for ``keep_ms`` after the client's last push.
        """
        self.forget_silent(now_ms)
        self.push_count += 1
        self.left_out_count += pushed.left_out_count
        client = self._clients.get(instance_id)
        if client is None:
            client = _Client(client_id[:MAX_TEXT])
        client.forgotten_at_ms = now_ms + keep_ms
        for point in pushed.points:
            self._take_point(client, point)
        if client.values:
            self._clients[instance_id] = client

    def _take_point(self, client: _Client, point: Point) -> None:
        key = (point.name, point.labels)
        known = client.values.get(key)
        if known is None:
            if self._count >= self._max_series or len(client.values) >= self._max_series_of_client:
                self.left_out_count += 1
                return
            self._count += 1
        before = known.value if known is not None and point.is_growth else 0.0
        client.values[key] = Value(before + point.value, point.is_count)

    def forget_silent(self, now_ms: int) -> None:
        """Forget the clients whose last push is too long ago."""
        for instance_id in [
            key for key, client in self._clients.items() if client.forgotten_at_ms <= now_ms
        ]:
            self._count -= len(self._clients.pop(instance_id).values)

    def by_name(self) -> Iterator[tuple[str, list[Shown]]]:
        """Yield (name, series) of each metric, in the order of names."""
        names: dict[str, list[Shown]] = {}
        for instance_id, client in self._clients.items():
            for (name, labels), value in client.values.items():
                names.setdefault(name, []).append(
                    Shown(instance_id, client.client_id, labels, value)
                )
        yield from sorted(names.items())


def are_counts(shown: Iterable[Shown]) -> bool:
    """Whether no series of a metric ever decreases, so that the metric is a counter."""
    return all(each.value.is_count for each in shown)
