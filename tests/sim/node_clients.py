"""Plays the clients of a simulated node.

They are producers, members of a group, readers by hand, and administrators.

Each client decides what it asks for, and writes down what it asked and what it was told. Clients
know neither faults nor rules. A client that is cancelled has died; its run starts another one under
a new name.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import trio

from log_service.client import (
    Admin,
    ConfigResource,
    Consumer,
    ItemsFailed,
    NewTopic,
    OffsetSpec,
    Producer,
    read_range,
)
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.record import Record
from tests.sim.node_history import (
    Alter,
    Commit,
    Committed,
    Create,
    CreatePartitions,
    Delete,
    DeleteRecords,
    Described,
    Final,
    History,
    Operation,
    Poll,
    Positioned,
    SeenRecord,
    Send,
)
from tests.sim.node_passing import write_some
from tests.sim.node_plan import Plan
from tests.sim.node_responses import LONGEST_REBALANCE_MS
from tests.sim.world import World

GROUP, AUTOMATIC_GROUP = "group", "automatic"
TIMEOUTS: dict[str, Any] = {
    "request_timeout_ms": 5_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "socket_connection_setup_timeout_ms": 3_000,
}
DELIVERY_TIMEOUT_MS = 40_000
REST_SECONDS = 10.0
"""After which a client that rests looks whether all is over."""
PATIENT_WAIT_MS = 4_000
"""How long fetches and polls of a run of hours wait, below the timeout of a request."""
NAME = "name"
KEYS = tuple(b"key %d" % number for number in range(7))
"""Of compacted topics: few, so that most records have a later one."""
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""A topic that does not exist."""


class Clients:
    """The cast of one run, at the cluster ``bootstrap``. ``is_over`` ends the sending,
    ``is_drained`` the reading.

    ``place`` ends the names of the clients' machines, where the world has other clusters with
    clients of their own.
    """

    def __init__(
        self, world: World, plan: Plan, history: History, bootstrap: str, *, place: str = ""
    ) -> None:
        self.world = world
        self.bootstrap = bootstrap
        self.place = place
        self.plan = plan
        self.history = history
        self.is_over = False
        self.is_drained = False
        self.partitions = [
            TopicPartition(topic.name, index)
            for topic in plan.topics
            for index in range(topic.partition_count)
        ]
        self.group_positions: dict[TopicPartition, int] = {}
        self.automatic_positions: dict[TopicPartition, int] = {}

    def env(self, name: str) -> Env:
        """Return the world of the client ``name``.

        All its lives are on one machine.
        """
        return self.world.client_env(self.machine_of(name))

    def machine_of(self, name: str) -> str:
        """Return the machine of all lives of a client.

        It is ``worker-0`` for ``worker-0.1`` and ``worker-0.1/2``.
        """
        return f"{name.partition('.')[0].partition('/')[0]}{self.place}"

    def settings(self, _env: Env) -> dict[str, Any]:
        """Return the settings of every client."""
        return TIMEOUTS

    async def rest(self, seconds: float) -> None:
        """Do nothing for so many seconds, and ``pace`` times as long in a longer run.

        It ends early when all is over.
        """
        if self.plan.pace == 1:
            await trio.sleep(seconds)
            return
        until = trio.current_time() + seconds * self.plan.pace
        while (left := until - trio.current_time()) > 0 and not self.is_over:  # noqa: ASYNC110 - the run sets it
            await trio.sleep(min(left, REST_SECONDS))

    # Sending

    async def produce(self, name: str) -> None:
        """Send records of many sizes to all partitions until it is over, then deliver what waits."""
        env = self.env(name)
        rng = env.rng
        numbers: dict[TopicPartition, int] = {}
        settings = self.settings(env) | self._producer_settings(rng)
        async with Producer(self.bootstrap, env=env, **settings) as producer:
            while not self.is_over:
                for _ in range(rng.randint(1, 8)):
                    await self._send(producer, name, rng.choice(self.partitions), numbers, rng)
                await self.rest(rng.expovariate(self.plan.records_per_second / 4))

    def _producer_settings(self, rng: Random) -> dict[str, Any]:
        return {
            "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
            "max_block_ms": 10_000,
            "linger_ms": rng.choice([0, 5, 100]),
            # A larger one is refused, and rightly.
            "batch_size": min(
                rng.choice([0, 300, 16_384]), self.plan.nodes[0].config.log.segment_bytes
            ),
            "max_in_flight_requests_per_connection": rng.choice([1, 2, 5]),
            "compression": rng.choice(["none", "none", "gzip", "snappy", "lz4", "zstd"]),
            **rng.choice([{}, {}, {}, {"enable_idempotence": False, "acks": "1"}]),
        }

    async def _send(
        self,
        producer: Producer,
        name: str,
        partition: TopicPartition,
        numbers: dict[TopicPartition, int],
        rng: Random,
    ) -> None:
        number = numbers[partition] = numbers.get(partition, 0) + 1
        value = f"{name}:{partition}:{number}"
        is_idempotent, now_ms = producer.config.enable_idempotence, producer.wall_ms()
        send = Send(
            producer=name,
            partition=partition,
            number=number,
            value=value,
            timestamp_ms=now_ms,
            is_idempotent=is_idempotent,
        )
        send.is_acked_by_all = producer.config.acks == "all"
        send.key, send.is_tombstone = self._draw_key(partition, rng)
        self.history.add(send)

        def settled(metadata: object, error: KafkaError | None) -> None:
            send.offset = getattr(metadata, "offset", -1)
            self.history.end(send, error)

        try:
            content: dict[str, Any] = (
                {"value": None, "headers": [(NAME, value.encode())]}
                if send.is_tombstone
                else {"value": value.encode()}
            )
            await producer.send(
                partition.topic,
                key=send.key,
                partition=partition.partition,
                on_delivery=settled,
                **content,
            )
        except KafkaError as error:
            self.history.end(send, error)

    def _draw_key(self, partition: TopicPartition, rng: Random) -> tuple[bytes | None, bool]:
        """Return (key, whether the record is a tombstone)."""
        if not self.history.topics[partition.topic].is_compacted:
            return rng.choice([None, b"key", bytes(300)]), False
        return rng.choice(KEYS), rng.random() < 0.15

    # Reading

    async def join(self, name: str) -> None:
        """Read all topics as a member of the group, and commit, until everything was read.

        A power loss may take the group back to an earlier life of a static member, if the group's
        log is not synced: the member that is fenced then comes back as another, as its owner would
        start it again.
        """
        while await self._belong(name):
            name = f"{name}.again"

    async def _belong(self, name: str) -> bool:
        """Live as one member; say whether it was fenced."""
        env = self.env(name)
        rng = env.rng
        instance_id = name.partition(".")[0] if self.plan.are_members_static else None
        async with self.member(
            env, group_id=GROUP, group_instance_id=instance_id, enable_auto_commit=False
        ) as consumer:
            await self.subscribe(consumer, name)
            while not self.is_drained:
                try:
                    await self.poll(consumer, name, GROUP, rng)
                    if rng.random() < 0.7 or self.is_over:
                        await self.commit(consumer)
                except KafkaError as error:
                    self.world.log(name, "poll", error)
                    if (
                        error.code is ErrorCode.FENCED_INSTANCE_ID
                        and not self.plan.are_offsets_synced
                    ):
                        return True
                    await trio.sleep(0.2)
        return False

    async def join_automatically(self, name: str) -> None:
        """Read all topics as a member of a group that leaves commits to the client, until
        everything was read.
        """
        env = self.env(name)
        async with self.member(
            env, group_id=AUTOMATIC_GROUP, auto_commit_interval_ms=700
        ) as consumer:
            await self.subscribe(consumer, name)
            while not self.is_drained:
                try:
                    await self.poll(consumer, name, AUTOMATIC_GROUP, env.rng)
                    self.automatic_positions.update(
                        {each: await consumer.position(each) for each in consumer.assignment}
                    )
                except KafkaError as error:
                    self.world.log(name, "poll", error)
                    await trio.sleep(0.2)

    def member(self, env: Env, **settings: Any) -> Consumer:
        return self._consumer(
            env,
            partition_assignment_strategy=self.plan.assignors,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=LONGEST_REBALANCE_MS,
            **settings,
        )

    async def subscribe(self, consumer: Consumer, name: str) -> None:
        def assigned(partitions: Sequence[TopicPartition]) -> None:
            for partition in partitions:
                self.history.add(Positioned(consumer=name, partition=partition))

        await consumer.subscribe([topic.name for topic in self.plan.topics], on_assigned=assigned)

    async def read(self, name: str) -> None:
        """Read one topic by hand, from its beginning, again and again."""
        env = self.env(name)
        rng = env.rng
        topic = rng.choice(self.plan.topics).name
        mine = [partition for partition in self.partitions if partition.topic == topic]
        async with self._consumer(env) as consumer:
            consumer.assign(mine)
            while not self.is_over:
                try:
                    await self.poll(consumer, name, "", rng)
                    if rng.random() < 0.1:
                        partition = rng.choice(mine)
                        self.history.add(Positioned(consumer=name, partition=partition))
                        await consumer.seek_to_beginning([partition])
                except KafkaError as error:
                    self.world.log(name, "poll", error)
                    await trio.sleep(0.2)

    def _consumer(self, env: Env, **settings: Any) -> Consumer:
        choices: list[dict[str, Any]] = [
            {},
            {},
            {"max_partition_fetch_bytes": 200},
            {"fetch_max_bytes": 500},
            {"fetch_min_bytes": 2_000},
        ]
        sizes = env.rng.choice(choices)
        wait_ms = 300 if self.plan.pace == 1 else PATIENT_WAIT_MS
        everyone = {
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": wait_ms,
            **self.settings(env),
        }
        return Consumer(self.bootstrap, env=env, **everyone, **sizes, **settings)

    async def poll(self, consumer: Consumer, name: str, group: str, rng: Random) -> None:
        wait_ms = 500 if self.plan.pace == 1 else PATIENT_WAIT_MS
        records = await consumer.poll(max_records=rng.choice([1, 20, 500]), timeout_ms=wait_ms)
        for partition, seen in by_partition(records).items():
            self.history.add(Poll(consumer=name, group=group, partition=partition, records=seen))
        await trio.sleep(rng.choice([0, 0, 0.05]))

    async def commit(self, consumer: Consumer) -> None:
        """Commit what was polled, each partition noted."""
        positions = {}
        for partition in consumer.assignment:
            state = consumer._subscriptions.of(partition)
            if state.has_position and state.position > 0:
                positions[partition] = state.position
        commits = [
            Commit(group=GROUP, partition=partition, offset=offset)
            for partition, offset in positions.items()
        ]
        await self.note(commits, lambda: consumer.commit(positions))
        self.group_positions.update(positions)

    async def note(
        self, operations: Sequence[Operation], act: Callable[[], Awaitable[object]]
    ) -> None:
        """Do what all the operations together are, and note how it went; a KafkaError goes on to
        the caller.
        """
        for operation in operations:
            self.history.add(operation)
        try:
            await act()
        except KafkaError as error:
            for operation in operations:
                self.history.end(operation, error)
            raise
        for operation in operations:
            self.history.end(operation)

    # Administering

    async def watch_commits(self, name: str) -> None:
        """Ask again and again what the group has committed."""
        env = self.env(name)
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            while not self.is_drained:
                await self.ask_commits(admin)
                await self.rest(env.rng.uniform(0.5, 4))

    async def ask_commits(self, admin: Admin) -> None:
        """Note what the group is said to have committed."""
        told = [Committed(group=GROUP, partition=partition) for partition in self.partitions]
        for each in told:
            self.history.add(each)
        try:
            offsets = await admin.list_group_offsets(GROUP, timeout_ms=10_000)
        except KafkaError as error:
            for each in told:
                self.history.end(each, error)
            return
        for each in told:
            if each.partition in offsets:
                each.offset = offsets[each.partition].offset
            self.history.end(each)

    async def trim(self, name: str) -> None:
        """Delete records of the topics where that is planned, and have retention applied."""
        env = self.env(name)
        cut = [partition for partition in self.partitions if partition.topic == "cut"]
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            while not self.is_over:
                await self.rest(env.rng.uniform(0.5, 6))
                try:
                    for partition in cut:
                        await self._cut(admin, partition, env.rng)
                    await admin.apply_retention(timeout_ms=8_000)
                except KafkaError as error:
                    self.world.log(name, error)

    async def _cut(self, admin: Admin, partition: TopicPartition, rng: Random) -> None:
        latest = await admin.list_offsets({partition: OffsetSpec.latest()}, timeout_ms=8_000)
        before = rng.randint(0, latest[partition].offset)
        delete = DeleteRecords(partition=partition, before=before)
        await self.note(
            [delete], lambda: admin.delete_records({partition: before}, timeout_ms=8_000)
        )

    async def churn(self, name: str) -> None:
        """Create one topic of its own, add partitions, change, describe and delete it."""
        env, count = self.env(name), 1
        rng = env.rng
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            while not self.is_over:
                try:
                    count = await self._change(admin, name, count, rng)
                    if self.plan.are_churned_written:
                        await write_some(env, self.bootstrap, name, **self.settings(env))
                except KafkaError as error:
                    self.world.log(name, error)
                await self.describe(admin, name)
                await self.rest(rng.uniform(0.1, 2))

    async def _change(self, admin: Admin, name: str, count: int, rng: Random) -> int:
        retention_ms = str(rng.randint(10**8, 10**9))
        operation: Create | CreatePartitions | Alter | Delete
        match rng.choice(["create", "create", "add", "alter", "delete"]):
            case "create":
                await self.create(
                    admin, Create(topic=name, partition_count=1, retention_ms=retention_ms)
                )
                return 1
            case "add":
                operation = CreatePartitions(topic=name, partition_count=count + 1)
                await self.note(
                    [operation],
                    lambda: admin.create_partitions({name: count + 1}, timeout_ms=8_000),
                )
                return count + 1
            case "alter":
                operation = Alter(topic=name, retention_ms=retention_ms)
                change = {ConfigResource.topic(name): {"retention.ms": retention_ms}}
                await self.note([operation], lambda: admin.alter_configs(change, timeout_ms=8_000))
            case _:
                operation = Delete(topic=name)
                await self.note([operation], lambda: admin.delete_topics([name], timeout_ms=8_000))
        return count

    async def create(self, admin: Admin, create: Create) -> None:
        async def act() -> None:
            configs = {"retention.ms": create.retention_ms}
            topic = NewTopic(
                name=create.topic, partition_count=create.partition_count, configs=configs
            )
            create.topic_id = str(
                (await admin.create_topics([topic], timeout_ms=8_000))[create.topic]
            )

        await self.note([create], act)

    async def describe(self, admin: Admin, name: str) -> None:
        """Note what a topic is said to be."""
        described = self.history.add(Described(topic=name))
        resource = ConfigResource.topic(name)
        try:
            topic = (await admin.describe_topics([name], timeout_ms=8_000))[name]
            configs = await admin.describe_configs([resource], timeout_ms=8_000)
        except KafkaError as error:
            self.history.end(described, None if error.code in GONE else error)
        else:
            described.topic_id, described.partition_count = (
                str(topic.topic_id),
                topic.partition_count,
            )
            described.retention_ms = configs[resource]["retention.ms"].value or ""
            self.history.end(described)

    # Beginning and end

    async def create_topics(self) -> None:
        """Create the topics of the plan."""
        env = self.env("admin")
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            topics = [
                NewTopic(
                    name=topic.name,
                    partition_count=topic.partition_count,
                    replication_factor=topic.replication_factor,
                    configs=topic.configs,
                )
                for topic in self.plan.topics
            ]
            try:
                await admin.create_topics(topics)
            except ItemsFailed as failed:  # a response was lost, and the request was sent again
                self.world.log("create", failed)
                if {error.code for error in failed.errors.values()} != {
                    ErrorCode.TOPIC_ALREADY_EXISTS
                }:
                    raise

    async def end_trimming(self) -> None:
        """Keep what is left, so that the final read is of one log."""
        kept = {"retention.ms": "-1", "retention.bytes": "-1"}
        env = self.env("admin")
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            await admin.alter_configs(
                {
                    ConfigResource.topic(topic.name): kept
                    for topic in self.plan.topics
                    if topic.is_trimmed
                }
            )

    async def ends(self) -> dict[TopicPartition, tuple[int, int]]:
        """Log start and high watermark of every partition."""
        names = [topic.name for topic in self.plan.topics]
        env = self.env("ends")
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            found = await admin.describe_offsets(names)
        return {
            partition: (offsets.log_start_offset, offsets.high_watermark)
            for partition, offsets in found.items()
        }

    async def read_to_the_end(self) -> None:
        """Read every partition from start to end, once everything is calm."""
        for partition, (start, end) in sorted((await self.ends()).items()):
            async with self._final_consumer() as consumer:
                consumer.assign([partition])
                await consumer.seek(partition, start)
                records: list[ConsumerRecord] = []
                while await consumer.position(partition) < end:
                    records += await consumer.poll(timeout_ms=1_000)
            seen = by_partition(records).get(partition, [])
            self.history.add(
                Final(partition=partition, log_start_offset=start, high_watermark=end, records=seen)
            )
            await self._read_range(partition, start, end)

    def _final_consumer(self) -> Consumer:
        return self._consumer(self.env("final"))

    async def _read_range(self, partition: TopicPartition, start: int, end: int) -> None:
        """Read the same once more, as an exact range of offsets."""
        seen: list[SeenRecord] = []
        env = self.env("range")
        async with Admin(self.bootstrap, env=env, **self.settings(env)) as admin:
            async for batches in read_range(admin, partition, start, end):
                for position, header in iterate_headers(batches.batches):
                    epoch = header.partition_leader_epoch
                    records = iterate_records(batches.batches, position)
                    seen += [
                        SeenRecord(record.offset, epoch, name_of(record)) for record in records
                    ]
        inside = [record for record in seen if start <= record.offset < end]
        self.history.add(
            Final(partition=partition, log_start_offset=start, high_watermark=end, records=inside)
        )


def name_of(record: ConsumerRecord | Record) -> str:
    """The name of a record, which a tombstone carries in a header."""
    if record.value is not None:
        return record.value.decode()
    return next(((value or b"").decode() for key, value in record.headers if key == NAME), "")


def by_partition(records: list[ConsumerRecord]) -> dict[TopicPartition, list[SeenRecord]]:
    """Group what a poll returned."""
    found: dict[TopicPartition, list[SeenRecord]] = {}
    for record in records:
        found.setdefault(record.topic_partition, []).append(
            SeenRecord(record.offset, record.leader_epoch, name_of(record))
        )
    return found
