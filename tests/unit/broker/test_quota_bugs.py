"""Typical mistakes with quotas are planted into the broker.

The story that detects a mistake has to fail.

The stories are those of ``test_client_quotas`` and of the controller's tests, in short: a story
that passes with its bug proves nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from log_service.broker.quotas import ClientAccount, ClientQuotas
from log_service.broker.requests.pipeline import Pipeline
from log_service.common.errors import ErrorCode, KafkaError
from log_service.network.responses import PendingResponse
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.quota.tokens import MutationCharge
from tests.unit.broker.context import Story, fetch_request, produce_request, tell
from tests.unit.broker.quota_story import STORY, large_batch, new_topic, set_quotas, spend

Told = Callable[[Story], Awaitable[None]]


async def answered_at_once(node: Story) -> None:
    """The response comes before the pause, not after it."""
    await node.create_topic("a")
    await set_quotas(node, STORY, producer_byte_rate=1_000)
    began = trio.current_time()
    response = await node.ask(produce_request("a", large_batch(19_000)), 9)
    assert response.throttle_time_ms > 8_000
    assert trio.current_time() - began < 0.1


async def throttled_fetches_are_empty(node: Story) -> None:
    """A consumer that has to pause gets no records, and comes back to a rate that falls."""
    await node.create_topic("a")
    for _ in range(4):
        await node.produce("a", large_batch(9_000))
    await set_quotas(node, STORY, consumer_byte_rate=1_000)
    throttles = []
    for _ in range(3):
        response = await node.ask(fetch_request("a", 1, partition_max_bytes=9_200), 12)
        throttles.append(response.throttle_time_ms)
        assert not (response.throttle_time_ms and response.responses)
    assert throttles[0] == 0 < throttles[1]
    assert throttles[2] <= throttles[1]


async def partitions_are_counted(node: Story) -> None:
    """Each partition is charged, and a topic that is larger than what is left passes."""
    await set_quotas(node, STORY, controller_mutation_rate=1)
    assert (await node.ask(new_topic("large", 30), 7)).topics[0].error_code == 0
    assert (await node.ask(new_topic("small"), 7)).topics[
        0
    ].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def a_pause_is_shared(node: Story) -> None:
    """Clients that share a quota of request time pause together."""
    other = await node.connect()
    await set_quotas(node, STORY, request_percentage=1)
    spend(node, 2_000)
    await node.ask(MetadataRequest(topics=[]), 12)
    began = trio.current_time()
    await other.ask(MetadataRequest(topics=[]), 12)
    assert trio.current_time() - began >= 0.99


def respond_after_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    handle_frame = Pipeline.handle_frame

    def late(pipeline: Pipeline, context: Any, frame: memoryview) -> Any:
        response = handle_frame(pipeline, context, frame)
        if not context.muted_until_s or not isinstance(response, list):
            return response
        held = PendingResponse()

        async def release() -> None:
            await trio.sleep_until(context.muted_until_s)
            held.complete_encoded(response)

        trio.lowlevel.spawn_system_task(release)
        return held

    monkeypatch.setattr(Pipeline, "handle_frame", late)


def send_records_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    must_pause = ClientAccount.must_pause
    monkeypatch.setattr(
        ClientAccount, "must_pause", lambda account, size: must_pause(account, size) and False
    )


def count_what_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("log_service.quota.windows.Meters.take_back", lambda *_: None)


def charge_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    take = MutationCharge.take
    monkeypatch.setattr(MutationCharge, "take", lambda charge, _: take(charge, 1))


def refuse_to_go_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(charge: MutationCharge, count: int) -> None:
        if charge.bucket.refill(charge.rate, charge.windows, charge.now_ms) < count:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        charge.bucket.take(count)

    monkeypatch.setattr(MutationCharge, "take", take)


def pause_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientQuotas, "put_off_ms", lambda *_: 0)


def handle_what_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pipeline, "is_put_off", lambda *_: False)


BUGS = [
    (pause_alone, a_pause_is_shared),
    (handle_what_is_put_off, a_pause_is_shared),
    (respond_after_the_pause, answered_at_once),
    (send_records_all_the_same, throttled_fetches_are_empty),
    (count_what_is_not_sent, throttled_fetches_are_empty),
    (charge_each_topic, partitions_are_counted),
    (refuse_to_go_below_zero, partitions_are_counted),
]


@pytest.mark.parametrize(("plant", "story"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], story: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(story)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        tell(story)
