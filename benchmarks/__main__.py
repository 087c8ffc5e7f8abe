"""``python -m benchmarks``: run the figures that were asked for and print one table."""

import argparse
import os
import platform
import sys
from collections.abc import Callable

from benchmarks import consume, latency, produce, table, to_table
from benchmarks.broker_process import BrokerProcess, running_broker
from benchmarks.table import Row

Family = Callable[..., list[Row]]
FAMILIES: dict[str, Family] = {"produce": produce.measure, "consume": consume.measure, "latency": latency.measure}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure tidelog on this machine.")
    parser.add_argument("--only", nargs="+", choices=[*FAMILIES, "footprint", "to_table"], help="families of figures (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per figure (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full load (default: 1.0; 0.1 for a quick look)")
    parser.add_argument("--format", choices=["text", "markdown", "json"], default="text")
    return parser.parse_args()


def footprint_rows(broker: BrokerProcess, idle_bytes: int) -> list[Row]:
    return [
        Row(figure="start to first accepted produce", unit="s", rounds=(broker.start_to_first_produce_s,)),
        Row(figure="RSS idle", unit="MB", rounds=(idle_bytes / 1e6,)),
        Row(figure="RSS after the load", unit="MB", rounds=(broker.rss_bytes() / 1e6,)),
    ]


def main() -> None:
    options = arguments()
    wanted = options.only or [*FAMILIES, "footprint", "to_table"]
    rows: list[Row] = []
    if set(wanted) & {*FAMILIES, "footprint"}:
        with running_broker() as broker:
            idle_bytes = broker.rss_bytes()
            for name, measure in FAMILIES.items():
                if name in wanted:
                    print(f"measuring {name} ...", file=sys.stderr)
                    rows += measure(broker, round_count=options.rounds, scale=options.scale)
            rows += footprint_rows(broker, idle_bytes) if "footprint" in wanted else []
    if "to_table" in wanted:
        print("measuring to_table ...", file=sys.stderr)
        rows += to_table.measure(round_count=options.rounds, scale=options.scale)
    write = {"text": table.as_text, "markdown": table.as_markdown, "json": table.as_json}[options.format]
    if options.format != "json":
        print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, median of {options.rounds} rounds\n")
    print(write(rows))


if __name__ == "__main__":
    main()
