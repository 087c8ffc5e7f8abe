"""Measures families of figures in rounds, in which the sides take turns.

A family is a function that takes the ``Bench`` and, as a context manager, yields its ``Sides``: a
name and a function for each, which measures one round and returns rows. One side may be the peer of
the others. A family prepares its broker, or ten thousand partitions, before it yields, and puts it
away afterwards.

Decides the order of rounds and sides, and the fate of a family that fails. It is named with its
reason, its results so far are kept, and the next one goes on. Knows nothing of the figures
themselves.

Invariants: no two sides measure at the same time. Every other round goes through the sides
backwards, so that none is always the first.
"""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from benchmarks import table
from benchmarks.apache_kafka import NAME as PEER
from benchmarks.apache_kafka import apache_kafka_in
from benchmarks.broker_process import BrokerProcess, Installation, tidelog_in
from benchmarks.table import OURS, Row

SUSPENDED_SESSION_MS = "3600000"
"""The session timeout of a broker that is suspended for minutes.

Its own controller must not fence it.
"""
Measure = Callable[[], list[Row]]
Prepare = Callable[..., Installation]
WarmUp = Callable[[BrokerProcess, "Bench"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The measured sides by name, ours first.

    ``peer`` names the one that the others are compared with, where there is one. ``most_rounds``
    bounds the rounds of a family that takes long.
    """

    measures: Mapping[str, Measure]
    peer: str = ""
    most_rounds: int | None = None


@dataclass(slots=True, kw_only=True)
class Bench:
    """The scale of the load, and the shared brokers, for all families.

    One broker of each kind is kept for the families that put load on it.
    """

    scale: float
    has_peer: bool
    warm_up: WarmUp
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _shared: dict[str, BrokerProcess] = field(default_factory=dict)

    def count(self, full: float, *, at_least: int = 1) -> int:
        """Return a load's count at this scale, given its count at full scale."""
        return max(at_least, int(full * self.scale))

    def at_scale(self, share: float) -> "Bench":
        """Return a bench with a share of this one's load, for warming up."""
        return replace(self, scale=self.scale * share)

    @property
    def kinds(self) -> dict[str, Prepare]:
        """Return the functions that prepare a directory, one for each compared broker."""
        return {OURS: tidelog_in, **({PEER: apache_kafka_in} if self.has_peer else {})}

    @contextlib.contextmanager
    def installations(self, **properties: str) -> Iterator[dict[str, Installation]]:
        """Yield one per kind of broker, each in an empty directory of its own, nothing started."""
        with contextlib.ExitStack() as stack:
            yield {
                name: prepare(
                    Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-"))),
                    **properties,
                )
                for name, prepare in self.kinds.items()
            }

    def brokers(self) -> dict[str, BrokerProcess]:
        """Return the two shared brokers, which live from round to round and from family to family.

        A JVM is then warm and stays so.
        """
        if not self._shared:
            with contextlib.ExitStack() as stack:
                found = stack.enter_context(
                    self.installations(broker_session_timeout_ms=SUSPENDED_SESSION_MS)
                )
                brokers = {
                    name: stack.enter_context(installation.running())
                    for name, installation in found.items()
                }
                for name, broker in brokers.items():
                    say(f"warming up {name}")
                    self.warm_up(broker, self)
                self._shared, self._stack = brokers, stack.pop_all()
        return self._shared

    @contextlib.contextmanager
    def others_suspended(self, name: str) -> Iterator[None]:
        """Leave the machine to the broker of that name.

        Where no shared broker has it, all of them are suspended, for another process.
        """
        with contextlib.ExitStack() as stack:
            for other, broker in self.brokers().items():
                if other != name:
                    stack.enter_context(broker.suspended())
            yield

    def beside(self, measures: Mapping[str, Measure]) -> Sides:
        """Return the sides of a family that compares brokers."""
        return Sides(measures=measures, peer=PEER if self.has_peer else "")

    def stop_brokers(self) -> None:
        """Stop the two, where they run.

        A family with brokers of its own does that, and so does the end. The next family that asks
        gets new ones.
        """
        self._shared = {}
        self._stack.close()


Family = Callable[[Bench], contextlib.AbstractContextManager[Sides]]
AnyBench = TypeVar("AnyBench")
"""The bench that the families of one run share: a ``Bench``, or one of clusters."""


def imported(module: str, name: str) -> Family:
    """Return a family that is imported only when it is measured.

    The platform's imports would weigh on the clients that are measured without it.
    """

    def family(bench: Bench) -> contextlib.AbstractContextManager[Sides]:
        found: Family = getattr(import_module(module), name)
        return found(bench)

    return family


def of_shared_brokers(measure_broker: Callable[[BrokerProcess, Bench], list[Row]]) -> Family:
    """Return the family that measures each shared broker while the other one is suspended.

    An idle JVM takes several per cent of a core, which would be taken from ours.
    """

    @contextlib.contextmanager
    def family(bench: Bench) -> Iterator[Sides]:
        brokers = bench.brokers()

        def measure_alone(name: str) -> list[Row]:
            with bench.others_suspended(name):
                return measure_broker(brokers[name], bench)

        yield bench.beside({name: partial(measure_alone, name) for name in brokers})

    return family


def of_new_brokers(measure_new: Callable[[Prepare, Bench], list[Row]]) -> Family:
    """Return the family that starts a broker in an empty directory for each of its rounds."""

    @contextlib.contextmanager
    def family(bench: Bench) -> Iterator[Sides]:
        bench.stop_brokers()
        yield bench.beside(
            {name: partial(measure_new, prepare, bench) for name, prepare in bench.kinds.items()}
        )

    return family


@dataclass(slots=True, kw_only=True)
class Results:
    """The rows measured so far, and the reasons of the families that failed.

    ``keep`` is called after each turn with all rows so far, also those of the current family, so
    that a run that is cut off has these.
    """

    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    keep: Callable[[list[Row]], None] = lambda _rows: None


def say(text: str) -> None:
    """Print the progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(
    families: Iterable[tuple[str, Callable[[AnyBench], contextlib.AbstractContextManager[Sides]]]],
    bench: AnyBench,
    *,
    round_count: int,
    results: Results,
) -> None:
    """Measure one family after the other into ``results``.

    They hold everything that was finished, also when this ends early.
    """
    for name, family in families:
        try:
            measure_family(name, family(bench), round_count=round_count, results=results)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the other families can be measured
            say(f"{name} FAILED: {error!r}")
            results.failures[name] = f"{type(error).__name__}: {error}"


def measure_family(
    name: str,
    family: contextlib.AbstractContextManager[Sides],
    *,
    round_count: int,
    results: Results,
) -> None:
    """Measure a family's rounds.

    The rounds before a failure or an interruption are kept.
    """
    found: dict[str, list[list[Row]]] = {}
    sides = Sides(measures={})
    say(f"{name}: preparing")
    try:
        with family as sides:
            found = {side: [] for side in sides.measures}
            rounds = min(round_count, sides.most_rounds or round_count)
            for index in range(rounds):
                turns = list(sides.measures.items())
                for side, measure_side in reversed(turns) if index % 2 else turns:
                    say(f"{name}: round {index + 1} of {rounds}, {side}")
                    found[side].append(measure_side())
                    results.keep([*results.rows, *rows_beside(sides, found)])
    finally:
        results.rows += rows_beside(sides, found)


def rows_beside(sides: Sides, found: Mapping[str, list[list[Row]]]) -> list[Row]:
    """Return the results of all sides so far, each row beside the peer's."""
    ours = {side: table.merged(rounds) for side, rounds in found.items() if side != sides.peer}
    return table.beside(ours, sides.peer, table.merged(found.get(sides.peer, ())))
