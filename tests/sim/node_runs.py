"""Plays seeds in virtual time, then judges each run.

A run has a cluster, its clients and everything that goes wrong.

    make sim SEEDS=0-99          many, on all cores, with figures (python -m tests.sim.node_runs --seeds 0-99)
    make sim SEEDS=17 TRACE=1    one again, with its trace (python -m tests.sim.node_runs --seeds 17 --trace)

Decides the order of a run: topics are created, clients work while faults strike, then everything
calms down, and within a bounded time all must be delivered, read and committed; at last the nodes
are stopped in order and started once more.

A world may hold several clusters that know nothing of each other. Each has a ``Run`` with
adversaries, a history and a judgement of its own.
"""

# ruff: noqa: T201 - a command
import argparse
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import trio

from log_service.common.errors import KafkaError, TidelogError
from log_service.common.types import TopicPartition
from tests.sim.disk import Disk
from tests.sim.node_audit import Auditor, check_lookups
from tests.sim.node_checker import Violation, check
from tests.sim.node_clients import Clients
from tests.sim.node_faults import Adversary, NodeLost, Victims
from tests.sim.node_history import Entry, History, Send
from tests.sim.node_host import ClusterHost, Death, NodeHost
from tests.sim.node_metadata_checker import check_metadata
from tests.sim.node_moves import Mover, check_places, copied_in_steps
from tests.sim.node_plan import NodePlan, Plan, draw_plan
from tests.sim.node_refusals import check_refusals, refusals_noted
from tests.sim.node_responses import Responses
from tests.sim.node_waits import Waiters, check_waits
from tests.sim.world import World, sim_world

P = TypeVar("P", bound=Plan)
SETTLE_LIMIT_SECONDS = 240
STOP_LIMIT_SECONDS = 30
OTHER_PARTITIONS = (
    TopicPartition("__consumer_offsets", 0),
    TopicPartition("__consumer_offsets", 1),
    TopicPartition("churn-0", 0),
)
"""What may be moved beside the plan's topics."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of one seed."""

    seed: int
    violations: list[Violation]
    digest: str = ""
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    step_count: int = 0
    entry_count: int = 0
    acknowledged_count: int = 0
    node_count: int = 1
    aim: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {len(self.violations)} violations; again with: {reproduce(self.seed, self.node_count, self.aim)}"
        ]
        return "\n  ".join([*lines, *(str(violation)[:600] for violation in self.violations[:8])])


def reproduce(seed: int, node_count: int = 1, aim: str = "") -> str:
    """The command that plays one seed again."""
    nodes, scenario = (
        f"NODES={node_count} " if node_count > 1 else "",
        f'AIM="{aim}" ' if aim else "",
    )
    return f"make sim {nodes}{scenario}SEEDS={seed} TRACE=1"


class Run:
    """One cluster in its world, from a seed's plan. ``place`` tells its clients' machines from
    those of other clusters.
    """

    stop_limit_seconds = STOP_LIMIT_SECONDS

    def __init__(self, world: World, nursery: trio.Nursery, plan: Plan, place: str = "") -> None:
        self.world = world
        self.plan = plan
        self.history = self._history()
        self.history.topics = {topic.name: topic for topic in plan.topics}
        self.history.are_offsets_synced = plan.are_offsets_synced
        self.violations: list[Violation] = []
        self.cluster = ClusterHost([self._host(nursery, node) for node in plan.nodes])
        self.clients = self._clients(place)
        moved = [*self.clients.partitions, *OTHER_PARTITIONS]
        self.movers = [
            Mover(world, host, moved, self.clients.env)
            for host in self.cluster.nodes
            if plan.are_logs_moved and host.has_partitions
        ]
        self.victims = Victims(
            nodes=[node.name for node in plan.nodes], machine_of=self.clients.machine_of
        )
        self.auditors: Sequence[Auditor] = self._auditors()
        self.adversaries: Sequence[Adversary] = self._adversaries()

    def _host(self, nursery: trio.Nursery, node: NodePlan) -> NodeHost:
        disk = Disk(is_reordering=self.plan.is_disk_reordering)
        return NodeHost(self.world, nursery, node.config, node.texts, name=node.name, disk=disk)

    def _history(self) -> History:
        return History(trio.current_time)

    def _clients(self, place: str) -> Clients:
        return Clients(self.world, self.plan, self.history, self.cluster.bootstrap, place=place)

    def _auditors(self) -> Sequence[Auditor]:
        return [Auditor(host) for host in self.cluster.nodes]

    def _adversaries(self) -> Sequence[Adversary]:
        return [
            Adversary(self.plan, host, auditor, self.history, self.victims)
            for host, auditor in self._audited()
        ]

    def _audited(self) -> Iterator[tuple[NodeHost, Auditor]]:
        return zip(self.cluster.nodes, self.auditors, strict=True)

    @property
    def faults(self) -> Counter[str]:
        """How often each fault struck, on all nodes together."""
        return sum((adversary.counts for adversary in self.adversaries), Counter[str]())

    @property
    def aim(self) -> str:
        """The scenario that is played; empty where the seed draws all by itself."""
        return ""

    @property
    def transactions(self) -> Counter[str]:
        """How many transactions ended in which way."""
        return Counter()

    @property
    def decisions(self) -> Counter[str]:
        """How often users whose rights change were to be allowed something, and how often not."""
        return Counter()

    def note_violation(self) -> None:
        """Take note that a promise is known to be broken before the end; most runs go on."""

    async def play(self) -> None:
        """Everything, from the first start to the last check."""
        try:
            await self._play_to_the_end()
        except Exception as error:  # noqa: BLE001 - a client that raises what it never should is a finding
            self.violations.append(Violation("no surprise", described(error)))
        for found in (
            *(each.failures for each in self.adversaries),
            *(each.violations for each in self.auditors),
        ):
            self.violations += found
        self._judge()

    def _judge(self) -> None:
        """Judge the history."""
        for judge in (check, check_metadata, check_refusals, check_waits):
            self.violations += judge(self.history)

    async def _play_to_the_end(self) -> None:
        try:
            await self._play()
        except* NodeLost:
            self.violations.append(Violation("recovery", "the node cannot be started any more"))
        except* KafkaError as group:
            self.violations.append(
                Violation("availability", f"asked once all was calm: {described(group)}")
            )

    async def _play(self) -> None:
        await self._start()
        await self._create_topics()
        async with trio.open_nursery() as readers:
            async with trio.open_nursery() as senders:
                self._cast(senders, readers)
                await self._strike()
                await self._all(Adversary.calm)
                self.clients.is_over = True
                for mover in self.movers:
                    mover.is_over = True
                senders.cancel_scope.deadline = trio.current_time() + SETTLE_LIMIT_SECONDS
            if senders.cancel_scope.cancelled_caught:
                self.violations.append(
                    Violation(
                        "liveness", f"senders did not end within {SETTLE_LIMIT_SECONDS} s of calm"
                    )
                )
            with trio.move_on_after(SETTLE_LIMIT_SECONDS) as waiting:
                await self._settle()
                await self._drain()
            if waiting.cancelled_caught:
                self.violations.append(
                    Violation(
                        "liveness",
                        f"not all was read and committed within {SETTLE_LIMIT_SECONDS} s of calm",
                    )
                )
            self.clients.is_drained = True
            readers.cancel_scope.deadline = trio.current_time() + SETTLE_LIMIT_SECONDS
        await self.clients.end_trimming()
        await self._stop()
        self._check_stopped()
        await self._start()
        with trio.move_on_after(SETTLE_LIMIT_SECONDS) as reading:
            await self._read_to_the_end()
        if reading.cancelled_caught:
            self.violations.append(
                Violation(
                    "liveness",
                    f"the logs could not be read to their ends within {SETTLE_LIMIT_SECONDS} s",
                )
            )
        for host in self.cluster.nodes:
            if host.has_partitions:
                assert host.current is not None
                self.violations += check_lookups(host.disk, host.current)
        await self._stop()
        for host in self.cluster.nodes:
            self.violations += check_places(host.disk, is_calm=True)

    async def _create_topics(self) -> None:
        """Create what the clients write to."""
        await self.clients.create_topics()

    async def _read_to_the_end(self) -> None:
        """Read what is there at last."""
        await self.clients.read_to_the_end()

    async def _settle(self) -> None:
        """Wait until what was begun before all was calm has ended."""
        for mover in self.movers:
            await mover.settle(self.clients.partitions)

    def _check_stopped(self) -> None:
        """Look at the disks of nodes that were stopped in order."""

    async def _all(self, act: Callable[[Adversary], Awaitable[None]]) -> None:
        """Have all adversaries do something at once: a node may need others to start."""
        async with trio.open_nursery() as nursery:
            for adversary in self.adversaries:
                nursery.start_soon(act, adversary)

    async def _start(self) -> None:
        """Start all nodes."""
        await self._all(lambda adversary: adversary.start_promptly())

    async def _strike(self) -> None:
        """Let things go wrong for as long as is planned, and judge meanwhile how long requests
        wait.
        """
        async with trio.open_nursery() as waiting:
            if self.plan.are_waits_judged:
                waiting.start_soon(
                    Waiters(
                        self.world, self.cluster.nodes[0], self.history, self.clients.partitions
                    ).run
                )
            await self._all(lambda adversary: adversary.strike(self.plan.seconds))
            waiting.cancel_scope.cancel()

    async def _stop(self) -> None:
        """Stop all nodes in order, within bounds, and leave nothing open."""
        async with trio.open_nursery() as nursery:
            for host in self.cluster.nodes:
                nursery.start_soon(self._stop_one, host)

    async def _stop_one(self, host: NodeHost) -> None:
        incarnation = host.current
        assert incarnation is not None
        with trio.move_on_after(self.stop_limit_seconds) as stopping:
            await host.stop()
        if stopping.cancelled_caught or not incarnation.broker.is_stopped_gracefully:
            self.violations.append(
                Violation(
                    "stops in order",
                    f"not within {self.stop_limit_seconds} s: {incarnation.error!r}",
                )
            )
            host.die(Death.KILL)
        elif incarnation.files.open_count or incarnation.files.lease_count:
            text = f"{incarnation.files.open_count} files and {incarnation.files.lease_count} leases are left open"
            self.violations.append(Violation("stops in order", text))

    def _cast(self, senders: trio.Nursery, readers: trio.Nursery) -> None:
        plan, clients = self.plan, self.clients

        def begin(
            nursery: trio.Nursery,
            act: Callable[[str], Awaitable[None]],
            name: str,
            *,
            is_mortal: bool = True,
        ) -> None:
            self._beginning(nursery, is_mortal=is_mortal)(act, name)

        for number in range(plan.producer_count):
            begin(senders, clients.produce, f"producer-{number}")
        for number in range(plan.member_count):
            is_late = plan.is_member_late and number > 0 and number == plan.member_count - 1
            begin(readers, self._come_and_go if is_late else clients.join, f"member-{number}")
        for number in range(plan.automatic_count):
            begin(readers, clients.join_automatically, f"automatic-{number}")
        for number in range(plan.reader_count):
            begin(senders, clients.read, f"reader-{number}")
        for number in range(plan.churn_count):
            begin(senders, clients.churn, f"churn-{number}", is_mortal=False)
        if any(topic.is_trimmed for topic in plan.topics):
            begin(senders, clients.trim, "trimmer")
        for mover in self.movers:
            begin(
                senders,
                mover.move,
                "mover" if len(self.movers) == 1 else f"mover-{mover.host.name}",
            )
        begin(readers, clients.watch_commits, "watcher")

    def _beginning(
        self, nursery: trio.Nursery, *, is_mortal: bool = True
    ) -> Callable[[Callable[[str], Awaitable[None]], str], None]:
        """Return what begins clients in a nursery."""
        return lambda act, name: nursery.start_soon(self._live, act, name, is_mortal)

    async def _come_and_go(self, name: str) -> None:
        """Be a member that comes late, leaves, and comes again.

        Partitions change hands while records are committed.
        """
        await trio.sleep(self.plan.seconds * 0.3)
        with trio.move_on_after(self.plan.seconds * 0.4):
            await self.clients.join(name)
        await trio.sleep(self.plan.seconds * 0.1)
        await self.clients.join(f"{name}.again")

    async def _live(
        self, act: Callable[[str], Awaitable[None]], name: str, is_mortal: bool
    ) -> None:
        """Run a client; one that was killed comes back as another."""
        life, rng = 0, self.world.stream(f"life {name}")
        while True:
            with trio.CancelScope() as scope:
                if is_mortal:
                    self.victims.client_scopes[name] = scope
                await act(name if not life else f"{name}.{life}")
            if not scope.cancelled_caught:
                self.victims.client_scopes.pop(name, None)
                return
            life += 1
            await trio.sleep(rng.uniform(0, 2))

    async def _drain(self) -> None:
        """Wait until the first group has committed everything, and the second read it."""
        ends = await self.clients.ends()
        positions = [self.clients.group_positions, self.clients.automatic_positions][
            : 2 if self.plan.automatic_count else 1
        ]
        while True:
            behind = [
                partition
                for partition, (start, end) in sorted(ends.items())
                if end > start and any(known.get(partition, -1) < end for known in positions)
            ]
            if not behind:
                return
            self.world.log("behind", behind)
            await trio.sleep(1)


@contextmanager
def exceptions_noted(violations: list[Violation]) -> Iterator[None]:
    """Take tracebacks in the product's own log as broken promises, and keep its log quiet.

    Those of disks and refusals are excepted.

    What other threads of the process log is not of this world.
    """
    thread = threading.get_ident()

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info and record.thread == thread else None
            if error is not None and not isinstance(error, TidelogError | OSError):
                violations.append(
                    Violation(
                        "no surprise",
                        f"{record.name}: {record.getMessage()}: {error!r} {_where(error)}",
                    )
                )

    logger, notes = logging.getLogger("log_service"), Notes()
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(notes)
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.propagate = was_propagating


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""


def play(seed: int) -> Outcome:
    """Play one seed in virtual time and return what became of it; same seed, same outcome."""
    return play_with_trace(seed)[0]


def play_with_trace(seed: int) -> tuple[Outcome, list[str], list[Entry]]:
    """The same, with the trace and the history."""
    outcomes, world, histories = play_plans(seed, [draw_plan(seed)])
    return outcomes[0], world.trace, histories[0].entries


def play_plans(
    seed: int,
    plans: Sequence[P],
    kind: "Callable[[World, trio.Nursery, P, str], Run] | None" = None,
) -> tuple[list[Outcome], World, list[History]]:
    """Play several clusters in one world, and return the outcome of each.

    Their machines have names of their own.

    ``kind`` makes the run of a plan, which is given the place that ends the names of its clients'
    machines. The weather is that of the first plan, and so are the steps in which logs are copied.
    """
    begun = time.perf_counter()
    runs: list[Run] = []
    forgotten: list[list[Violation]] = []
    seconds = 0.0
    surprises: list[Violation] = []

    async def main(world: World) -> None:
        nonlocal seconds
        world.network.weather = plans[0].weather
        async with trio.open_nursery() as nodes:
            places = [f"@{plan.nodes[0].name}" if len(plans) > 1 else "" for plan in plans]
            runs.extend(
                (kind or Run)(world, nodes, plan, place)
                for plan, place in zip(plans, places, strict=True)
            )
            histories = {host.name: run.history for run in runs for host in run.cluster.nodes}
            steps = copied_in_steps(plans[0].chunk_bytes, plans[0].quiet_bytes)
            responses = Responses(
                world, {host: run.note_violation for run in runs for host in run.cluster.nodes}
            )
            with (
                exceptions_noted(surprises),
                refusals_noted(histories),
                responses.watching(),
                steps,
            ):
                async with trio.open_nursery() as nursery:
                    for run in runs:
                        nursery.start_soon(run.play)
            forgotten.extend(responses.of(run.cluster.nodes) for run in runs)
            nodes.cancel_scope.cancel()
        seconds = trio.current_time()

    world, _ = sim_world(seed, main)
    outcomes = [
        Outcome(
            seed=run.plan.seed,
            violations=[*surprises, *run.violations, *left],
            digest=world.digest,
            virtual_seconds=seconds,
            real_seconds=time.perf_counter() - begun,
            step_count=world.step_count,
            entry_count=len(run.history.entries),
            acknowledged_count=sum(send.is_ok for send in run.history.of(Send)),
            node_count=len(run.plan.nodes),
            aim=run.aim,
            faults=run.faults,
            transactions=run.transactions,
            decisions=run.decisions,
        )
        for run, left in zip(runs, forgotten, strict=True)
    ]
    return outcomes, world, [run.history for run in runs]


def described(error: BaseException) -> str:
    """An exception's leaves, each with the line that raised it."""
    leaves = _leaves(error)
    return "; ".join(f"{leaf!r} {_where(leaf)}" for leaf in leaves)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


# Command


def parse_seeds(text: str) -> list[int]:
    """``17``, ``0-99`` or ``1,5,9-12``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def main(arguments: Iterable[str] | None = None) -> int:
    """Play the seeds of the command line, print figures, and return 1 if one of them broke a
    promise.
    """
    parser = command("Simulate a node and its clients, one world per seed.")
    parser.add_argument(
        "--moving",
        action="store_true",
        help="of these only the seeds in which logs move between directories",
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.moving:
        options.seeds = [seed for seed in options.seeds if draw_plan(seed).are_logs_moved]
    return play_seeds(options, play_with_trace)


def command(description: str) -> argparse.ArgumentParser:
    """Return the options that every command has which plays seeds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--seeds", type=parse_seeds, default=parse_seeds("0-99"), help="17, 0-99 or 1,5,9-12"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--trace", action="store_true", help="print what happened, step by step")
    return parser


Play = Callable[[int], tuple[Outcome, list[str], list[Entry]]]
"""Plays a seed, and returns what became of it, its trace and its history; a function that another
process can import.
"""


def play_seeds(options: argparse.Namespace, play_one: Play) -> int:
    """Play the seeds, print figures, and return 1 if one of them broke a promise."""
    begun = time.perf_counter()
    failed, total = [], Outcome(seed=-1, violations=[])
    for outcome in _play_all(options.seeds, options.jobs, play_one, is_traced=options.trace):
        total.virtual_seconds += outcome.virtual_seconds
        total.entry_count += outcome.entry_count
        total.acknowledged_count += outcome.acknowledged_count
        total.step_count += outcome.step_count
        total.faults += outcome.faults
        total.transactions += outcome.transactions
        total.decisions += outcome.decisions
        if outcome.violations:
            failed.append(outcome.seed)
            print(outcome, flush=True)
    seconds = time.perf_counter() - begun
    count = len(options.seeds)
    print(
        f"{count} seeds in {seconds:.1f} s ({count / seconds:.2f} seeds/s, {options.jobs} processes), {len(failed)} failed: {failed}"
    )
    print(
        f"{total.virtual_seconds / 3600:.2f} virtual hours, {total.virtual_seconds / seconds:.0f} virtual seconds per second"
    )
    print(
        f"{total.entry_count} entries of history, {total.acknowledged_count} records acknowledged, {total.step_count} steps"
    )
    print(f"faults: {_listed(total.faults)}")
    if total.transactions:
        print(f"transactions: {_listed(total.transactions)}")
    if total.decisions:
        print(f"what users tried: {_listed(total.decisions)}")
    return 1 if failed else 0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))


def _play_all(seeds: list[int], jobs: int, play_one: Play, *, is_traced: bool) -> Iterator[Outcome]:
    if is_traced:
        for seed in seeds:
            outcome, trace, entries = play_one(seed)
            print("\n".join([*trace, *map(str, entries)]))
            yield outcome
        return
    judge = partial(_outcome_of, play_one)
    if jobs == 1 or len(seeds) == 1:
        yield from map(judge, seeds)
    else:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            yield from pool.imap_unordered(judge, seeds)


def _outcome_of(play_one: Play, seed: int) -> Outcome:
    return play_one(seed)[0]


if __name__ == "__main__":
    sys.exit(main())
