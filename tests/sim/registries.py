"""Plays registries over one topic in the virtual world. Instances are killed, paused and cut off
while clients change schemas.

Decides what goes wrong and when, drawn from the seed. A broker runs beside them, and is killed,
too. Each instance is the product's own code: reader, writer, election, decisions and endpoints.
Only its threads are missing, because virtual time has none, and the forwarding over HTTP. A client
asks each instance itself. ``registry_checker`` judges what clients were told and what was written.
"""

import json
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import trio

from log_service.client import Admin, NewTopic
from log_service.common.errors import KafkaError
from log_service.http.schema_registry.api.routes import registry_service
from log_service.http.schema_registry.election.elector import ElectionSettings, Elector
from log_service.http.schema_registry.election.protocol import RegistryInstance
from log_service.http.schema_registry.log.errors import SchemasLogError
from log_service.http.schema_registry.log.reader import LogRecord, SchemasReader
from log_service.http.schema_registry.log.schemas_log import LogSettings, SchemasLog
from log_service.http.schema_registry.log.writer import KeyAndValue
from log_service.http.schema_registry.records import noop_record
from log_service.http.schema_registry.registry import Registry, RegistryIdentity
from log_service.http.schema_registry.state_keeper import StateKeeper, TopicRecord
from log_service.http.schema_registry.values import (
    DEFAULT_SETTINGS,
    CompatibilityLevel,
    Settings,
)
from log_service.http.schema_registry.writer_role import WriterRole
from log_service.http.server.metrics import HttpMeter
from log_service.http.server.values import HttpRequest
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.sim.pauses import HOST
from tests.sim.registry_checker import Registered, RegistryHistory, Written, violations

T = TypeVar("T")

TOPIC = "_schemas"
BROKER = host_of(1)
SERVERS = f"{BROKER}:{BROKER_PORT}"
PATIENT = {"request_timeout_ms": 5_000}
SESSION_MS = 6_000
LASTING = ("a", "b", ":.other:a")
"""Subjects of which nothing is deleted. Those of two contexts have ids of their own."""
ROLLED_AFTER_S = 4
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": str(ROLLED_AFTER_S * 1_000),
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "1000",
}
"""The topic is compacted all the time, so that what is written once must be remembered."""
PROPERTIES = {
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "1",
    "log_cleaner_backoff_ms": "1000",
}
REPLY_S = 8
"""So long a client waits for a response. Then it does not know what became of its request."""


class InlineKeeper(StateKeeper):
    """Keeps the state without threads, and counts its records."""

    def __init__(self, defaults: Settings = DEFAULT_SETTINGS) -> None:
        super().__init__(defaults)
        self.applied_count = 0

    def apply(self, record: TopicRecord) -> None:
        """Take the next record."""
        self.applied_count += 1
        super().apply(record)

    async def read_elsewhere(self, read: Callable[[], T]) -> T:
        """Run a computation here."""
        await self.settled()
        await trio.lowlevel.checkpoint()
        return read()


class NotingLog(SchemasLog):
    """Notes the offsets of an instance's batches. Before each write the instance may stumble."""

    def __init__(self, instance: "Instance", *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._instance = instance

    async def write(self, records: "list[KeyAndValue]", timeout_ms: int) -> int:  # type: ignore[override]
        """Append a batch."""
        await self._instance.stumble()
        offset = await super().write(records, timeout_ms)
        written = Written(offset=offset, writer=self._instance.host)
        self._instance.play.history.written.append(written)
        return offset


@dataclass(slots=True, eq=False)
class Question:
    """A request to an instance, and its answer once it is there."""

    method: str
    path: str
    body: Any = None
    status: int = 0
    answer: Any = None
    answered: trio.Event = field(default_factory=trio.Event)


class Instance:
    """One process of a registry, from its start to its death."""

    def __init__(self, play: "Play", machine: str, number: int) -> None:
        self.play = play
        self.machine = machine
        self.host = f"{machine}-{number}"
        self.is_alive = True
        self.registry: Registry | None = None
        self.scope = trio.CancelScope()
        self._send, self._questions = trio.open_memory_channel[Question](100)

    def __repr__(self) -> str:
        return f"<Instance {self.host} is_alive={self.is_alive}>"

    @property
    def is_writer(self) -> bool:
        """Whether it believes that it writes."""
        return self.is_alive and self.registry is not None and self.registry.is_writer

    async def ask(self, method: str, path: str, body: Any = None) -> Question:
        """Send a request. Without an answer in time its status stays 0."""
        question = Question(method, path, body)
        if self.is_alive:
            self._send.send_nowait(question)
            with trio.move_on_after(REPLY_S):
                await question.answered.wait()
        return question

    async def run(self) -> None:
        """Live until the scope is cancelled."""
        HOST.set(self.host)
        env = self.play.world.client_env(self.host)
        with self.scope:
            while True:
                try:
                    async with (
                        Admin(SERVERS, env=env, **PATIENT) as admin,
                        Admin(SERVERS, env=env, **PATIENT) as group_client,
                    ):
                        await self._work(admin, group_client)
                except* KafkaError:  # the broker is away at the beginning: a person starts it again
                    await trio.sleep(1)

    async def _work(self, admin: Admin, group_client: Admin) -> None:
        keeper = InlineKeeper(Settings(compatibility_level=CompatibilityLevel.NONE))
        settings = LogSettings(bootstrap_servers=SERVERS, topic=TOPIC, client=PATIENT)
        first_value = partial(self._first_value, keeper)
        env = admin.cluster.env
        log = NotingLog(self, settings, admin, keeper, env, first_value=first_value)
        registry = Registry(keeper, log, RegistryIdentity(cluster_id="c", group="g"))
        url = RegistryInstance(scheme="http", host=self.machine, port=8081)
        elector = Elector(_election(url), group_client)
        role = WriterRole(elector, log, registry)
        async with trio.open_nursery() as nursery:
            await nursery.start(log.run)
            nursery.start_soon(elector.run)
            nursery.start_soon(role.run, trio.lowlevel.checkpoint)
            nursery.start_soon(self._load, log, registry)
            self.registry = registry
            await self._serve(registry, nursery)

    def _first_value(self, keeper: StateKeeper) -> bytes:
        """Return what the product writes first, with the writer's name."""
        ids = json.loads(noop_record(keeper.state.highest_ids).value or b"{}")
        return json.dumps(ids | {"writer": self.host}).encode()

    async def _load(self, log: SchemasLog, registry: Registry) -> None:
        while not registry.is_loaded:
            try:
                await log.read_to_end(60_000)
                registry.note_loaded()
            except SchemasLogError:
                await trio.sleep(0.1)

    async def _serve(self, registry: Registry, nursery: trio.Nursery) -> None:
        service = registry_service(registry, None, HttpMeter(self.play.world.clocks[self.host]))

        async def answer(question: Question) -> None:
            route, values = service.router.find(question.method, question.path.partition("?")[0])
            query = [pair.split("=") for pair in question.path.partition("?")[2].split("&") if pair]
            request = HttpRequest(
                method=question.method,
                path=question.path,
                query=tuple((name, value) for name, value in query),
                headers={},
                body=b"" if question.body is None else json.dumps(question.body).encode(),
                path_values=values,
                principal="User:ann",
                peer="192.0.2.1",
            )
            response = await route.handler(request)
            assert isinstance(response.body, bytes)
            question.status, question.answer = response.status, json.loads(response.body)
            question.answered.set()

        async for question in self._questions:
            nursery.start_soon(answer, question)

    async def stumble(self) -> None:
        """Be paused or cut off between a decision and its write, for longer than a session.

        A paused instance most often lets go of its role before it sends the batch. One that is cut
        off has sent it, and it arrives when another instance writes.
        """
        play, rng = self.play, self.play.rng
        if play.is_rough and rng.random() < play.stumble_part:
            seconds = rng.uniform(1.5, 3) * SESSION_MS / 1_000
            (play.cut_off if rng.random() < 0.7 else play.pause)(self, seconds)
            await trio.lowlevel.checkpoint()


def _election(url: RegistryInstance) -> ElectionSettings:
    return ElectionSettings(
        instance=url,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS * 3 // 10,
    )


class Recorder:
    """Keeps every record that is ever read."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def begin_anew(self) -> None:
        """Begin."""
        assert not self.records, "the topic stays, and nothing is read twice"

    def apply(self, record: LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    async def settled(self) -> None:
        """Take more at once."""


class Play:
    """One run: the instances, their clients, and what goes wrong."""

    def __init__(self, cluster: Cluster, nursery: trio.Nursery, seed: int) -> None:
        self.world = cluster.world
        self.rng = self.world.stream("registries")
        self.history = RegistryHistory()
        self.is_rough = True
        self.stumble_part = self.rng.choice([0.05, 0.15, 0.3])
        self._cluster = cluster
        self._nursery = nursery
        self._numbers = dict.fromkeys([f"registry{each}" for each in range(2 + seed % 2)], 0)
        self._instances: dict[str, Instance] = {}
        self._text_count = 0
        self._dead: list[Instance] = []

    @property
    def instances(self) -> list[Instance]:
        """The instances that live."""
        return [each for each in self._instances.values() if each.is_alive]

    def start(self, machine: str) -> None:
        """Start an instance on a machine."""
        self._numbers[machine] += 1
        instance = Instance(self, machine, self._numbers[machine])
        self._instances[machine] = instance
        self._nursery.start_soon(instance.run)

    def start_all(self) -> None:
        """Start one on each machine."""
        for machine in self._numbers:
            self.start(machine)

    def kill(self, instance: Instance) -> None:
        """End a process as SIGKILL does: nothing of it runs any more, and nobody hears of it."""
        self.world.log("kill", instance.host)
        instance.is_alive = False
        self.world.pause(instance.host)
        self.world.network.crash_host(instance.host)
        self._dead.append(instance)

    def pause(self, instance: Instance, seconds: float) -> None:
        """Stop a process for a while."""
        self.world.pause(instance.host)
        self._start_outside(self._resume_later, instance, seconds)

    def cut_off(self, instance: Instance, seconds: float) -> None:
        """Let nothing through between an instance and the broker for a while."""
        self.world.network.isolate(instance.host, [BROKER])
        self._start_outside(self._heal_later, instance, seconds)

    def _start_outside(
        self,
        act: Callable[[Instance, float], Awaitable[None]],
        instance: Instance,
        seconds: float,
    ) -> None:
        """Start a task that belongs to no process, so that none takes it along when it is paused."""
        outside = copy_context()
        outside.run(HOST.set, "")
        outside.run(self._nursery.start_soon, act, instance, seconds)

    async def _heal_later(self, instance: Instance, seconds: float) -> None:
        await trio.sleep(seconds)
        self.world.network.heal(instance.host)

    async def _resume_later(self, instance: Instance, seconds: float) -> None:
        await trio.sleep(seconds)
        if instance.is_alive:
            self.world.resume(instance.host)

    def bury(self) -> None:
        """Let the tasks of killed processes end. Everything is judged by then."""
        for each in self._instances.values():
            each.scope.cancel()
        for each in self._dead:
            each.scope.cancel()
            self.world.resume(each.host)

    # Faults

    async def strike(self, seconds: float) -> None:
        """Let things go wrong for so long."""
        acts = [self._kill_one, self._pause_one, self._cut_one, self._kill_broker]
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            await trio.sleep(self.rng.uniform(2, 15))
            await self.rng.choice(acts)()
        self.is_rough = False

    async def _kill_one(self) -> None:
        """Kill an instance, most often the writer, and start another one on its machine."""
        instance = self._victim()
        self.kill(instance)
        await trio.sleep(self.rng.choice([0.0, 1.0, 10.0]))
        self.start(instance.machine)

    async def _pause_one(self) -> None:
        self.pause(self._victim(), self.rng.choice([1.0, 5.0, 8.0, 20.0]))
        await trio.lowlevel.checkpoint()

    async def _cut_one(self) -> None:
        host = self._victim().host
        self.world.network.isolate(host, [BROKER])
        await trio.sleep(self.rng.choice([1.0, 5.0, 15.0]))
        self.world.network.heal(host)

    async def _kill_broker(self) -> None:
        self.world.kill(BROKER)
        del self._cluster.brokers[1]
        self._cluster.scopes[1].cancel()
        await trio.sleep(self.rng.choice([0.1, 3.0]))
        await self._cluster.start(1)

    def _victim(self) -> Instance:
        writers = [each for each in self.instances if each.is_writer]
        return self.rng.choice(writers if writers and self.rng.random() < 0.7 else self.instances)

    # Clients

    async def change(self) -> None:
        """Register schemas and take others away, one after the other, while things go wrong."""
        while self.is_rough:
            await trio.sleep(self.rng.expovariate(2))
            if self.rng.random() < 0.8:
                await self.register(self.rng.choice(LASTING))
            else:
                await self.retire()

    async def register(self, subject: str) -> bool:
        """Register a schema at whichever instance takes it, now and then one that is known."""
        is_new = not self._text_count or self.rng.random() < 0.8
        self._text_count += is_new
        number = self._text_count if is_new else self.rng.randint(1, self._text_count)
        text = f'{{"type":"record","name":"R{number}","fields":[]}}'
        question = await self._ask("POST", f"/subjects/{subject}/versions", {"schema": text})
        if question.status == 200:
            told = question.answer
            self.history.registered.append(
                Registered(subject=subject, version=told["version"], id=told["id"], text=text)
            )
        return question.status == 200

    async def retire(self) -> None:
        """Register a schema that nothing else has, and remove it for good."""
        self._text_count += 1
        subject = f"gone{self._text_count}"
        if await self.register(subject):
            await self._ask("DELETE", f"/subjects/{subject}")
            await self._ask("DELETE", f"/subjects/{subject}?permanent=true")

    async def _ask(self, method: str, path: str, body: Any = None) -> Question:
        """Ask instances until one of them writes. Any other answer ends it, and none does."""
        for _ in range(100):
            for instance in self.rng.sample(self.instances, len(self.instances)):
                if not instance.is_writer and self.rng.random() < 0.9:
                    continue
                question = await instance.ask(method, path, body)
                if question.status == 0 or question.status < 500:
                    return question
            await trio.sleep(0.5)
        return Question(method, path)

    # The end

    async def settle(self) -> None:
        """End all faults, remove the last schema, and have its records compacted away."""
        for each in self.instances:
            self.world.resume(each.host)
        self.world.network.heal()
        await self._writing()
        await self.retire()
        await trio.sleep(ROLLED_AFTER_S + 1)
        for each in [each for each in self.instances if each.is_writer]:
            self.kill(each)
            self.start(each.machine)
        await self._writing()
        for level in ("FULL", "NONE", "FULL", "NONE"):
            await trio.sleep(ROLLED_AFTER_S + 1)
            question = await self._ask("PUT", "/config/rolled", {"compatibility": level})
            assert question.status == 200, question.answer

    async def _writing(self) -> None:
        """Wait until an instance writes."""
        with trio.fail_after(300):
            while True:
                probe = await self._ask("PUT", "/config/probe", {"normalize": True})
                if probe.status == 200:
                    return
                await trio.sleep(1)


async def state_of_topic(play: Play, name: str) -> InlineKeeper:
    """Return the state that an instance has which starts now."""
    env, keeper = play.world.client_env(name), InlineKeeper()
    async with Admin(SERVERS, env=env) as admin, trio.open_nursery() as nursery:
        log = SchemasLog(LogSettings(bootstrap_servers=SERVERS, topic=TOPIC), admin, keeper, env)
        await nursery.start(log.run)
        await log.read_to_end(120_000)
        nursery.cancel_scope.cancel()
    return keeper


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOutcome:
    """The result of one run. The counts say that much went on in it."""

    violations: list[str]
    writer_count: int
    """Instances that wrote something."""
    registered_count: int
    compacted_count: int
    """Records that compaction took out."""


def play_registries(seed: int, seconds: float = 60) -> RegistryOutcome:
    """Play one seed."""
    outcomes: list[RegistryOutcome] = []

    async def story(cluster: Cluster) -> None:
        with trio.fail_after(20_000):
            outcomes.append(await _played(cluster, seed, seconds))

    tell_cluster(story, {1: node_properties(1, (1,), **PROPERTIES)}, seed=seed)
    return outcomes[0]


async def _played(cluster: Cluster, seed: int, seconds: float) -> RegistryOutcome:
    cluster.world.network.weather = cluster.world.draw_weather()
    recorder, env = Recorder(), cluster.world.client_env("witness")
    async with Admin(SERVERS, env=env) as admin:
        new = NewTopic(name=TOPIC, partition_count=1, replication_factor=1, configs=CONFIGS)
        await admin.create_topics([new])
    async with trio.open_nursery() as nursery:
        reader = SchemasReader(SERVERS, TOPIC, recorder, env, {})
        nursery.start_soon(reader.run)
        play = Play(cluster, nursery, seed)
        try:
            await _work(play, seconds)
            outcome = await _judged(play, reader, recorder)
        finally:
            play.bury()
            nursery.cancel_scope.cancel()
    return outcome


async def _work(play: Play, seconds: float) -> None:
    play.start_all()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(play.strike, seconds)
        for _ in range(3):
            nursery.start_soon(play.change)
    await play.settle()


async def _judged(play: Play, reader: SchemasReader, recorder: Recorder) -> RegistryOutcome:
    whole, found = StateKeeper(), await state_of_topic(play, "late")
    await reader.read_to(play.history.written[-1].offset, 60_000)
    for each in recorder.records:
        whole.apply(each)
    return RegistryOutcome(
        violations=violations(play.history, recorder.records, whole, found),
        writer_count=len({each.writer for each in play.history.written}),
        registered_count=len(play.history.registered),
        compacted_count=len(recorder.records) - found.applied_count,
    )
