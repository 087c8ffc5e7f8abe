"""Measures the cost of an authorizer: produce in the clear with one, and without.

Both brokers of a product run all the time and are measured by turns, ``TURNS`` times in a round. A
figure of CPU swings by more than the difference, and the median of many neighbouring pairs does
not. The cost is the additional work of a broker with an authorizer, in per cent of the one without.
The goal is a bound of the cost itself.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.broker_process import BrokerProcess, touch_memory
from benchmarks.measured import Asked, Measured
from benchmarks.produce import MEGABYTE, PRODUCERS, produce_alone, produce_values
from benchmarks.rounds import Bench, Sides, say
from benchmarks.secure_brokers import AnyMeasured, guarded_brokers, others_suspended
from benchmarks.table import PERCENT, Row, at_least, value_at_most

TURNS = 3
ALONE_BYTES, ALONE_COUNT = 100, 96_000
VALUE_BYTES, VALUE_COUNT = 1_024, 500_000
MAX_COST_PERCENT = 5.0
Alone = Callable[[AnyMeasured], contextlib.AbstractContextManager[None]]
"""Leaves the machine to one of the measured brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The figures of one turn of one broker."""

    per_s: float
    cpu_us_each: float

    def mb_per_s(self, size_bytes: int) -> float:
        return self.per_s * size_bytes / MEGABYTE

    def cpu_s_per_gb(self, size_bytes: int) -> float:
        return self.cpu_us_each * 1e3 / size_bytes


def take_alone(broker: Measured, topic: str, bench: Asked) -> Taken:
    """Produce one record at a time from many producers."""
    count = bench.count(ALONE_COUNT, at_least=PRODUCERS)
    count -= count % PRODUCERS
    cpu_before = broker.cpu_s()
    seconds = produce_alone(broker.address, topic, ALONE_BYTES, count)
    return Taken(per_s=count / seconds, cpu_us_each=(broker.cpu_s() - cpu_before) / count * 1e6)


def take_values(broker: Measured, topic: str, bench: Asked) -> Taken:
    """Produce with as many records in a batch as there are."""
    count = bench.count(VALUE_COUNT)
    touch_memory(int(VALUE_BYTES * count * 1.2))
    cpu_before = broker.cpu_s()
    seconds = produce_values(broker.address, topic, VALUE_BYTES, count)
    return Taken(per_s=count / seconds, cpu_us_each=(broker.cpu_s() - cpu_before) / count * 1e6)


def rows_alone(open_ones: list[Taken], guarded: list[Taken]) -> Iterator[Row]:
    """Yield the figures of one-record batches."""
    name = f"one-record batches of {ALONE_BYTES} B, no authorizer"
    yield Row(
        figure=name,
        unit="records/s",
        rounds=tuple(each.per_s for each in open_ones),
        goal=at_least(1.0),
    )
    yield Row(
        figure=f"  broker CPU of {name}",
        unit="us each",
        rounds=tuple(each.cpu_us_each for each in open_ones),
    )
    name = f"one-record batches of {ALONE_BYTES} B, authorizer"
    yield Row(
        figure=name,
        unit="records/s",
        rounds=tuple(each.per_s for each in guarded),
        goal=at_least(1.0),
    )
    yield Row(
        figure=f"  broker CPU of {name}",
        unit="us each",
        rounds=tuple(each.cpu_us_each for each in guarded),
    )
    yield from cost_rows("one-record batches", open_ones, guarded)


def rows_of_values(open_ones: list[Taken], guarded: list[Taken]) -> Iterator[Row]:
    """Yield the figures of large batches."""
    name = "produce 1 KiB, no authorizer"
    yield Row(
        figure=name,
        unit="MB/s",
        rounds=tuple(each.mb_per_s(VALUE_BYTES) for each in open_ones),
        goal=at_least(1.0),
    )
    name = "produce 1 KiB, authorizer"
    yield Row(
        figure=name,
        unit="MB/s",
        rounds=tuple(each.mb_per_s(VALUE_BYTES) for each in guarded),
        goal=at_least(1.0),
    )
    rounds = tuple(each.cpu_s_per_gb(VALUE_BYTES) for each in guarded)
    yield Row(figure=f"  broker CPU of {name}", unit="s per GB", rounds=rounds)
    yield from cost_rows("produce 1 KiB", open_ones, guarded)


def cost_rows(
    name: str, without: list[Taken], with_it: list[Taken], of: str = "the authorizer"
) -> Iterator[Row]:
    """Yield the cost of the authorizer, pair by pair, in CPU and in throughput."""
    pairs = list(zip(without, with_it, strict=True))
    cpu = tuple(_percent_more(more.cpu_us_each, less.cpu_us_each) for less, more in pairs)
    time = tuple(_percent_more(less.per_s, more.per_s) for less, more in pairs)
    yield Row(
        figure=f"cost of {of} in broker CPU, {name}",
        unit=PERCENT,
        rounds=cpu,
        goal=value_at_most(MAX_COST_PERCENT),
    )
    yield Row(
        figure=f"cost of {of} in time, {name}",
        unit=PERCENT,
        rounds=time,
        goal=value_at_most(MAX_COST_PERCENT),
    )


def _percent_more(more: float, less: float) -> float:
    return (more / less - 1) * 100 if less else 0.0


def measure(
    open_one: AnyMeasured, guarded_one: AnyMeasured, alone: Alone[AnyMeasured], bench: Asked
) -> list[Row]:
    """Measure one round, by turns of two brokers or clusters: without an authorizer and with one.

    ``alone`` gives a turn.
    """
    of_alone: tuple[list[Taken], list[Taken]] = ([], [])
    of_values: tuple[list[Taken], list[Taken]] = ([], [])
    for turn in range(TURNS):
        for which in (1, 0) if turn % 2 else (0, 1):
            broker = (open_one, guarded_one)[which]
            with alone(broker):
                with broker.topic(PRODUCERS) as topic:
                    of_alone[which].append(take_alone(broker, topic, bench))
                with broker.topic() as topic:
                    of_values[which].append(take_values(broker, topic, bench))
    return [*rows_alone(*of_alone), *rows_of_values(*of_values)]


@contextlib.contextmanager
def guarded(bench: Bench) -> Iterator[Sides]:
    """Keep two brokers of each product from round to round."""
    bench.stop_brokers()
    with guarded_brokers(bench) as found:
        every = [each for pair in found.values() for each in pair]

        def alone(broker: BrokerProcess) -> contextlib.AbstractContextManager[None]:
            return others_suspended(broker, every)

        for name, pair in found.items():
            say(f"guarded: warming up {name}")
            measure(*pair, alone, bench.at_scale(1 / 3))
        yield bench.beside(
            {name: partial(measure, *pair, alone, bench) for name, pair in found.items()}
        )
