"""Questions to a schema registry: how often it is asked, and how long a batch waits."""

from collections.abc import Awaitable, Callable

import trio
from trio.testing import MockClock

from log_service.broker.schema_validation.decisions import ACCEPTED_MS, REFUSED_MS
from log_service.broker.schema_validation.subjects import SubjectRule
from log_service.broker.schema_validation.topic_decisions import TopicDecisions
from log_service.broker.schema_validation.validation import (
    MAX_ASKED_AT_ONCE,
    MAX_ASKED_PER_SECOND,
    MAX_WAIT_MS,
    PAUSE_MS,
    SchemaValidation,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.topic_keys import TOPIC_NAME_STRATEGY
from log_service.records.rules import NamedSchema, SchemaName
from tests.unit.broker.schema_validation.registries import FakeRegistry

RULE = SubjectRule("orders", is_key=False, strategy=TOPIC_NAME_STRATEGY)


class TrioClock:
    """The node's clock, on the virtual time of the story."""

    def wall_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(trio.current_time() * 1_000)

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000


class Asking:
    """A validation, and the decisions that a batch of the topic ``orders`` would see."""

    def __init__(self, registry: FakeRegistry) -> None:
        self.registry = registry
        self.validation = SchemaValidation(registry, TrioClock())

    def schemas(self) -> TopicDecisions:
        now_ms = int(trio.current_time() * 1_000)
        return TopicDecisions(
            rules={False: RULE}, decisions=self.validation.decisions, now_ms=now_ms
        )

    async def learn(self, *names: SchemaName, timeout_ms: int = 30_000) -> KafkaError | None:
        wanted = [NamedSchema(is_key=False, name=name) for name in names]
        return await self.validation.learn(
            self.schemas(), wanted, self.validation.deadline_ms(timeout_ms)
        )

    def decision(self, name: SchemaName) -> str | None:
        return self.schemas().decision(name, is_key=False)


def tell(registry: FakeRegistry, story: Callable[[Asking], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Asking(registry))

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_answers_become_verdicts() -> None:
    async def story(asking: Asking) -> None:
        assert await asking.learn(1, 2) is None
        assert asking.decision(1) == ""
        assert asking.decision(2) == "schema id 2 is not registered"
        await trio.sleep(REFUSED_MS / 1_000)
        assert (asking.decision(1), asking.decision(2)) == ("", None)

    tell(FakeRegistry(subjects={1: {"orders-value"}}), story)


def test_a_subject_may_be_an_alias() -> None:
    """Serializers register under the alias, and the registry has the schema under its subject."""

    async def story(asking: Asking) -> None:
        assert await asking.learn(1, 2) is None
        assert asking.decision(1) == ""
        assert asking.decision(2) == "schema id 2 is not registered under subject orders-value"

    registry = FakeRegistry(
        subjects={1: {"all-orders"}, 2: {"others"}}, aliases={"orders-value": "all-orders"}
    )
    tell(registry, story)


def test_questions_are_counted_by_their_outcome() -> None:
    async def story(asking: Asking) -> None:
        await asking.learn(1, 2)
        asking.registry.failure = "away"
        await trio.sleep(PAUSE_MS / 1_000)
        await asking.learn(3)
        counts = asking.validation.counts
        assert (counts.accepted, counts.refused, counts.unanswered) == (1, 1, 1)

    tell(FakeRegistry(subjects={1: {"orders-value"}}), story)


def test_a_schema_is_asked_for_once_however_many_wait() -> None:
    async def story(asking: Asking) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(asking.learn, 1)
        assert asking.registry.asked == [1]

    tell(FakeRegistry(subjects={1: {"orders-value"}}), story)


def test_few_questions_are_under_way_at_once() -> None:
    async def story(asking: Asking) -> None:
        assert await asking.learn(*range(20)) is None
        assert asking.registry.most_under_way == MAX_ASKED_AT_ONCE

    tell(FakeRegistry(), story)


def test_made_up_ids_do_not_flood_the_registry() -> None:
    async def story(asking: Asking) -> None:
        errors = [await asking.learn(schema_id) for schema_id in range(3 * MAX_ASKED_PER_SECOND)]
        assert len(asking.registry.asked) == MAX_ASKED_PER_SECOND
        assert errors.count(None) == MAX_ASKED_PER_SECOND
        last = errors[-1]
        assert last is not None
        assert last.is_retriable
        await trio.sleep(1)
        assert await asking.learn(-1) is None

    tell(FakeRegistry(), story)


def test_a_registry_that_is_away_makes_producers_try_again() -> None:
    async def story(asking: Asking) -> None:
        error = await asking.learn(1)
        assert error is not None
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert "nothing was written: http://registry cannot be reached" in str(error)
        for _ in range(100):
            assert await asking.learn(1) is not None
        assert asking.registry.asked == [1]
        asking.registry.failure = None
        await trio.sleep(PAUSE_MS / 1_000)
        assert await asking.learn(1) is None
        assert asking.decision(1) == ""

    tell(
        FakeRegistry(subjects={1: {"orders-value"}}, failure="http://registry cannot be reached"),
        story,
    )


def test_an_accepted_schema_counts_on_while_the_registry_is_away() -> None:
    async def story(asking: Asking) -> None:
        assert await asking.learn(1) is None
        asking.registry.failure = "gone"
        await trio.sleep(ACCEPTED_MS / 1_000)
        assert asking.decision(1) is None
        assert await asking.learn(1) is None
        assert asking.decision(1) == ""
        assert await asking.learn(2) is not None

    tell(FakeRegistry(subjects={1: {"orders-value"}}), story)


def test_an_accepted_schema_counts_on_while_the_registry_hangs() -> None:
    """A producer that waits less than the registry may take was told to try again for ever."""

    async def story(asking: Asking) -> None:
        assert await asking.learn(1) is None
        asking.registry.gate = trio.Event()
        await trio.sleep(ACCEPTED_MS / 1_000)
        assert await asking.learn(1, timeout_ms=100) is None
        assert asking.decision(1) == ""
        assert await asking.learn(2, timeout_ms=100) is not None

    tell(FakeRegistry(subjects={1: {"orders-value"}}), story)


def test_a_deleted_schema_is_refused_in_the_end() -> None:
    async def story(asking: Asking) -> None:
        assert await asking.learn(1) is None
        asking.registry.subjects.clear()
        await trio.sleep(ACCEPTED_MS / 1_000)
        assert await asking.learn(1) is None
        assert asking.decision(1) == "schema id 1 is not registered"

    tell(FakeRegistry(subjects={1: {"orders-value"}}), story)


def test_a_batch_waits_for_a_bounded_time_and_a_waiter_asks_again_once_the_asker_has_left() -> None:
    async def story(asking: Asking) -> None:
        began = trio.current_time()
        error = await asking.learn(1)
        assert error is not None
        assert (trio.current_time() - began) * 1_000 == MAX_WAIT_MS
        error = await asking.learn(1, timeout_ms=500)
        assert error is not None
        assert (trio.current_time() - began) * 1_000 == MAX_WAIT_MS + 500
        assert asking.registry.gate is not None
        asking.registry.gate.set()
        assert await asking.learn(1) is None

    tell(FakeRegistry(gate=trio.Event()), story)
