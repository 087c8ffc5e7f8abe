"""A broker registers until it is accepted, and leaves only when it may.

It asks for producer ids before they are used up.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import chain, cycle, repeat
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from log_service.broker.lifecycle import (
    SILENCE_MS,
    BrokerLifecycle,
    ControllerWatch,
    DirectoryStates,
)
from log_service.broker.producer_ids import ProducerIds
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId
from log_service.config.views import QuorumConfig, QuorumServer
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import Endpoint
from log_service.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from log_service.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.unit.broker.context import configuration

OWN, OTHER = UUID(int=1), UUID(int=2)
DISK, CORDONED, BROKEN = UUID(int=701), UUID(int=702), UUID(int=703)


class Controller:
    """Answers with what the test says, after ``latency_s``, and keeps what it was asked with the
    time.
    """

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.latency_s = 0.0
        self.asked: list[tuple[float, Any]] = []
        self.answered: list[tuple[float, Any]] = []

    async def request(self, request: Any, response_type: Any, caller: Any = None) -> Any:
        self.asked.append((trio.current_time(), request))
        if self.latency_s:
            await trio.sleep(self.latency_s)
        self.answered.append((trio.current_time(), request))
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def spoken_versions(self) -> None:
        return None

    def of(self, kind: type[Any]) -> list[Any]:
        return [request for _, request in self.asked if isinstance(request, kind)]


def refusal(code: ErrorCode) -> KafkaError:
    return KafkaError(code, code.name)


def image_at(offset: int, **broker: Any) -> Any:
    brokers = {1: SimpleNamespace(**broker)} if broker else {}
    return SimpleNamespace(offset=offset, cluster=SimpleNamespace(brokers=brokers), features={})


class Member:
    """A broker's lifecycle beside a controller that answers what the test says."""

    def __init__(
        self,
        answer: Callable[[Any], Any],
        kind: type[Controller] = Controller,
        quorum: QuorumConfig | None = None,
    ) -> None:
        self.controller = kind(answer)
        self.directories = DirectoryStates(previous_broker_epoch=5, cordoned=frozenset({CORDONED}))
        self.image = image_at(100)
        config = replace(
            configuration({})[0],
            log_dir_failure_timeout_ms=6_000,
            rack="r",
            quorum=quorum or QuorumConfig(),
        )
        self.quorum_looks: Iterator[str] = repeat("0")
        self.lifecycle = BrokerLifecycle(
            config,
            self.controller,
            lambda: self.image,
            lambda: self.directories,
            is_quorum_gone=lambda: next(self.quorum_looks) == "1",
        )

    async def register(self) -> None:
        endpoints = {"L": Endpoint(host="h", port=9092, security_protocol=1)}
        await self.lifecycle.register(
            cluster_id="c",
            incarnation_id=OWN,
            endpoints=endpoints,
            log_dirs=(DISK, CORDONED, BROKEN),
        )


def run(story: Callable[[], Awaitable[None]]) -> float:
    """Run a story on virtual time, and return how long it took."""

    async def timed() -> float:
        started = trio.current_time()
        await story()
        return trio.current_time() - started

    return trio.run(timed, clock=MockClock(autojump_threshold=0))


def test_a_registration_says_who_the_broker_is_and_how_its_last_stop_was_and_leaves_out_what_is_offline() -> (
    None
):
    async def story() -> None:
        member = Member(lambda _: BrokerRegistrationResponse(broker_epoch=42))
        member.directories = replace(member.directories, offline=frozenset({BROKEN}))
        await member.register()
        (request,) = member.controller.of(BrokerRegistrationRequest)
        assert (request.broker_id, request.cluster_id, request.incarnation_id, request.rack) == (
            1,
            "c",
            OWN,
            "r",
        )
        assert (request.previous_broker_epoch, request.log_dirs) == (5, [DISK, CORDONED])
        assert {
            each.name: (each.min_supported_version, each.max_supported_version)
            for each in request.features
        } == SUPPORTED_FEATURES
        (listener,) = request.listeners
        assert (listener.name, listener.host, listener.port, listener.security_protocol) == (
            "L",
            "h",
            9092,
            1,
        )
        assert member.lifecycle.broker_epoch == 42

    run(story)


def test_a_broker_registers_at_the_pace_of_heartbeats_until_it_is_taken() -> None:
    answers = iter(
        [
            refusal(ErrorCode.NOT_CONTROLLER),
            refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION),
            BrokerRegistrationResponse(),
        ]
    )

    async def story() -> None:
        await Member(lambda _: next(answers)).register()

    assert run(story) == pytest.approx(4)


def test_a_broker_that_is_not_taken_in_time_says_why() -> None:
    async def story() -> None:
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
            await Member(lambda _: refusal(ErrorCode.UNSUPPORTED_VERSION)).register()

    assert run(story) == pytest.approx(60)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("h", "the session of this broker's last run, at L://h:9092, is not over"),
        ("other", "another process is alive as broker 1, at L://other"),
    ],
)
def test_a_broker_that_is_known_to_be_alive_says_once_whether_that_is_its_own_last_run(
    host: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = chain(
        repeat(refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION), 5), [BrokerRegistrationResponse()]
    )

    async def story() -> None:
        member = Member(lambda _: next(answers))
        member.image = image_at(
            100, endpoints={"L": Endpoint(host=host, port=9092, security_protocol=1)}
        )
        await member.register()

    run(story)
    (line,) = caplog.messages
    assert said in line


def test_a_broker_that_finds_no_controller_says_where_it_looks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        member = Member(
            lambda _: refusal(ErrorCode.NOT_CONTROLLER),
            quorum=QuorumConfig(bootstrap_servers=(QuorumServer(-1, "h1", 9093),)),
        )
        with pytest.raises(KafkaError, match="it looks at h1:9093"):
            await member.register()

    run(story)
    assert "it looks at h1:9093" in caplog.text


def test_a_broker_that_waits_for_a_controller_says_so_once_before_its_first_request_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter([refusal(ErrorCode.NOT_CONTROLLER), BrokerRegistrationResponse()])

    async def story() -> None:
        member = Member(
            lambda _: next(answers),
            quorum=QuorumConfig(bootstrap_servers=(QuorumServer(-1, "h1", 9093),)),
        )
        member.controller.latency_s = 30
        await member.register()

    run(story)
    told = [record.getMessage() for record in caplog.records]
    assert (
        told[0]
        == "No controller has taken this broker for 5 s, which goes on asking; it looks at h1:9093"
    )
    assert len(told) == 2, "the second is the refusal, and the second request waits as long"


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION]
)
def test_what_no_later_attempt_can_mend_ends_the_node_at_once(code: ErrorCode) -> None:
    async def story() -> None:
        with pytest.raises(KafkaError, match=code.name):
            await Member(lambda _: refusal(code)).register()

    assert run(story) == 0


def test_a_broker_that_may_not_register_says_as_whom_it_came_and_ends_at_once() -> None:
    async def story() -> None:
        with pytest.raises(KafkaError, match="this node comes as User:ANONYMOUS") as raised:
            await Member(lambda _: refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)).register()
        assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    assert run(story) == 0


def test_a_broker_asks_to_stay_fenced_until_it_has_caught_up_and_then_to_lead() -> None:
    async def story() -> None:
        answers = iter(
            [
                BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True),
                BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True),
                BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True),
                BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False),
            ]
        )
        member = Member(lambda _: next(answers))
        await member.lifecycle.catch_up()
        await member.lifecycle.unfence()
        beats = member.controller.of(BrokerHeartbeatRequest)
        assert [beat.want_fence for beat in beats] == [True, True, False, False]
        assert [beat.cordoned_log_dirs for beat in beats] == [None, None, [CORDONED], [CORDONED]], (
            "null until the broker has caught up"
        )
        assert {beat.current_metadata_offset for beat in beats} == {100}

    assert run(story) == pytest.approx(0.02), "a pause before each question that is asked again"


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (
            BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True),
            "to follow the metadata up to its registration",
        ),
        (BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False), "to let this broker lead"),
    ],
)
def test_a_broker_whose_start_waits_for_long_says_so_once(
    later: BrokerHeartbeatResponse, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that started so said nothing for as long as that took, and looked as if it hung."""

    async def story() -> None:
        until = trio.current_time() + 3 * SILENCE_MS / 1_000
        first = BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True)
        member = Member(lambda _: first if trio.current_time() < until else later)
        await (member.lifecycle.catch_up() if later.is_fenced else member.lifecycle.unfence())

    run(story)
    (record,) = caplog.records
    assert told in record.getMessage()


def test_a_broker_leaves_when_it_may_and_asks_more_and_more_seldom() -> None:
    async def story() -> None:
        member = Member(
            lambda _: BrokerHeartbeatResponse(should_shut_down=trio.current_time() - started > 0.5)
        )
        started = trio.current_time()
        member.lifecycle.broker_epoch = BrokerEpoch(1)
        await member.lifecycle.leave()
        assert len(member.controller.asked) == 6

    assert run(story) == pytest.approx(0.62)


@pytest.mark.parametrize("seconds", [4.5, 5, 5.5])
def test_a_broker_that_leaves_does_not_beat_as_one_that_runs_any_more(seconds: float) -> None:
    """The controller would unfence it again: it would lead, and be gone in that moment.

    It leaves between two heartbeats, in the moment of one, and while it waits for the response to
    one.
    """

    async def story() -> None:
        member = Member(
            lambda beat: BrokerHeartbeatResponse(
                is_caught_up=True, is_fenced=False, should_shut_down=beat.want_shut_down
            )
        )
        member.controller.latency_s = 1
        member.lifecycle.broker_epoch = BrokerEpoch(1)
        async with trio.open_nursery() as nursery:
            await nursery.start(member.lifecycle.run)
            await trio.sleep(seconds)
            await member.lifecycle.leave()
            await trio.sleep(20)
            nursery.cancel_scope.cancel()
        beats = [beat.want_shut_down for beat in member.controller.of(BrokerHeartbeatRequest)]
        assert beats == sorted(beats)
        assert {*beats} == {False, True}
        began_s = next(
            asked_s for asked_s, request in member.controller.asked if request.want_shut_down
        )
        assert all(
            request.want_shut_down
            for answered_s, request in member.controller.answered
            if answered_s > began_s
        )

    run(story)


def test_a_broker_that_is_never_let_go_stops_after_a_while() -> None:
    async def story() -> None:
        member = Member(lambda _: BrokerHeartbeatResponse(should_shut_down=False))
        member.lifecycle.broker_epoch = BrokerEpoch(1)
        with pytest.raises(KafkaError, match="did not let this broker go"):
            await member.lifecycle.leave()

    assert run(story) == pytest.approx(30)


class Silent(Controller):
    """Takes requests, and never responds."""

    async def request(self, request: Any, response_type: Any, caller: Any = None) -> Any:
        self.asked.append((trio.current_time(), request))
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("looks", "taken_s"),
    [
        (repeat("1"), 0.5),
        (chain("000", repeat("1")), 0.8),
        (chain("11110", repeat("1")), 1.0),
        (cycle("11110"), 5),
    ],
    ids=["from the beginning", "a moment later", "once more and for good", "four times in five"],
)
def test_a_broker_leaves_without_its_quorum_once_that_was_gone_five_times_in_a_row(
    looks: Iterator[str], taken_s: float
) -> None:
    """A controller that starts again is gone for a moment too, and then lets the broker go.
    ``looks`` has a 1 where the quorum is gone.
    """

    async def story() -> None:
        member = Member(lambda _: None, Silent)
        member.quorum_looks = looks
        member.lifecycle.broker_epoch = BrokerEpoch(1)
        with pytest.raises(KafkaError, match="too few of them are left to decide") as raised:
            await member.lifecycle.leave()
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT

    assert run(story) == pytest.approx(taken_s)


def test_every_heartbeat_of_a_broker_that_leaves_says_so_until_its_process_ends() -> None:
    """Any other one would have a controller, the next one above all, let it lead again."""

    async def story() -> None:
        member = Member(
            lambda _: BrokerHeartbeatResponse(should_shut_down=trio.current_time() - started > 5)
        )
        started = trio.current_time()
        member.lifecycle.broker_epoch = BrokerEpoch(1)
        async with trio.open_nursery() as nursery:
            await nursery.start(member.lifecycle.run)
            await trio.sleep(0.5)
            await member.lifecycle.leave()
            member.lifecycle.hurry()
            await trio.sleep(2.5)
            nursery.cancel_scope.cancel()
        beats = member.controller.of(BrokerHeartbeatRequest)
        assert len(beats) > 10
        assert all(beat.want_shut_down for beat in beats)

    run(story)


def test_a_broker_whose_place_was_taken_ends_and_one_that_was_forgotten_goes_on() -> None:
    async def story() -> None:
        member = Member(lambda request: refusal(ErrorCode.STALE_BROKER_EPOCH))
        member.lifecycle.broker_epoch = BrokerEpoch(10)
        with trio.move_on_after(20) as waiting:
            await member.lifecycle.run()
        assert waiting.cancelled_caught, (
            "an admin unregistered it: it comes back when it starts again"
        )
        member.image = image_at(100, epoch=11, incarnation_id=OTHER)
        with pytest.raises(KafkaError, match="another process has registered as broker 1"):
            await member.lifecycle.run()

    run(story)


def test_a_failed_directory_that_the_controller_does_not_hear_of_ends_the_node() -> None:
    async def story() -> None:
        member = Member(lambda request: refusal(ErrorCode.NETWORK_EXCEPTION))
        member.directories = replace(member.directories, offline=frozenset({BROKEN}))
        with pytest.raises(StorageError, match="could not be told in time"):
            await member.lifecycle.run()

    assert run(story) == pytest.approx(8)


def test_the_time_to_tell_of_a_failed_directory_begins_anew_with_each_that_fails() -> None:
    async def story() -> None:
        began = trio.current_time()

        def answer(_request: object) -> Any:
            is_reached = (trio.current_time() - began) % 60 > 3
            return BrokerHeartbeatResponse() if is_reached else refusal(ErrorCode.NETWORK_EXCEPTION)

        member = Member(answer)
        member.directories = replace(member.directories, offline=frozenset({BROKEN}))
        async with trio.open_nursery() as nursery:
            await nursery.start(member.lifecycle.run)
            await trio.sleep(59)
            member.directories = replace(member.directories, offline=frozenset({BROKEN, DISK}))
            await trio.sleep(30)
            told = [sorted(request.offline_log_dirs) for _, request in member.controller.asked]
            assert (told[0], told[-1]) == ([BROKEN], [DISK, BROKEN]), "it runs on"
            nursery.cancel_scope.cancel()

    run(story)


def test_each_new_controller_hears_of_the_broker_at_once() -> None:
    async def story() -> None:
        member = Member(lambda request: BrokerHeartbeatResponse())
        watch = ControllerWatch(member.lifecycle.meet_controller)
        async with trio.open_nursery() as nursery:
            await nursery.start(member.lifecycle.run)
            began = trio.current_time()
            for leader_id, epoch in ((-1, 4), (2, 5), (-1, 5), (2, 5), (-1, 6), (2, 7), (3, 8)):
                await trio.sleep(0.1)
                watch.on_leader_change(NodeId(leader_id), LeaderEpoch(epoch))
            await trio.sleep(1)
            assert [at - began for at, _ in member.controller.asked] == pytest.approx(
                [0.2, 0.6, 0.7]
            ), "one for each that leads"
            nursery.cancel_scope.cancel()

    run(story)


def test_a_heartbeat_that_waits_for_the_controller_before_is_given_up_for_the_next_one() -> None:
    class Hung(Controller):
        async def request(self, request: Any, response_type: Any, caller: Any = None) -> Any:
            response = await super().request(request, response_type, caller)
            if len(self.asked) == 1:
                await trio.sleep_forever()
            return response

    async def story() -> None:
        member = Member(lambda request: BrokerHeartbeatResponse(), Hung)
        async with trio.open_nursery() as nursery:
            await nursery.start(member.lifecycle.run)
            began = trio.current_time()
            await trio.sleep(2.5)
            member.lifecycle.meet_controller()
            await trio.sleep(2.5)
            assert [at - began for at, _ in member.controller.asked] == pytest.approx([2, 2.5, 4.5])
            nursery.cancel_scope.cancel()

    run(story)


def test_keys_of_membership_and_elections_reach_their_view() -> None:
    config, _ = configuration(
        {
            "initial.broker.registration.timeout.ms": "7",
            "leader.imbalance.check.interval.seconds": "8",
            "log.dir.failure.timeout.ms": "9",
            "unclean.leader.election.interval.ms": "10",
        }
    )
    assert config.initial_registration_timeout_ms == 7
    assert config.leader_balance_interval_ms == 8_000
    assert config.log_dir_failure_timeout_ms == 9
    assert config.unclean_election_interval_ms == 10
    assert (
        configuration({"auto.leader.rebalance.enable": "false"})[0].leader_balance_interval_ms
        is None
    )


# Producer ids


class Blocks:
    """Hands out blocks of ten, the first at once, others while ``is_there``."""

    def __init__(self) -> None:
        self.is_there = True
        self.count = 0

    def __call__(self, request: Any) -> Any:
        assert isinstance(request, AllocateProducerIdsRequest)
        if not self.is_there:
            return refusal(ErrorCode.NOT_CONTROLLER)
        self.count += 1
        return AllocateProducerIdsResponse(producer_id_start=self.count * 100, producer_id_len=10)


def test_the_next_block_is_there_before_the_last_id_of_this_one_is_given() -> None:
    async def story() -> None:
        blocks = Blocks()
        async with trio.open_nursery() as nursery:
            ids = ProducerIds(
                Controller(blocks), NodeId(1), lambda: BrokerEpoch(1), nursery.start_soon
            )
            assert ids.next_nowait() is None
            assert [await ids.next() for _ in range(8)] == list(range(100, 108))
            await trio.sleep(1)
            assert blocks.count == 1
            assert await ids.next() == 108
            await trio.sleep(1)
            assert blocks.count == 2
            assert [ids.next_nowait() for _ in range(3)] == [109, 200, 201]

    run(story)


def test_a_producer_is_told_to_come_again_while_there_are_no_ids() -> None:
    async def story() -> None:
        blocks = Blocks()
        blocks.is_there = False
        ids = ProducerIds(Controller(blocks), NodeId(1), lambda: BrokerEpoch(1))
        with pytest.raises(KafkaError) as raised:
            await ids.next()
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        blocks.is_there = True
        assert await ids.next() == 100

    run(story)


def test_a_producer_does_not_wait_for_ever_for_a_controller_that_is_silent() -> None:
    async def story() -> None:
        ids = ProducerIds(Silent(lambda _: None), NodeId(1), lambda: BrokerEpoch(1))
        with pytest.raises(KafkaError) as raised:
            await ids.next()
        assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert run(story) == pytest.approx(5)
