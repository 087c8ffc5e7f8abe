"""Metrics that clients push (KIP-714).

GetTelemetrySubscriptions (API key 71, version 0): responds with the metrics that a client should
push, the interval and the compression. A client without an instance id gets one. A client without a
matching subscription gets no metrics, and asks again after the usual interval.

PushTelemetry (72, version 0): takes metrics as OTLP, which the metrics page shows from then on.

Both are refused with THROTTLING_QUOTA_EXCEEDED if they come too early. ApiVersions lists them only
if there is a metrics page.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from log_service.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from log_service.telemetry.instances import ACCEPTED_CODECS, Push


def handle_get_telemetry_subscriptions(
    node: Node, call: Call, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Respond with the client's subscription."""
    instance_id, subscription = node.telemetry.ask(
        request.client_instance_id, call.client_id or "", call.connection
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=node.telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def handle_push_telemetry(node: Node, call: Call, request: PushTelemetryRequest) -> Deferred:
    """Store the metrics, and respond once they have been parsed."""
    metrics = bytes(request.metrics)
    push = Push(
        subscription_id=request.subscription_id,
        is_terminating=request.terminating,
        codec=request.compression_type,
        size_bytes=len(metrics),
    )

    async def taken() -> PushTelemetryResponse:
        with call.counted():
            await node.telemetry.push(
                request.client_instance_id, call.client_id or "", call.connection, push, metrics
            )
        return PushTelemetryResponse()

    return call.run(taken())
