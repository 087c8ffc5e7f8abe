"""Clients ask a broker to compact a topic.

The response has figures per partition. The tests also look at refusals and at the broker's own
timer.
"""

from typing import Any

import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.messages.maintenance import (
    MaintenanceRequest,
    MaintenanceResponse,
    MaintenanceResult,
)
from tests.unit.broker.context import Story, batch, tell, values_of

COMPACT = 1
NOW_MS = 1_700_000_000_000


def keys(properties: dict[str, str]) -> dict[str, Any]:
    """Let Kafka's keys, which are no names in Python, pass as keyword arguments."""
    return properties


async def overwrite(node: Story, topic: str, count: int) -> None:
    """Produce ``count`` values of one key, each into a segment of its own."""
    for number in range(count):
        content = batch(b"%d" % number, key=b"key", timestamp_ms=NOW_MS + 10 * number)
        assert (await node.produce(topic, content)).error_code == 0


async def left(node: Story, topic: str) -> list[bytes | None]:
    """Read a compacted log and the record in its active segment."""
    return [
        value for offset in (0, 4) for value in values_of((await node.fetch(topic, offset)).records)
    ]


async def compact(
    node: Story, topics: list[str] | None, timeout_ms: int = 30_000
) -> dict[tuple[str, int], MaintenanceResult]:
    response: MaintenanceResponse = await node.ask(
        MaintenanceRequest(operation=COMPACT, topics=topics, timeout_ms=timeout_ms), 1
    )
    assert response.error_code == 0, response.error_message
    return {(result.topic, result.partition): result for result in response.results}


def test_compaction_is_applied_on_demand_and_tells_its_figures() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", cleanup_policy="compact", segment_ms="1")
        await node.create_topic("b")
        await overwrite(node, "a", 5)
        told = await compact(node, None)
        assert list(told) == [("a", 0)], (
            "topics that are not compacted, and internal ones, are left out"
        )
        one = told["a", 0]
        assert (one.error_code, one.error_message, one.pass_count, one.cleaned_offset) == (
            0,
            None,
            1,
            4,
        )
        assert (one.segments_before, one.segments_after, one.records_before, one.records_after) == (
            4,
            1,
            4,
            1,
        )
        assert one.bytes_before == 4 * one.bytes_after
        assert (one.dirty_ratio_before, one.dirty_ratio_after) == (1.0, 0.0)
        assert await left(node, "a") == [b"3", b"4"]
        again = (await compact(node, ["a"]))["a", 0]
        assert (again.pass_count, again.records_before, again.is_under_way) == (0, 0, False)

    tell(story, **keys({"log.cleaner.backoff.ms": "86400000"}))


def test_what_cannot_be_compacted_is_told_by_partition() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("b")
        told = await compact(node, ["b", "gone"])
        assert told["b", 0].error_code == ErrorCode.INVALID_CONFIG
        assert "cleanup.policy" in (told["b", 0].error_message or "")
        assert told["gone", -1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old: MaintenanceResponse = await node.ask(MaintenanceRequest(operation=COMPACT), 0)
        assert old.error_code == ErrorCode.INVALID_REQUEST

    tell(story)


def test_a_disabled_cleaner_says_so() -> None:
    async def story(node: Story) -> None:
        response: MaintenanceResponse = await node.ask(MaintenanceRequest(operation=COMPACT), 1)
        assert response.error_code == ErrorCode.POLICY_VIOLATION
        assert "log.cleaner.enable" in (response.error_message or "")

    tell(story, **keys({"log.cleaner.enable": "false"}))


def test_what_takes_longer_than_the_timeout_is_under_way_and_goes_on() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", cleanup_policy="compact", segment_ms="1")
        await overwrite(node, "a", 5)
        assert (await compact(node, ["a"], timeout_ms=100))["a", 0].is_under_way
        await trio.sleep(60)
        assert await left(node, "a") == [b"3", b"4"]

    tell(
        story,
        **keys({"log.cleaner.io.max.bytes.per.second": "50", "log.cleaner.backoff.ms": "86400000"}),
    )


def test_the_broker_compacts_by_itself_under_kafkas_keys() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", cleanup_policy="compact", segment_ms="1")
        await overwrite(node, "a", 5)
        await trio.sleep(3)
        assert await left(node, "a") == [b"3", b"4"]

    tell(story, **keys({"log.cleaner.backoff.ms": "1000"}))


def test_the_feature_tells_that_compaction_can_be_asked_for() -> None:
    async def story(node: Story) -> None:
        response: ApiVersionsResponse = await node.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        )
        levels = {
            feature.name: (feature.min_version, feature.max_version)
            for feature in response.supported_features
        }
        assert levels["tidelog.maintenance"] == (1, 2)

    tell(story)
