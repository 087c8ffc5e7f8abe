"""A whole node in virtual time gets hostile sessions.

The same seed gives the same run, so that a finding is a seed and its sessions. A finding is an
exception of ours that somebody logs or that ends the node, a loop that never ends, or a good
request that gets no good answer within ``PATIENCE_SECONDS`` of virtual time. Knows no memory and no
real time: ``process_node`` does.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

import crc32c
import trio

from log_service.client import Admin, NewTopic, Producer, TopicPartition, read_range
from log_service.common.env import Connection
from log_service.common.errors import ProtocolError, TidelogError, first_error
from log_service.protocol.api_versions import KNOWN, ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import parse_response_header
from tests.fuzz import guarded
from tests.fuzz.cases import Case, Figures, Finding
from tests.fuzz.sessions import Frame, SessionDrawing, requests_of
from tests.fuzz.shapes import Vocabulary
from tests.fuzz.shrink import shrink
from tests.sim.node_host import BOOTSTRAP, HOST, PORT, NodeHost, node_config
from tests.sim.world import World, sim_world

Session = tuple[bytes, ...]
"""What one connection sends, in pieces."""

SESSIONS_PER_RUN = 150
CHECK_EVERY = 15
PATIENCE_SECONDS = 30.0
SESSION_SECONDS = 2.0
HONEST = "honest-records"
HONEST_TIMEOUTS: dict[str, Any] = {"request_timeout_ms": 10_000, "delivery_timeout_ms": 20_000}
TOPICS = {
    "plain": {},
    "compact": {"cleanup.policy": "compact"},
    "short": {"retention.ms": "5000"},
    "synced": {"flush.messages": "1"},
}
PROPERTIES = {
    "group.min.session.timeout.ms": "100",
    "log.retention.check.interval.ms": "2000",
    "log.initial.task.delay.ms": "500",
    "offsets.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
}
REAL_SECONDS_PER_RUN = 60.0
GUARDED = "guarded session"
"""The target of sessions that log in first; see ``guarded``."""


class Faulty(Protocol):
    """Whoever notes what went wrong first."""

    fault: str


@dataclass
class Run:
    """One world with its node. ``sent`` is what was played so far; ``fault`` what went wrong first."""

    world: World
    figures: Figures
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    is_guarded: bool = False
    """Whether the sessions log in first, and need rights."""
    sent: list[Session] = field(default_factory=list)
    fault: str = ""

    async def play(self, sessions: Sequence[Session] | None) -> None:
        """Play these sessions, or drawn ones; stops at the first fault."""
        async with trio.open_nursery() as nursery:
            host = NodeHost(
                self.world,
                nursery,
                *node_config(
                    PROPERTIES | (guarded.PROPERTIES if self.is_guarded else {}),
                    segment_bytes=1 << 14,
                ),
            )
            incarnation = await host.start()
            await self._prepare()
            with faults_noted(self):
                async with trio.open_nursery() as lingering:
                    await self._play(sessions, lingering)
                    lingering.cancel_scope.cancel()
                if not self.fault and not incarnation.is_running:
                    self.fault = f"the node ended: {incarnation.error!r}"
                if not self.fault:
                    with trio.move_on_after(60) as stopping:
                        await host.stop()
                    if stopping.cancelled_caught:
                        self.fault = "the node does not stop in order"
            nursery.cancel_scope.cancel()

    async def _prepare(self) -> None:
        async with Admin(BOOTSTRAP, env=self.world.client_env("admin")) as admin:
            await admin.create_topics(
                [
                    NewTopic(name=name, partition_count=2, configs=configs)
                    for name, configs in {**TOPICS, HONEST: {}}.items()
                ]
            )
            described = await admin.describe_topics([*TOPICS, HONEST])
            if self.is_guarded:
                await guarded.give_rights(admin)
        for name, topic in described.items():
            if name != HONEST:
                self.vocabulary.learn(topic.topic_id)
        self.vocabulary.forbidden = frozenset({HONEST, described[HONEST].topic_id, "1"})

    async def _play(self, sessions: Sequence[Session] | None, lingering: trio.Nursery) -> None:
        drawing = SessionDrawing(Random(f"sessions {self.world.seed}"), self.vocabulary)
        count = SESSIONS_PER_RUN if sessions is None else len(sessions)
        for number in range(count):
            if sessions is None:
                frames = drawing.session()
                self._count(frames)
                session = tuple(frame.content for frame in frames)
            else:
                session = sessions[number]
            self.sent.append(session)
            await self._connect(session, lingering)
            if number % CHECK_EVERY == CHECK_EVERY - 1 or number == count - 1:
                await self._check()
            if self.fault:
                return

    def _count(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self.figures.count(frame.spec.name, frame.kind)
            self.figures.tried[f"{frame.spec.name} v{frame.version}"] += 1

    async def _connect(self, session: Session, lingering: trio.Nursery) -> None:
        """Send a session.

        Some wait for answers, some stay, some are gone before the answer: by its bytes, whatever
        was before it.
        """
        behaviour = Random(crc32c.crc32c(b"".join(session)))
        env = self.world.client_env("hostile")
        try:
            stream = await env.network.connect(
                HOST, guarded.GUARDED_PORT if self.is_guarded else PORT
            )
        except OSError as error:
            self.fault = self.fault or f"no connection: {error}"
            return
        with suppress(OSError):
            if self.is_guarded:
                await stream.send_gathered([guarded.login()])
            for piece in session:
                cut = (
                    behaviour.randrange(len(piece) + 1) if behaviour.random() < 0.2 else len(piece)
                )
                await stream.send_gathered([piece[:cut]])
                if cut < len(piece):
                    await trio.sleep(0.01)
                    await stream.send_gathered([piece[cut:]])
        draw = behaviour.random()
        if draw < 0.1:
            stream.close()
        elif draw < 0.2:
            lingering.start_soon(self._read, stream, session, 600.0)
        else:
            await self._read(stream, session, SESSION_SECONDS)

    async def _read(self, stream: Connection, session: Session, seconds: float) -> None:
        """Read answers, learn from them, and leave."""
        pieces = (guarded.login(), *session) if self.is_guarded else session
        expected = [request for piece in pieces for request in requests_of(piece)]
        received, buffer = bytearray(), bytearray(65_536)
        with trio.move_on_after(seconds), suppress(OSError):
            while expected:
                count = await stream.receive_into(buffer)
                if not count:
                    break
                received += buffer[:count]
                while (
                    expected
                    and len(received) >= 4
                    and len(received) >= 4 + (size := int.from_bytes(received[:4], "big"))
                ):
                    self._learn(*expected.pop(0), bytes(received[4 : 4 + size]))
                    del received[: 4 + size]
        stream.close()

    def _learn(self, key: int, version: int, frame: bytes) -> None:
        spec = KNOWN.get(key)
        if (
            spec is None
            or not spec.min_version <= version <= spec.max_version
            or key in {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CONFIGS}
        ):
            return
        with suppress(ProtocolError):  # acks=0 has no answer: the next one is another's
            _, body = parse_response_header(spec.key, version, frame)
            answer, end = decode(response_class(spec.key), version, frame, body)
            if end == len(frame):
                self.figures.outcomes.setdefault(f"{spec.name} answered", Counter())["answers"] += 1
                self.vocabulary.learn(answer)

    async def _check(self) -> None:
        """The next good request gets a good answer, and what is written can be read."""
        value = f"value {len(self.sent)}".encode()
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                async with Producer(
                    BOOTSTRAP,
                    env=self.world.client_env("honest"),
                    request_timeout_ms=10_000,
                    delivery_timeout_ms=20_000,
                ) as producer:
                    metadata = await (await producer.send(HONEST, value=value, partition=0)).wait()
                async with Admin(BOOTSTRAP, env=self.world.client_env("honest")) as admin:
                    found = [
                        one
                        async for one in read_range(
                            admin, TopicPartition(HONEST, 0), metadata.offset, metadata.offset + 1
                        )
                    ]
        except (TidelogError, trio.TooSlowError) as error:
            self.fault = self.fault or f"a good request failed: {type(error).__name__}: {error}"
            return
        if value not in b"".join(bytes(one.batches) for one in found):
            self.fault = self.fault or "what was written is not read"


@contextmanager
def faults_noted(run: Faulty) -> Iterator[None]:
    """Take tracebacks in the product's log as faults, and keep its log quiet."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None and not run.fault:
                run.fault = f"{record.getMessage()}: {type(error).__name__}: {error} {where(error)}"

    logger, notes = logging.getLogger("log_service"), Notes()
    was_propagating, logger.propagate = logger.propagate, False
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(notes)
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.propagate = was_propagating
        logger.setLevel(level)


def where(error: BaseException) -> str:
    """The innermost line of ours."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        if "log_service" in trace.tb_frame.f_code.co_filename:
            place = f"at {trace.tb_frame.f_code.co_filename.rpartition('log_service/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def play(
    seed: int,
    sessions: Sequence[Session] | None = None,
    figures: Figures | None = None,
    *,
    is_guarded: bool = False,
) -> tuple[str, list[Session]]:
    """Play one run; returns (fault, what was sent)."""
    runs: list[Run] = []

    async def main(world: World) -> None:
        runs.append(Run(world, figures or Figures(), is_guarded=is_guarded))
        await runs[0].play(sessions)

    try:
        sim_world(seed, main)
    except Exception as error:  # noqa: BLE001 - whatever ends a world is looked for
        innermost = first_error(error)
        text = f"the world ended: {innermost!r} {where(innermost)}"
        return runs[0].fault or text, runs[0].sent
    return runs[0].fault, runs[0].sent


def fuzz(
    seed: int,
    *,
    seconds: float = float("inf"),
    rounds: int = 1 << 60,
    tries: int = 150,
    is_guarded: bool = False,
) -> tuple[Figures, list[Finding]]:
    """Play runs until the time or the rounds are over; one finding for each kind of fault, made
    small.
    """
    figures, findings, seen = Figures(), [], set()
    begun = time.perf_counter()
    for number in range(rounds):
        if time.perf_counter() - begun > seconds:
            break
        run_seed = seed * 1_000_000 + number
        fault, sent = play(run_seed, None, figures, is_guarded=is_guarded)
        if fault and kind_of(fault) not in seen:
            seen.add(kind_of(fault))
            engine, target = (
                ("guarded_node", GUARDED) if is_guarded else ("virtual_node", "session")
            )
            case = Case(engine=engine, target=target, seed=run_seed, sessions=tuple(sent))
            findings.append(Finding(text=fault, case=small(case, fault, tries)))
    figures.seconds = time.perf_counter() - begun
    return figures, findings


def small(case: Case, fault: str, tries: int) -> Case:
    """The case without what it does not need, where it fails again at all."""
    return shrink(case, lambda tried: kind_of(replay(tried)) == kind_of(fault), tries=tries)


def kind_of(fault: str) -> str:
    """Return the text that two findings of one bug have in common.

    It says where the innermost line is, or how the text begins.
    """
    return fault.rpartition(" at ")[2] if " at " in fault else fault[:40]


def replay(case: Case) -> str:
    """Play one case; returns what it broke, or nothing."""
    return play(case.seed, replace(case).sessions, is_guarded=case.target == GUARDED)[0]
