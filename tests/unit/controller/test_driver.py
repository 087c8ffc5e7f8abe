"""The controller over its log: responses wait for the disk, and a restart knows all that was told."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.timers import TimerQueue
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId
from log_service.controller.driver import ControllerDriver
from log_service.controller.rules.table import ControllerConfig
from log_service.metadata.features import SUPPORTED_FEATURES as FEATURES
from log_service.metadata.image import MetadataImage
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.snapshot import snapshot_records
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
    Feature,
    Listener,
)
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.raft.driver import RaftDriver
from log_service.raft.format import read_bootstrap_records
from tests.unit.controller.context import new_topic
from tests.unit.raft.node import DIRECTORY, NODE, Machine, until_committed

OTHER = NodeId(2)


class Process:
    """One process of the node: its log, its loader, its controller, its broker."""

    def __init__(self, machine: Machine) -> None:
        identity = machine.format()
        self.machine = machine
        self.node_id = NODE
        self.cluster_id = identity.cluster_id
        self.log_dirs = tuple(identity.directory_ids.values())
        self.env = machine.env()
        self.timers = TimerQueue()
        self.raft = RaftDriver(self.env, DIRECTORY, node_id=NODE, config=machine.config)
        self.loader = MetadataLoader()
        self.raft.subscribe(self.loader)
        config = ControllerConfig(node_id=NODE, cluster_id=self.cluster_id)
        self.controller = ControllerDriver(
            self.env,
            self.raft,
            self.timers,
            config,
            image=lambda: self.loader.image,
            bootstrap=read_bootstrap_records(machine.files, DIRECTORY),
        )
        self.broker_epoch = BrokerEpoch(-1)

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    async def register(self) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=UUID(int=self.env.rng.getrandbits(128)),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
            log_dirs=list(self.log_dirs),
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURES.items()
            ],
            rack=None,
        )
        response = await self.controller.request(request, BrokerRegistrationResponse)
        self.broker_epoch = BrokerEpoch(response.broker_epoch)

    async def beat(self, **wants: Any) -> bool:
        request = BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.image.offset,
            **wants,
        )
        return (await self.controller.request(request, BrokerHeartbeatResponse)).is_fenced

    async def join_another(self) -> None:
        """From now on speak for a broker of another node, which has only this controller."""
        self.node_id, self.log_dirs = OTHER, (UUID(int=502),)
        await self.register()
        assert await self.beat() is False

    async def fire_due(self) -> None:
        """Fire the node's timers, and wait until what they wrote is committed."""
        self.timers.fire_due(self.env.clock.monotonic_ms())
        await until_committed(self.raft, self.raft.log_end_offset)

    async def next_producer_id(self, node_id: NodeId = NODE) -> int:
        request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=self.broker_epoch)
        return (
            await self.controller.request(request, AllocateProducerIdsResponse)
        ).producer_id_start

    async def create(
        self, name: str, partitions: int = 1, *, timeout_ms: int = 60_000
    ) -> ErrorCode:
        response = await self.controller.request(
            CreateTopicsRequest(topics=[new_topic(name, partitions, 1)], timeout_ms=timeout_ms),
            CreateTopicsResponse,
        )
        return ErrorCode(response.topics[0].error_code)


@asynccontextmanager
async def started(machine: Machine) -> AsyncIterator[Process]:
    """A process that serves; leaving the block kills it."""
    process = Process(machine)
    await process.raft.open()
    async with trio.open_nursery() as nursery:
        await nursery.start(process.raft.run, lambda: snapshot_records(process.image))
        await process.register()
        assert await process.beat() is False
        yield process
        nursery.cancel_scope.cancel()


def run(main: object) -> None:
    trio.run(main, clock=MockClock(autojump_threshold=0))  # type: ignore[arg-type]


def without_position(image: MetadataImage) -> tuple[object, ...]:
    return image.topics, image.configs, image.next_producer_id, image.features


def test_a_response_waits_until_its_records_are_durable() -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            process.machine.files.sync_seconds = (3.0, 3.0)
            started_s = trio.current_time()
            assert await process.create("orders") is ErrorCode.NONE
            assert trio.current_time() - started_s >= 3
            assert "orders" in process.image.topics.by_name

    run(main)


def test_a_decision_sees_what_was_decided_before_it_was_durable() -> None:
    async def main() -> None:
        codes: list[ErrorCode] = []
        async with started(Machine()) as process:
            process.machine.files.sync_seconds = (3.0, 3.0)

            async def create() -> None:
                codes.append(await process.create("orders"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(create)
                nursery.start_soon(create)
        assert sorted(codes) == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]

    run(main)


def test_a_killed_node_knows_everything_that_it_told() -> None:
    async def main() -> None:
        machine = Machine()
        async with started(machine) as process:
            await process.create("orders", 3)
            await process.create("planes")
            changes = [AlterableConfig(name="retention.ms", config_operation=0, value="5")]
            resource = AlterConfigsResource(
                resource_type=2, resource_name="orders", configs=changes
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])
            await process.controller.request(request, IncrementalAlterConfigsResponse)
            await process.controller.request(
                CreatePartitionsRequest(
                    topics=[CreatePartitionsTopic(name="planes", count=2)], timeout_ms=1_000
                ),
                CreatePartitionsResponse,
            )
            await process.next_producer_id()
            await process.create("gone")
            await process.controller.request(
                DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1_000), DeleteTopicsResponse
            )
            before = process.image
        machine.files.crash()
        second = Process(machine)
        await second.raft.open()
        assert without_position(second.image) == without_position(before)
        assert second.image.cluster.brokers == before.cluster.brokers

    run(main)


def test_after_a_kill_partitions_are_led_in_epochs_that_were_never_written_into() -> None:
    async def main() -> None:
        machine = Machine()
        seen = {-1}
        async with started(machine) as process:
            await process.create("orders")
        for _ in range(3):
            machine.files.crash()
            async with started(machine) as process:
                partition = process.image.topics.by_name["orders"].partitions[0]
                assert partition.leader == 1
                assert partition.leader_epoch > max(seen)
                seen.add(partition.leader_epoch)

    run(main)


def test_a_restart_from_a_snapshot_knows_the_same() -> None:
    async def main() -> None:
        machine = Machine()
        async with started(machine) as process:
            for number in range(5):
                await process.create(f"topic{number}", 2)
            await process.raft.write_snapshot(snapshot_records(process.image))
            await process.create("later")
            before = process.image
        machine.files.crash()
        second = Process(machine)
        await second.raft.open()
        assert without_position(second.image) == without_position(before)

    run(main)


def test_producer_ids_go_on_after_a_restart() -> None:
    async def main() -> None:
        machine = Machine()
        firsts = []
        for _ in range(3):
            async with started(machine) as process:
                firsts.append(await process.next_producer_id())
            machine.files.crash()
        assert firsts == [0, 1000, 2000]

    run(main)


def test_a_disk_that_fails_tells_no_caller_and_stops_the_node() -> None:
    async def main() -> None:
        machine = Machine()
        responses: list[ErrorCode] = []
        with pytest.RaisesGroup(StorageError):
            async with started(machine) as process:
                machine.files.fail_next("sync")
                responses.append(await process.create("orders"))
        assert responses == []

    run(main)


def test_a_full_disk_is_told_to_the_caller_and_nothing_changes() -> None:
    async def main() -> None:
        machine = Machine()
        async with started(machine) as process:
            machine.files.fail_next("append", error=errno.ENOSPC)
            with pytest.raises(KafkaError) as raised:
                await process.create("orders")
            assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert await process.create("orders") is ErrorCode.NONE

    run(main)


def test_a_request_gives_up_waiting_at_its_own_deadline() -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            process.machine.files.sync_seconds = (60.0, 60.0)
            with pytest.raises(KafkaError) as raised:
                await process.create("orders", timeout_ms=500)
            assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
            assert (
                await process.create("orders", timeout_ms=300_000) is ErrorCode.TOPIC_ALREADY_EXISTS
            )

    run(main)


def test_a_silent_broker_is_fenced_by_the_nodes_timers_and_the_log_of_a_sole_voter_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "log_service.controller")

    async def main() -> None:
        async with started(Machine()) as process:
            await process.join_another()
            await trio.sleep(9)
            await process.fire_due()
            assert process.image.cluster.brokers[OTHER].is_fenced
            assert not process.image.cluster.brokers[NODE].is_fenced
            assert await process.beat() is False

    run(main)
    assert caplog.messages == [
        "Broker 2 serves",
        "Broker 2 is fenced: others lead its partitions",
        "Broker 2 serves",
    ]


def test_a_stalled_controller_says_so_once_and_fences_nobody_in_that_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            await process.join_another()
            await trio.sleep(15)
            await process.fire_due()
            assert not process.image.cluster.brokers[OTHER].is_fenced
            await trio.sleep(2)
            await process.fire_due()
            assert process.image.cluster.brokers[OTHER].is_fenced

    run(main)
    (told,) = caplog.messages
    assert (
        told
        == "This controller was stalled: a session was due 6000 ms ago; it reads heartbeats for 2000 ms before it fences a broker"
    )


def test_fencing_is_tried_again_when_the_disk_was_full() -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            await process.join_another()
            process.machine.files.fail_next("append", error=errno.ENOSPC)
            await trio.sleep(9)
            await process.fire_due()
            assert not process.image.cluster.brokers[OTHER].is_fenced
            await trio.sleep(1)
            await process.fire_due()
            assert process.image.cluster.brokers[OTHER].is_fenced

    run(main)


def test_a_controller_that_does_not_lead_says_so() -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            process.controller.resign()
            with pytest.raises(KafkaError) as raised:
                await process.create("orders")
            assert raised.value.code is ErrorCode.NOT_CONTROLLER
            assert len(process.timers) == 0

    run(main)


def test_a_refused_request_leaves_the_controller_as_it_was() -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            end_offset = process.raft.log_end_offset
            with pytest.raises(KafkaError):
                await process.next_producer_id(NodeId(9))
            assert process.raft.log_end_offset == end_offset

    run(main)


def test_a_broker_that_leads_very_many_partitions_is_fenced_in_several_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("log_service.controller.driver.MAX_RECORDS_PER_BATCH", 10)

    async def main() -> None:
        machine = Machine()
        async with started(machine) as process:
            assert await process.create("orders", 45) is ErrorCode.NONE
            await process.beat(want_shut_down=True)
            assert {
                partition.leader
                for partition in process.image.topics.by_name["orders"].partitions.values()
            } == {-1}
        async with started(machine) as process:
            assert {
                partition.leader
                for partition in process.image.topics.by_name["orders"].partitions.values()
            } == {1}

    run(main)


def registration(process: Process, node_id: int, incarnation: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=process.cluster_id,
        incarnation_id=UUID(int=incarnation),
        log_dirs=[UUID(int=500 + node_id)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in FEATURES.items()
        ],
        rack=None,
    )


def test_a_registration_that_the_log_refuses_begins_no_session() -> None:
    """A broker has a session once its record is appended.

    A refused registration must not keep another process out.
    """

    async def main() -> None:
        async with started(Machine()) as process:
            await process.controller.request(
                registration(process, 2, 1), BrokerRegistrationResponse
            )
            await trio.sleep(9)
            process.timers.fire_due(process.env.clock.monotonic_ms())
            process.machine.files.fail_next("append", error=errno.ENOSPC)
            with pytest.raises(KafkaError) as raised:
                await process.controller.request(
                    registration(process, 2, 2), BrokerRegistrationResponse
                )
            assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            await process.controller.request(
                registration(process, 2, 3), BrokerRegistrationResponse
            )

    run(main)


def test_requests_end_with_the_epoch_that_they_were_decided_in() -> None:
    async def main() -> None:
        async with started(Machine()) as process:
            process.machine.files.sync_seconds = (60.0, 60.0)
            codes: list[ErrorCode] = []

            async def create(name: str) -> None:
                with pytest.raises(KafkaError) as raised:
                    await process.create(name)
                codes.append(raised.value.code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(create, "orders")
                nursery.start_soon(create, "planes")
                await trio.sleep(1)
                process.controller.on_leader_change(NodeId(2), LeaderEpoch(process.raft.epoch + 1))
            assert codes == [ErrorCode.NOT_CONTROLLER] * 2
            assert not process.controller.is_active

    run(main)
