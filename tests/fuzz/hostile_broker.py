"""Our client against a broker that lies: every answer may be damaged on its way, in virtual time.

A finding is an exception that is no ``TidelogError`` where a caller sees it, a client that does not
end within its own time limits, or one that cannot work once the answers are right again. Same seed,
same run.
"""

import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import trio

from log_service.client import (
    Admin,
    Consumer,
    NewTopic,
    OffsetSpec,
    Producer,
    TopicPartition,
    read_range,
)
from log_service.common.env import Connection, Env, FileSlice, Network
from log_service.common.errors import TidelogError
from log_service.common.types import Buffer
from tests.fuzz.cases import Case, Figures, Finding
from tests.fuzz.mutations import mutate
from tests.fuzz.virtual_node import faults_noted, where
from tests.sim.node_host import BOOTSTRAP, NodeHost, node_config
from tests.sim.world import World, sim_world

TOPIC = "honest"
TIMEOUTS: dict[str, Any] = {
    "request_timeout_ms": 2_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_max_ms": 200,
    "socket_connection_setup_timeout_ms": 1_000,
}
ACT_LIMIT_SECONDS = 120.0
FIRST_ANSWERS = 2
"""Answers of each connection that stay as they are, in some runs: else no client gets past the
versions.
"""


class LyingNetwork:
    """A network whose connections damage some of the frames that arrive."""

    def __init__(self, network: Network, rng: Random, figures: Figures, rate: float) -> None:
        self.network = network
        self.rng = rng
        self.figures = figures
        self.rate = rate
        self.spared = rng.choice((0, FIRST_ANSWERS, 5))

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> Any:
        return await self.network.listen(host, port, backlog=backlog)

    async def connect(self, host: str, port: int) -> Connection:
        return LyingConnection(self, await self.network.connect(host, port))


class LyingConnection:
    """One connection: frames come whole from inside, are damaged or not, and go out in pieces."""

    def __init__(self, network: LyingNetwork, inner: Connection) -> None:
        self._network = network
        self._inner = inner
        self._received = bytearray()
        self._ready = bytearray()
        self._frame_count = 0

    @property
    def peer_host(self) -> str:
        return self._inner.peer_host

    @property
    def peer_port(self) -> int:
        return self._inner.peer_port

    @property
    def local_host(self) -> str:
        return self._inner.local_host

    @property
    def bytes_sent(self) -> int:
        return self._inner.bytes_sent

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        chunk = bytearray(65_536)
        while not self._ready:
            count = await self._inner.receive_into(chunk)
            if not count:
                return 0
            self._received += chunk[:count]
            self._take_frames()
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        del self._ready[:size]
        return size

    def _take_frames(self) -> None:
        network = self._network
        while len(self._received) >= 4:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < size:
                return
            frame = bytes(self._received[:size])
            del self._received[:size]
            self._frame_count += 1
            is_spared = self._frame_count <= network.spared or network.rng.random() >= network.rate
            network.figures.count("answers", "right" if is_spared else "damaged")
            self._ready += frame if is_spared else damaged(network.rng, frame)

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        await self._inner.send_gathered(buffers)

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        await self._inner.send_file(header, file_slice)

    def close(self) -> None:
        self._inner.close()


def damaged(rng: Random, frame: bytes) -> bytes:
    """Draw a damaged answer.

    Mostly its correlation id and size hold, so that its body is looked at.
    """
    draw = rng.random()
    if draw < 0.75:
        body = mutate(rng, frame[8:])
        return struct.pack(">i", 4 + len(body)) + frame[4:8] + body
    if draw < 0.85:
        return mutate(rng, frame)
    if draw < 0.95:
        return frame + frame
    return struct.pack(">i", rng.choice((-1, 0, 3, 2**31 - 1, 100 << 20))) + frame[4:]


class Acts:
    """The acts of a client's user. Every act may fail with a ``TidelogError``."""

    def __init__(self, world: World, figures: Figures, rate: float) -> None:
        self.world = world
        self.figures = figures
        self.rate = rate
        self.fault = ""

    def env(self, name: str) -> Env:
        env = self.world.client_env(name)
        rng = Random(f"lies {self.world.seed} {name}")
        return (
            replace(env, network=LyingNetwork(env.network, rng, self.figures, self.rate))
            if self.rate
            else env
        )

    async def all(self, *, must_succeed: bool = False) -> None:
        """Every act, one after the other, each within its time."""
        for act in (self.administer, self.produce, self.consume, self.join, self.read):
            try:
                with trio.fail_after(ACT_LIMIT_SECONDS):
                    await act()
                self.figures.count(act.__name__, "done")
            except TidelogError as error:
                self.figures.count(act.__name__, "refused")
                if must_succeed:
                    self.fault = self.fault or f"{act.__name__} fails with right answers: {error}"
            except trio.TooSlowError:
                self.fault = self.fault or f"{act.__name__} does not end"
            except Exception as error:  # noqa: BLE001 - this is what is looked for
                inner = _unexpected(error)
                if inner is not None:
                    self.fault = self.fault or f"{act.__name__}: {inner!r} {where(inner)}"
                elif must_succeed:
                    self.fault = self.fault or f"{act.__name__} fails with right answers: {error!r}"

    async def administer(self) -> None:
        async with Admin(BOOTSTRAP, env=self.env("admin"), **TIMEOUTS) as admin:
            for ask in (
                lambda: admin.describe_topics([TOPIC]),
                lambda: admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.earliest()}),
                lambda: admin.describe_offsets([TOPIC]),
                lambda: admin.list_group_offsets("group"),
                admin.list_topics,
            ):
                try:
                    await ask()
                except TidelogError:
                    if not self.rate:
                        raise

    async def produce(self) -> None:
        async with Producer(
            BOOTSTRAP,
            env=self.env("producer"),
            delivery_timeout_ms=8_000,
            max_block_ms=4_000,
            **TIMEOUTS,
        ) as producer:
            for number in range(6):
                delivery = await producer.send(TOPIC, value=b"value", partition=number % 2)
                if number % 2:
                    await delivery.wait()

    async def consume(self) -> None:
        async with Consumer(
            BOOTSTRAP, env=self.env("consumer"), auto_offset_reset="earliest", **TIMEOUTS
        ) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
            for _ in range(5):
                await consumer.poll(timeout_ms=500)

    async def join(self) -> None:
        async with Consumer(
            BOOTSTRAP,
            env=self.env("member"),
            group_id="group",
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            **TIMEOUTS,
        ) as consumer:
            await consumer.subscribe([TOPIC])
            for _ in range(6):
                await consumer.poll(timeout_ms=1_000)
            await consumer.commit()

    async def read(self) -> None:
        async with Admin(BOOTSTRAP, env=self.env("range"), **TIMEOUTS) as admin:
            async for _ in read_range(admin, TopicPartition(TOPIC, 0), 0, 1):
                pass


def _unexpected(error: BaseException) -> BaseException | None:
    """The first of an exception's leaves that no caller has to expect."""
    if isinstance(error, BaseExceptionGroup):
        return next(
            (leaf for inner in error.exceptions if (leaf := _unexpected(inner)) is not None), None
        )
    return None if isinstance(error, TidelogError) else error


def play(seed: int, figures: Figures | None = None) -> str:
    """Play one run and return what it broke, or nothing."""
    figures = figures or Figures()
    lying = Acts.__new__(Acts)

    async def main(world: World) -> None:
        rate = Random(f"rate {seed}").choice((0.05, 0.2, 0.5))
        lying.__init__(world, figures, rate)  # type: ignore[misc]  # the world is made in here
        async with trio.open_nursery() as nursery:
            host = NodeHost(world, nursery, *node_config({}))
            await host.start()
            async with Admin(BOOTSTRAP, env=world.client_env("owner")) as admin:
                await admin.create_topics([NewTopic(name=TOPIC, partition_count=2)])
            with faults_noted(lying):
                await lying.all()
                lying.rate = 0.0
                await lying.all(must_succeed=True)
            await host.stop()
            nursery.cancel_scope.cancel()

    sim_world(seed, main)
    return lying.fault


def fuzz(
    seed: int, *, seconds: float = float("inf"), rounds: int = 1 << 60
) -> tuple[Figures, list[Finding]]:
    """Play runs until the time or the rounds are over; one finding for each kind of fault."""
    figures, findings, seen = Figures(), [], set()
    begun = time.perf_counter()
    for number in range(rounds):
        if time.perf_counter() - begun > seconds:
            break
        run_seed = seed * 1_000_000 + number
        fault = play(run_seed, figures)
        kind = fault.rpartition(" at ")[2] if " at " in fault else fault[:30]
        if fault and kind not in seen:
            seen.add(kind)
            findings.append(
                Finding(
                    text=fault, case=Case(engine="hostile_broker", target="client", seed=run_seed)
                )
            )
    figures.seconds = time.perf_counter() - begun
    return figures, findings


def replay(case: Case) -> str:
    """Play one case; returns what it broke, or nothing."""
    return play(case.seed)
