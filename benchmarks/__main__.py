"""``python -m benchmarks`` runs the chosen figures and prints them, each beside its peer.

Results are printed even where a family failed or a person interrupted. The exit code is 1 then.
"""

import argparse
import os
import platform
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import psutil

from benchmarks import (
    consume,
    footprint,
    groups,
    latency,
    many_acls,
    metered,
    produce,
    queues,
    quotas,
    rebalances,
    rounds,
    table,
    transactions,
)
from benchmarks.access import access
from benchmarks.asyncio_clients import asyncio_clients
from benchmarks.canned import with_floor
from benchmarks.clients import clients
from benchmarks.console import console
from benchmarks.decisions import decisions
from benchmarks.encrypted import encrypted
from benchmarks.guarded import guarded
from benchmarks.handshakes import handshakes
from benchmarks.mirror import mirror
from benchmarks.partitions import partitions
from benchmarks.registry import registry
from benchmarks.rest import rest
from benchmarks.rounds import Bench, Family, Results, imported, of_new_brokers, of_shared_brokers
from benchmarks.schema_validation import schema_validation

NODE: Mapping[str, Family] = {
    "produce": of_shared_brokers(produce.measure),
    "consume": of_shared_brokers(consume.measure),
    "latency": with_floor(latency.measure),
    "groups": of_shared_brokers(groups.measure),
    "rebalances": of_shared_brokers(rebalances.measure),
    "transactions": of_shared_brokers(transactions.measure),
    "mirror": mirror,
    "registry": registry,
    "rest": rest,
    "console": console,
    "queues": of_shared_brokers(queues.measure),
    "quotas": of_shared_brokers(quotas.measure),
    "metered": of_shared_brokers(metered.measure),
    "footprint": of_new_brokers(footprint.measure),
    "partitions": partitions,
    "clients": clients,
    "asyncio": asyncio_clients,
    "decisions": decisions,
    "access": access,
    "acls": of_new_brokers(many_acls.measure),
    "encrypted": encrypted,
    "handshakes": handshakes,
    "guarded": guarded,
    "schema_validation": schema_validation,
}
PLATFORM: Mapping[str, Family] = {
    name: imported(f"benchmarks.{name}", name)
    for name in (
        "backlog",
        "backfill",
        "upserts",
        "marts",
        "to_table",
        "freshness",
        "registered",
        "empty_run",
        "idle",
    )
}
"""Families of the platform. Each is a function with the name of its module."""
FAMILIES = {**NODE, **PLATFORM}
SECURITY = ("access", "acls", "encrypted", "handshakes", "guarded")
GROUPS = {"node": tuple(NODE), "security": SECURITY, "platform": tuple(PLATFORM)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure tidelog on this machine."
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*GROUPS, *FAMILIES],
        help="families of figures, or all of node, security or platform (default: all)",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="the same work against Apache Kafka, round by round, with the ratio",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per figure (default: 3)")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="share of the full load (default: 1.0; 0.1 for a quick look)",
    )
    parser.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    return parser.parse_args()


def print_results(results: Results, options: argparse.Namespace) -> None:
    machine = machine_name()
    if options.format == "json":
        about = {
            "machine": machine,
            "rounds": options.rounds,
            "scale": options.scale,
            "failures": results.failures,
        }
        print(table.as_json(results.rows, **about))
        return
    print(f"{machine}; medians of {options.rounds} rounds at scale {options.scale:g}\n")
    print({"text": table.as_text, "markdown": table.as_markdown}[options.format](results.rows))
    print(f"\n{table.goals_met(results.rows)}")
    for name, reason in results.failures.items():
        print(f"\n{name} failed: {reason}")


def machine_name() -> str:
    """Return the machine of the figures: processor, cores, memory, system, Python."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    memory_gb = psutil.virtual_memory().total / 1e9
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return (
        f"{model}, {os.cpu_count()} cores, {memory_gb:.0f} GB, {system}, Python"
        f" {platform.python_version()}"
    )


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Let a SIGTERM end a run as Ctrl-C does: brokers are stopped and results are printed."""
    raise KeyboardInterrupt


def main() -> int:
    options = arguments()
    wanted = {family for name in options.only or GROUPS for family in GROUPS.get(name, (name,))}
    results = Results()
    bench = Bench(scale=options.scale, has_peer=options.peers, warm_up=footprint.warm_up)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        chosen = [(name, family) for name, family in FAMILIES.items() if name in wanted]
        rounds.measure(chosen, bench, round_count=options.rounds, results=results)
    except KeyboardInterrupt:
        results.failures["the run"] = "it was interrupted; what stands above was finished"
    finally:
        print_results(results, options)
        bench.stop_brokers()
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
