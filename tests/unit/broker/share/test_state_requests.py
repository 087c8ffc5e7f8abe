"""A broker sends requests to share coordinators on other brokers (KIP-932).

The tests tell which go together, which are repeated, and which are given up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast
from uuid import UUID

import trio
import trio.testing

from log_service.broker.share import state_requests as under_test
from log_service.broker.share.state_requests import (
    LONGEST_PAUSE_MS,
    MAX_ATTEMPTS,
    PURPOSE,
    PURPOSE_OF_READS,
    ShareStateRequests,
)
from log_service.broker.timer_task import TimerTask
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import SHARE_GROUP_STATE_TOPIC, NodeId
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import ShareKey, ShareState
from log_service.metadata.partition import NO_LEADER
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing
from log_service.protocol.stored.metadata_records import BrokerEndpoint
from tests.helpers.handler_node import LISTENER, HandlerNode, tell_handlers
from tests.unit.metadata.records import broker

Answer = Callable[[Any], Any]
TOPIC = UUID(int=5)
BOTH = (NodeId(1), NodeId(2))


def states(
    node: HandlerNode, pool: "Brokers", *, is_topic_there: bool = True, here: Any = None
) -> ShareStateRequests:
    context = node.context

    def have_the_topic() -> None:
        context.create_topic(SHARE_GROUP_STATE_TOPIC, replicas=BOTH, isr=BOTH)
        context.elect(2, SHARE_GROUP_STATE_TOPIC)

    if is_topic_there:
        have_the_topic()

    async def create() -> None:
        pool.created_count += 1
        have_the_topic()

    return ShareStateRequests(
        node_id=node.node.config.node_id,  # type: ignore[arg-type]
        listener_name=LISTENER,
        clock=context.env.clock,
        rng=Random(3),
        timers=context.timers,
        image=lambda: context.image,
        pool=lambda: cast("Any", pool),
        start_task=context.nursery.start_soon,
        here=here or node.node.share_states,
        create_topic=create,
    )


@dataclass
class Brokers:
    """This is the way to other brokers.

    Each request gets the next of ``codes``, and no error once there are no more.
    """

    codes: list[ErrorCode] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    created_count: int = 0
    left_out: set[int] = field(default_factory=set)
    """Partitions that are not in the response."""
    may_answer: trio.Event = field(default_factory=trio.Event)
    purposes: set[tuple[str, str]] = field(default_factory=set)
    """The names of requests, each with the purpose of its connection."""

    async def request(self, destination: Any, request: Any, response_type: type[Any]) -> Any:
        self.requests.append(request)
        self.purposes.add((type(request).__name__, destination.purpose))
        await self.may_answer.wait()
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is ErrorCode.NETWORK_EXCEPTION:
            raise KafkaError(code, "the connection broke")
        modules: dict[type[Any], tuple[Any, Any]] = {
            initializing.InitializeShareGroupStateRequest: (
                initializing,
                initializing.InitializeStateResult,
            ),
            reading.ReadShareGroupStateRequest: (reading, reading.ReadStateResult),
            deleting.DeleteShareGroupStateRequest: (deleting, deleting.DeleteStateResult),
            writing.WriteShareGroupStateRequest: (writing, writing.WriteStateResult),
            summarizing.ReadShareGroupStateSummaryRequest: (
                summarizing,
                summarizing.ReadStateSummaryResult,
            ),
        }
        module = modules[type(request)]
        results = [
            module[1](
                topic_id=topic.topic_id,
                partitions=[
                    module[0].PartitionResult(partition=each.partition, error_code=code)
                    for each in topic.partitions
                    if each.partition not in self.left_out
                ],
            )
            for topic in request.topics
        ]
        return response_type(results=results)


def key(partition: int = 0, group_id: str = "g") -> ShareKey:
    return ShareKey(group_id=group_id, topic_id=TOPIC, partition=partition)


def tell(
    story: Callable[[HandlerNode, Brokers, list[Any]], Any],
    *codes: ErrorCode,
    may_answer: bool = True,
) -> None:
    async def whole(node: HandlerNode) -> None:
        node.context.publish(
            replace(
                broker(2),
                end_points=[BrokerEndpoint(name=LISTENER, host="two", port=1)],
                fenced=False,
            )
        )
        pool = Brokers(list(codes))
        if may_answer:
            pool.may_answer.set()
        await node.context.nursery.start(TimerTask(node.context.timers, node.node.clock).run)
        await story(node, pool, [])

    tell_handlers(whole)


async def until_told(told: list[Any], count: int = 1) -> None:
    for _ in range(2_000):
        if len(told) >= count:
            return
        await trio.sleep(0.05)
    raise TimeoutError


def codes_of(told: list[Any]) -> list[ErrorCode | None]:
    return [None if each is None else each.code for each in told]


def test_what_is_asked_meanwhile_goes_out_together() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        for partition in range(5):
            asking.initialize(key(partition), state_epoch=1, start_offset=0, on_done=told.append)
        asking.initialize(key(0, "another"), state_epoch=1, start_offset=0, on_done=told.append)
        await trio.testing.wait_all_tasks_blocked()
        for partition in range(5, 8):
            asking.initialize(key(partition), state_epoch=1, start_offset=0, on_done=told.append)
        pool.may_answer.set()
        await until_told(told, 9)
        assert codes_of(told) == [None] * 9
        asked = [
            (each.group_id, [part.partition for part in each.topics[0].partitions])
            for each in pool.requests
        ]
        assert sorted(asked) == [("another", [0]), ("g", [0, 1, 2, 3, 4]), ("g", [5, 6, 7])]

    tell(story, may_answer=False)


def test_one_request_holds_a_bounded_number_of_partitions(monkeypatch: Any) -> None:
    monkeypatch.setattr(under_test, "MAX_PARTITIONS_PER_REQUEST", 3)

    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        for partition in range(7):
            asking.delete(key(partition), on_done=told.append)
        await until_told(told, 7)
        assert [len(request.topics[0].partitions) for request in pool.requests] == [3, 3, 1]

    tell(story)


def test_more_questions_than_may_wait_are_refused_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(under_test, "MAX_QUESTIONS", 2)

    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        for partition in range(3):
            asking.delete(key(partition), on_done=told.append)
        assert codes_of(told) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        pool.may_answer.set()
        await until_told(told, 3)
        asking.delete(key(9), on_done=told.append)
        await until_told(told, 4)
        assert codes_of(told)[1:] == [None] * 3

    tell(story, may_answer=False)


def test_what_time_mends_is_asked_again() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.read(key(), leader_epoch=3, on_done=told.append)
        await until_told(told)
        assert isinstance(told[0], ShareState)
        assert len(pool.requests) == 5

    mended = (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    tell(story, *mended)


def test_what_time_does_not_mend_is_told_at_once() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.read(key(), leader_epoch=3, on_done=told.append)
        await until_told(told)
        assert codes_of(told) == [ErrorCode.FENCED_LEADER_EPOCH]
        assert len(pool.requests) == 1

    tell(story, ErrorCode.FENCED_LEADER_EPOCH)


def test_a_coordinator_that_stays_away_is_given_up() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        begin_ms = node.node.clock.monotonic_ms()
        asking.read(key(), leader_epoch=3, on_done=told.append)
        await until_told(told)
        assert codes_of(told) == [ErrorCode.NOT_COORDINATOR]
        assert len(pool.requests) == MAX_ATTEMPTS
        took_ms = node.node.clock.monotonic_ms() - begin_ms
        assert 3 * LONGEST_PAUSE_MS < took_ms < MAX_ATTEMPTS * LONGEST_PAUSE_MS, (
            "the pauses double up to the longest"
        )

    tell(story, *[ErrorCode.NOT_COORDINATOR] * 50)


def test_a_coordinator_that_leaves_a_state_out_of_its_response_is_not_waited_for() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        pool.left_out = {1}
        for partition in range(3):
            asking.delete(key(partition), on_done=told.append)
        await until_told(told, 3)
        assert codes_of(told) == [None, ErrorCode.UNKNOWN_SERVER_ERROR, None]

    tell(story)


def test_a_coordinator_without_a_leader_is_asked_once_it_has_one() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        node.context.elect(NO_LEADER, SHARE_GROUP_STATE_TOPIC)
        asking.delete(key(), on_done=told.append)
        await trio.sleep(2)
        assert (told, pool.requests) == ([], [])
        node.context.elect(2, SHARE_GROUP_STATE_TOPIC)
        await until_told(told)
        assert codes_of(told) == [None]

    tell(story)


def test_questions_of_one_state_do_not_overtake_each_other() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.initialize(
            key(),
            state_epoch=1,
            start_offset=0,
            on_done=lambda error: told.append(("initialized", error)),
        )
        asking.delete(key(), on_done=lambda error: told.append(("deleted", error)))
        await until_told(told, 2)
        assert told == [("initialized", None), ("deleted", None)]
        assert [type(each).__name__ for each in pool.requests] == [
            "InitializeShareGroupStateRequest",
            "InitializeShareGroupStateRequest",
            "DeleteShareGroupStateRequest",
        ]

    tell(story, ErrorCode.NOT_COORDINATOR)


def a_write(leader_epoch: int) -> ShareStateWrite:
    return ShareStateWrite(state_epoch=1, leader_epoch=leader_epoch, start_offset=5)


def names(pool: Brokers) -> list[str]:
    """Return the kinds of the requests so far."""
    kinds = ("Initialize", "Summary", "Read", "Write", "Delete")
    return [next(kind for kind in kinds if kind in type(each).__name__) for each in pool.requests]


def test_a_read_of_a_later_leader_does_not_wait_for_the_writes_of_earlier_ones() -> None:
    """The coordinator fences them as soon as it has the read."""

    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        for _ in range(2):
            asking.write(key(), a_write(3), on_done=told.append)
        await trio.testing.wait_all_tasks_blocked()
        asking.read(key(), leader_epoch=4, on_done=told.append)
        asking.write(key(), a_write(4), on_done=told.append)
        await trio.testing.wait_all_tasks_blocked()
        assert codes_of(told) == [ErrorCode.FENCED_LEADER_EPOCH] * 2
        assert names(pool) == ["Write", "Read"]
        pool.may_answer.set()
        await until_told(told, 4)
        assert isinstance(told[2], ShareState)
        assert told[3:] == [None]
        assert names(pool) == ["Write", "Read", "Write"]
        assert repr(asking) == "<ShareStateRequests questions=0 routes=0>"
        assert not asking.asked_keys

    tell(story, may_answer=False)


def test_a_later_leader_ends_the_pause_before_a_write_of_an_earlier_one() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.write(key(), a_write(3), on_done=told.append)
        await trio.testing.wait_all_tasks_blocked()
        asking.read(key(), leader_epoch=4, on_done=told.append)
        await until_told(told, 2)
        await trio.sleep(LONGEST_PAUSE_MS / 1_000)
        assert told[0].code is ErrorCode.FENCED_LEADER_EPOCH
        assert isinstance(told[1], ShareState)
        assert names(pool) == ["Write", "Read"]

    tell(story, ErrorCode.NOT_COORDINATOR)


def test_a_read_of_the_same_leader_waits_for_its_writes() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.write(key(), a_write(3), on_done=told.append)
        asking.read(key(), leader_epoch=3, on_done=told.append)
        await until_told(told, 2)
        assert told[0] is None
        assert isinstance(told[1], ShareState)
        assert names(pool) == ["Write", "Write", "Read"]

    tell(story, ErrorCode.NOT_COORDINATOR)


def test_a_summary_waits_for_no_write_of_its_state() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.write(key(), a_write(3), on_done=told.append)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            asking.summarize(key(), leader_epoch=0, on_done=told.append)
        await until_told(told, 2)
        assert [isinstance(each, ShareState) for each in told] == [True, True]
        assert [len(pool.requests[1].topics[0].partitions), names(pool)] == [
            1,
            ["Write", "Summary"],
        ]
        await until_told(told, 3)
        assert told[2] is None

    tell(story, ErrorCode.NOT_COORDINATOR)


def test_reads_have_a_connection_of_their_own() -> None:
    """Responses leave a connection in order, and a write waits until replicas have it."""

    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool)
        asking.write(key(), a_write(3), on_done=told.append)
        asking.read(key(1), leader_epoch=3, on_done=told.append)
        asking.summarize(key(2), leader_epoch=0, on_done=told.append)
        await until_told(told, 3)
        assert pool.purposes == {
            ("WriteShareGroupStateRequest", PURPOSE),
            ("ReadShareGroupStateRequest", PURPOSE_OF_READS),
            ("ReadShareGroupStateSummaryRequest", PURPOSE_OF_READS),
        }

    tell(story)


def test_the_topic_is_created_for_the_first_question() -> None:
    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool, is_topic_there=False)
        for partition in range(3):
            asking.delete(key(partition), on_done=told.append)
        await until_told(told, 3)
        assert codes_of(told) == [None] * 3
        assert pool.created_count == 1

    tell(story)


class HereAtOnce:
    """This node's own states: each question is refused before ``_ask_each`` returns."""

    def _ask_each(
        self, _api: Any, request: Any, _decide: Any, on_reply: Callable[[Any], None]
    ) -> None:
        results = [
            deleting.DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    deleting.PartitionResult(
                        partition=each.partition,
                        error_code=ErrorCode.INVALID_REQUEST,
                        error_message="no",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        on_reply(deleting.DeleteShareGroupStateResponse(results=results))


def test_who_hears_from_another_broker_may_ask_again_and_hear_from_this_one_at_once() -> None:
    """A caller that hears from another broker may ask again and hear from this one at once.

    The coordinator has moved here meanwhile. The second question ends before the first one is
    over.
    """

    async def story(node: HandlerNode, pool: Brokers, told: list[Any]) -> None:
        asking = states(node, pool, here=HereAtOnce())

        def ask_again(error: KafkaError | None) -> None:
            told.append(error)
            node.context.elect(1, SHARE_GROUP_STATE_TOPIC)
            asking.delete(key(), on_done=told.append)

        asking.delete(key(), on_done=ask_again)
        await until_told(told, 2)
        assert codes_of(told) == [None, ErrorCode.INVALID_REQUEST]
        assert repr(asking) == "<ShareStateRequests questions=0 routes=0>"
        assert not asking.asked_keys, "what is done with is not remembered"
        asking.delete(key(), on_done=told.append)
        assert codes_of(told)[2:] == [ErrorCode.INVALID_REQUEST]

    tell(story)
