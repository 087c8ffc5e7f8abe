"""The payloads that clients push are OTLP, made by its own library."""

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

DELTA, CUMULATIVE = (
    AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA,
    AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE,
)


def labels(**values: str) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


def gauge(name: str, value: float, **own: str) -> Metric:
    return Metric(
        name=name,
        gauge=Gauge(data_points=[NumberDataPoint(as_double=value, attributes=labels(**own))]),
    )


def counter(
    name: str, value: int, temporality: AggregationTemporality.ValueType = DELTA, **own: str
) -> Metric:
    point = NumberDataPoint(as_int=value, attributes=labels(**own))
    return Metric(
        name=name,
        sum=Sum(data_points=[point], is_monotonic=True, aggregation_temporality=temporality),
    )


def payload(*metrics: Metric, **common: str) -> bytes:
    scope = ScopeMetrics(metrics=metrics)
    data = MetricsData(
        resource_metrics=[
            ResourceMetrics(resource=Resource(attributes=labels(**common)), scope_metrics=[scope])
        ]
    )
    content: bytes = data.SerializeToString()
    return content
