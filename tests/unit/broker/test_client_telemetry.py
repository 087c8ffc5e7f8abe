"""Clients push metrics to a whole broker: what they are told, and what the metrics page shows then."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.broker.handlers.api_versions import TELEMETRY
from log_service.common.errors import ErrorCode
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.push_telemetry import PushTelemetryRequest
from log_service.records.compression import Codec, compress
from tests.helpers.metrics_page import fetch
from tests.unit.broker.context import HOST, Story, tell
from tests.unit.telemetry.payloads import counter, gauge, payload

SHOWN = {"metrics.listener": f"{HOST}:9404"}
CLIENT = ApiVersionsRequest(client_software_name="our-client", client_software_version="1.2")


def play(story: Callable[[Story], Awaitable[None]], properties: dict[str, str]) -> None:
    named: dict[str, Any] = dict(properties)
    tell(story, **named)


async def subscribe(node: Story, name: str, **configs: str | None) -> int:
    changes = [
        AlterableConfig(
            name=key.replace("_", "."), value=value, config_operation=0 if value is not None else 1
        )
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(
        resource_type=int(ResourceType.CLIENT_METRICS), resource_name=name, configs=changes
    )
    response = await node.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    code: int = response.responses[0].error_code
    return code


async def subscription(node: Story, instance_id: UUID | None = None) -> Any:
    return await node.ask(
        GetTelemetrySubscriptionsRequest(client_instance_id=instance_id or UUID(int=0)), 0
    )


async def push(node: Story, told: Any, metrics: bytes, **how: Any) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        metrics=metrics,
        **how,
    )
    return ErrorCode.of((await node.ask(request, 0)).error_code)


async def page(node: Story) -> str:
    return await fetch(node.world.client_env().network, HOST, 9404)


def test_what_clients_push_is_on_the_metrics_page_until_they_are_silent() -> None:
    async def story(node: Story) -> None:
        assert (
            await subscribe(
                node, "all", metrics="*", interval_ms="1000", match="client_software_name=our-.*"
            )
            == 0
        )
        await node.ask(CLIENT, 4)
        told = await subscription(node)
        assert (told.requested_metrics, told.push_interval_ms, told.telemetry_max_bytes) == (
            ["*"],
            1_000,
            1 << 20,
        )
        assert told.client_instance_id.int > 1
        first = payload(
            gauge("org.apache.kafka.producer.latency.avg", 1.5),
            counter("org.apache.kafka.producer.sends", 2),
            rack="r",
        )
        assert (
            await push(node, told, compress(Codec.ZSTD, first), compression_type=4)
            is ErrorCode.NONE
        )
        await trio.sleep(1)
        assert (
            await push(node, told, payload(counter("org.apache.kafka.producer.sends", 3), rack="r"))
            is ErrorCode.NONE
        )
        shown = await page(node)
        assert "# TYPE kafka_client_producer_latency_avg gauge" in shown
        assert "# TYPE kafka_client_producer_sends counter" in shown
        line = next(
            line for line in shown.splitlines() if line.startswith("kafka_client_producer_sends{")
        )
        assert line.startswith(
            'kafka_client_producer_sends{rack="r",client_id="story",client_instance_id="'
        )
        assert line.endswith("} 5.0")
        assert "tidelog_client_telemetry_pushes_total 2" in shown
        await trio.sleep(60)
        assert "kafka_client_producer_sends{" not in await page(node)

    play(story, SHOWN)


def test_a_change_of_what_is_pushed_reaches_clients_at_their_next_request() -> None:
    async def story(node: Story) -> None:
        await subscribe(node, "mine", metrics="a", interval_ms="60000")
        told = await subscription(node)
        assert await push(node, told, payload(gauge("a.x", 1))) is ErrorCode.NONE
        assert (
            await subscription(node, told.client_instance_id)
        ).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await subscribe(node, "mine", metrics="a,b")
        assert await push(node, told, payload(gauge("a.x", 1))) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        again = await subscription(node, told.client_instance_id)
        assert (again.requested_metrics, again.client_instance_id) == (
            ["a", "b"],
            told.client_instance_id,
        )
        assert again.subscription_id != told.subscription_id
        await subscribe(node, "mine", metrics=None, interval_ms=None)
        none = await subscription(node, told.client_instance_id)
        assert (none.requested_metrics, none.push_interval_ms, none.error_code) == ([], 300_000, 0)

    play(story, SHOWN)


def test_a_client_that_comes_back_over_another_connection_may_ask_at_once() -> None:
    async def story(node: Story) -> None:
        told = await subscription(node)
        node.client.close()
        node.client = await node.connect()
        await trio.sleep(0.01)
        assert (await subscription(node, told.client_instance_id)).error_code == 0

    play(story, SHOWN)


@pytest.mark.parametrize("is_shown", [True, False])
def test_clients_are_told_of_it_where_there_is_a_page(is_shown: bool) -> None:
    async def story(node: Story) -> None:
        told = {each.api_key for each in (await node.ask(CLIENT, 4)).api_keys}
        assert told.issuperset(TELEMETRY) is is_shown
        assert (await subscription(node)).error_code == 0, "who asks all the same is answered"

    play(story, SHOWN if is_shown else {})


def test_telemetry_max_bytes() -> None:
    async def story(node: Story) -> None:
        told = await subscription(node)
        assert told.telemetry_max_bytes == 100
        assert await push(node, told, bytes(101)) is ErrorCode.TELEMETRY_TOO_LARGE
        other = await subscription(node)
        assert (
            await push(node, other, compress(Codec.ZSTD, bytes(1_000)), compression_type=4)
            is ErrorCode.INVALID_RECORD
        )

    play(story, {"telemetry.max.bytes": "100"})


def test_a_pattern_that_is_none_is_refused_when_it_is_set() -> None:
    async def story(node: Story) -> None:
        assert await subscribe(node, "mine", match="client_id=(?=a)b") == ErrorCode.INVALID_CONFIG
        assert await subscribe(node, "mine", match="client_id=a[") == ErrorCode.INVALID_CONFIG

    tell(story)
