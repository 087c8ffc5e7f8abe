"""Decodes pushed metrics: OTLP's ``MetricsData`` (version 1) becomes points (KIP-714).

This module decides which types of metrics are kept: gauges and sums. Histograms and summaries,
which no Kafka client pushes, are counted and skipped. The size of the push and ``MAX_POINTS`` bound
the work. Points with too many labels are skipped, too. OTLP's library is imported with the first
push, because most brokers never get one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.records.compression import decompress

MAX_POINTS = 10_000
"""The most points of one push that are read.

A client that pushes all of its metrics has a few hundred, and some ten more for each partition.
"""
MAX_LABELS = 16
MAX_TEXT = 256
"""Characters of a metric's name, and of a label's name and value."""
MAX_LABELS_TEXT = 1_024
"""Characters of all labels of a point together."""
DELTA = 1
"""The value DELTA of OTLP's ``AggregationTemporality``: the growth since the previous push."""


Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One number of a metric.

    ``is_growth`` means that the value is the growth since the client's last push, so it must be
    added to the values of earlier pushes. ``is_count`` means that the metric never decreases.
    """

    name: str
    labels: Labels
    value: float
    is_count: bool
    is_growth: bool


@dataclass(frozen=True, slots=True)
class Pushed:
    """The points of one push. ``left_out_count`` is the number of points that were skipped."""

    points: tuple[Point, ...]
    left_out_count: int


def read_push(codec: int, compressed: Buffer, max_bytes: int) -> Pushed:
    """Return the metrics that a client pushed.

    Blocks for as long as it takes to decompress and read ``max_bytes``.

    Raises:
        KafkaError: INVALID_RECORD, the bytes are not metrics, or more than ``max_bytes``.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - see the module's opening
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415

    try:
        data = MetricsData.FromString(decompress(codec, compressed, max_bytes))
    except (DecodeError, KafkaError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the metrics that were pushed cannot be read: {error}"
        ) from error
    points = tuple(point for point in islice(_points(data), MAX_POINTS) if point is not None)
    return Pushed(points, _count(data) - len(points))


def _count(data: Any) -> int:
    """Return the number of points in a push, without decoding any.

    A metric of a skipped type counts as one point.
    """
    metrics = (
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )
    return sum(
        len(getattr(metric, kind).data_points) if (kind := _kept_kind(metric)) else 1
        for metric in metrics
    )


def _kept_kind(metric: Any) -> str | None:
    """Return the type of a metric, or None if the metric is skipped."""
    kind: str | None = metric.WhichOneof("data")
    return kind if kind in {"gauge", "sum"} and 0 < len(metric.name) <= MAX_TEXT else None


def _points(data: Any) -> Iterator[Point | None]:
    """Yield the points of a push, and None for each point that is skipped."""
    for resource in data.resource_metrics:
        common = _labels(resource.resource.attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from _points_of(metric, common)


def _points_of(metric: Any, common: Labels | None) -> Iterator[Point | None]:
    kind = _kept_kind(metric)
    if kind is None:
        yield None
        return
    data = getattr(metric, kind)
    is_count = kind == "sum" and data.is_monotonic
    is_growth = kind == "sum" and data.aggregation_temporality == DELTA
    for each in data.data_points:
        value = float(each.as_int) if each.WhichOneof("value") == "as_int" else each.as_double
        labels = _joined(common, _labels(each.attributes))
        if isfinite(value) and labels is not None:
            yield Point(metric.name, labels, value, is_count, is_growth)
        else:
            yield None


def _labels(attributes: Sequence[Any]) -> Labels | None:
    """Return the labels of some attributes, or None if there are too many."""
    if len(attributes) > MAX_LABELS:
        return None
    return tuple(
        (each.key[:MAX_TEXT], _text(each.value)[:MAX_TEXT]) for each in attributes if each.key
    )


def _joined(common: Labels | None, own: Labels | None) -> Labels | None:
    if common is None or own is None or len(common) + len(own) > MAX_LABELS:
        return None
    labels = common + own
    return (
        labels if sum(len(name) + len(value) for name, value in labels) <= MAX_LABELS_TEXT else None
    )


def _text(value: Any) -> str:
    """Return a label's value as text.

    Numbers and booleans look as in JSON, and lists, maps and bytes give an empty text.
    """
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return str(value.string_value)
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    return str(getattr(value, kind)) if kind in {"int_value", "double_value"} else ""
