"""Compares three nodes of tidelog with three of Apache Kafka, with three replicas of everything.

    python -m benchmarks.cluster_peers

The results are written to two files after each turn, ``cluster_peers.json`` and
``cluster_peers.md``, so that a run that is cut off keeps them. The table is printed at the end. The
exit code is 1 where a family failed, was left out for want of time, or a person interrupted.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks import (
    cluster_faults,
    cluster_footprint,
    cluster_load,
    cluster_moves,
    cluster_partitions,
    groups,
    queues,
    quotas,
    rebalances,
    rounds,
    secure_clusters,
    table,
    transactions,
)
from benchmarks.__main__ import interrupt, machine_name
from benchmarks.apache_kafka import java_command
from benchmarks.broker_process import BenchmarkError
from benchmarks.cluster_nodes import SETTLED_S
from benchmarks.cluster_scaling import scaling
from benchmarks.clusters import (
    PATIENCE,
    ClusterBench,
    ClusterFamily,
    as_one_node,
    of_living_clusters,
    of_new_clusters,
)
from benchmarks.rounds import Results
from benchmarks.table import Row

FIGURES: Mapping[str, ClusterFamily] = {
    "produce": of_living_clusters(cluster_load.produce, PATIENCE),
    "spread": of_living_clusters(cluster_load.spread_produce, PATIENCE),
    "latency": of_living_clusters(cluster_load.latency, PATIENCE),
    "transactions": of_living_clusters(as_one_node(transactions.measure, 0.4), PATIENCE),
    "groups": of_living_clusters(as_one_node(groups.measure_groups), PATIENCE),
    "rebalances": of_living_clusters(as_one_node(rebalances.measure), PATIENCE),
    "queues": of_living_clusters(as_one_node(queues.measure), PATIENCE),
    "quotas": of_living_clusters(as_one_node(quotas.measure, 0.5), PATIENCE),
    "topics": of_living_clusters(cluster_moves.topics, PATIENCE),
    "moves": of_living_clusters(cluster_moves.moves, PATIENCE),
    "faults": of_living_clusters(cluster_faults.measure, {}, SETTLED_S),
    "footprint": of_new_clusters(cluster_footprint.measure),
    "encrypted": secure_clusters.encrypted,
    "guarded": secure_clusters.guarded,
    "scaling": scaling,
    "partitions": of_new_clusters(cluster_partitions.measure),
}
"""Families in the order of measurement: living clusters first, and the longest last."""
MOST_ROUNDS = {
    "transactions": 1,
    "groups": 1,
    "rebalances": 1,
    "queues": 1,
    "quotas": 1,
    "moves": 2,
    "faults": 2,
    "footprint": 2,
    "encrypted": 2,
    "guarded": 1,
    "scaling": 2,
    "partitions": 1,
}
"""The most rounds of families whose rounds take a minute and more, and differ little."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster_peers",
        description="Measure three nodes of tidelog beside three of Apache Kafka.",
    )
    parser.add_argument(
        "--figures",
        type=names,
        default=tuple(FIGURES),
        metavar="NAME,...",
        help=f"some of {', '.join(FIGURES)} (default: all)",
    )
    parser.add_argument(
        "--nodes", type=int, choices=[3], default=3, help="how many nodes a cluster has: three"
    )
    parser.add_argument("--alone", action="store_true", help="leave Apache Kafka out")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="rounds per figure (default: 3; the longest have fewer)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="share of the full load (default: 1.0; 0.05 to see that it works)",
    )
    parser.add_argument(
        "--cores", type=int, default=2, help="cores that clients and clusters share (default: 2)"
    )
    parser.add_argument(
        "--minutes", type=float, default=33.0, help="no family begins later than that (default: 33)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build"), help="where the two files go (default: build)"
    )
    return parser.parse_args()


def names(text: str) -> tuple[str, ...]:
    """Return the families of a comma-separated list.

    Raises:
        ArgumentTypeError: there is no such family.
    """
    found = tuple(text.split(","))
    unknown = [name for name in found if name not in FIGURES]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}"
        )
    return found


def keep_to_cores(count: int) -> None:
    """Let this process and all that it starts run on so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


class Report:
    """The two result files, rewritten after every measurement."""

    def __init__(self, directory: Path, about: Mapping[str, object]) -> None:
        self.json_file = directory / "cluster_peers.json"
        self.markdown_file = directory / "cluster_peers.md"
        self._about = about
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, rows: list[Row], failures: Mapping[str, str]) -> None:
        """Replace both files."""
        replace_file(self.json_file, table.as_json(rows, **self._about, failures=dict(failures)))
        replace_file(self.markdown_file, self.text(rows, failures))

    def text(self, rows: list[Row], failures: Mapping[str, str]) -> str:
        """Return the table, with the machine above it and the goals and failures below."""
        about = ", ".join(f"{name} {value}" for name, value in self._about.items())
        failed = [f"{name} failed: {reason}" for name, reason in failures.items()]
        return "\n\n".join([about, table.as_markdown(rows), table.goals_met(rows), *failed]) + "\n"


def replace_file(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old text or the new one, whole."""
    scratch = path.with_suffix(f"{path.suffix}.new")
    scratch.write_text(text)
    scratch.replace(path)


def measure(options: argparse.Namespace, bench: ClusterBench, results: Results) -> None:
    """Measure the families one after the other, as long as there is time for another."""
    began = time.monotonic()
    for name in options.figures:
        if time.monotonic() - began > options.minutes * 60:
            results.failures[name] = f"left out: {options.minutes:g} minutes were over"
            continue
        round_count = min(options.rounds, MOST_ROUNDS.get(name, options.rounds))
        family_began = time.monotonic()
        rounds.measure([(name, FIGURES[name])], bench, round_count=round_count, results=results)
        rounds.say(f"{name}: {time.monotonic() - family_began:.0f} s")


def main() -> int:
    options = arguments()
    if not options.alone:
        try:
            java_command()
        except BenchmarkError as error:
            sys.exit(f"{error}; --alone leaves Apache Kafka out")
    keep_to_cores(options.cores)
    about = {
        "machine": machine_name(),
        "cores": options.cores,
        "rounds": options.rounds,
        "scale": options.scale,
    }
    report, results = Report(options.out, about), Results()
    results.keep = lambda rows: report.write(rows, results.failures)
    bench = ClusterBench(
        scale=options.scale, has_peer=not options.alone, warm_up=cluster_load.warm_up
    )
    signal.signal(signal.SIGTERM, interrupt)
    try:
        measure(options, bench, results)
    except KeyboardInterrupt:
        results.failures["the run"] = "it was interrupted; what stands above was finished"
    finally:
        report.write(results.rows, results.failures)
        print(report.text(results.rows, results.failures))
        bench.stop()
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
