"""``python -m benchmarks``: run the figures that were asked for and print one table."""

import argparse
import contextlib
import os
import platform
import sys
from collections.abc import Callable

from benchmarks import consume, latency, produce, table, to_table
from benchmarks.apache_kafka import running_apache_kafka
from benchmarks.broker_process import BrokerProcess, running_broker
from benchmarks.table import Row

Family = Callable[..., list[Row]]
FAMILIES: dict[str, Family] = {"produce": produce.measure, "consume": consume.measure, "latency": latency.measure}
FOOTPRINT, TO_TABLE = "footprint", "to_table"
OURS, PEER = "tidelog", "Apache Kafka"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure tidelog on this machine.")
    parser.add_argument("--only", nargs="+", choices=[*FAMILIES, FOOTPRINT, TO_TABLE], help="families of figures (default: all)")
    parser.add_argument("--peers", action="store_true", help="the same work against Apache Kafka, round by round, with the ratio")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per figure (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full load (default: 1.0; 0.1 for a quick look)")
    parser.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def broker_rows(wanted: list[str], *, rounds: int, scale: float, has_peer: bool) -> list[Row]:
    """Measure brokers in processes of their own, which take turns; both run all the time, so that a JVM stays warm."""
    with contextlib.ExitStack() as stack:
        brokers = {OURS: stack.enter_context(running_broker())}
        if has_peer:
            brokers[PEER] = stack.enter_context(running_apache_kafka())
        idle = {name: broker.rss_bytes() for name, broker in brokers.items()}
        found: dict[str, list[list[Row]]] = {name: [] for name in brokers}
        for index in range(rounds):
            for family in (name for name in FAMILIES if name in wanted):
                for name, broker in brokers.items():
                    say(f"round {index + 1} of {rounds}: {family} of {name}")
                    found[name].append(FAMILIES[family](broker, scale=scale))
        if FOOTPRINT in wanted:
            for name, broker in brokers.items():
                found[name].append(footprint_rows(broker, idle[name]))
    ours = table.merged(found[OURS])
    return table.beside(ours, table.merged(found[PEER])) if has_peer else ours


def footprint_rows(broker: BrokerProcess, idle_bytes: int) -> list[Row]:
    return [
        Row(figure="start to first accepted produce", unit="s", rounds=(broker.start_to_first_produce_s,)),
        Row(figure="RSS idle", unit="MB", rounds=(idle_bytes / 1e6,)),
        Row(figure="RSS after the load", unit="MB", rounds=(broker.rss_bytes() / 1e6,)),
    ]


def main() -> None:
    options = arguments()
    wanted = options.only or [*FAMILIES, FOOTPRINT, TO_TABLE]
    rows: list[Row] = []
    if set(wanted) & {*FAMILIES, FOOTPRINT}:
        rows += broker_rows(wanted, rounds=options.rounds, scale=options.scale, has_peer=options.peers)
    if TO_TABLE in wanted:
        say("measuring to_table ...")
        rows += to_table.measure(round_count=options.rounds, scale=options.scale)
    write = {"text": table.as_text, "markdown": table.as_markdown, "json": table.as_json}[options.format]
    if options.format != "json":
        print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, median of {options.rounds} rounds\n")
    print(write(rows))


if __name__ == "__main__":
    main()
