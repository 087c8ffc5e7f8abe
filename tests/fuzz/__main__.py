"""The command runs every engine in turn for a number of minutes, with figures.

Findings are written out, one file each.

    python -m tests.fuzz --minutes 10 --seed 1
    python -m tests.fuzz --replay build/fuzz/finding.json

Returns 1 if something was found, or if the replayed case still fails.
"""

# ruff: noqa: T201 - a command
import argparse
import logging
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.fuzz import decoders, hostile_broker, process_node, quorum_node, virtual_node
from tests.fuzz.cases import Case, Figures, Finding, read, write

Engine = Callable[..., tuple[Figures, list[Finding]]]
ENGINES: dict[str, Engine] = {
    "decoders": decoders.fuzz,
    "virtual_node": virtual_node.fuzz,
    "guarded_node": partial(virtual_node.fuzz, is_guarded=True),
    "hostile_broker": hostile_broker.fuzz,
    "process_node": process_node.fuzz,
    "quorum_node": quorum_node.fuzz,
}
REPLAYS: dict[str, Callable[[Case], str]] = {
    "decoders": decoders.replay,
    "virtual_node": virtual_node.replay,
    "guarded_node": virtual_node.replay,
    "hostile_broker": hostile_broker.replay,
    "process_node": process_node.replay,
    "quorum_node": quorum_node.replay,
}
LAPS = 4
"""Each engine gets its share of the time in so many parts, so that a short run and a long one see
the same of each.
"""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Send what nobody should send.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only these")
    parser.add_argument("--replay", type=Path, help="play the case of a file once more")
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    if options.replay:
        fault = play_again(options.replay)
        print(fault or "nothing is broken by it")
        return 1 if fault else 0
    return run(options.engine or list(ENGINES), options.minutes * 60, options.seed)


def play_again(path: Path) -> str:
    """Play the case of a file; returns what it broke, or nothing."""
    case = read(path)
    return REPLAYS[case.engine](case)


def run(engines: list[str], seconds: float, seed: int) -> int:
    """Give every engine its time, print what each did, and return 1 if something was found."""
    count = 0
    for lap in range(LAPS if seconds > 60 else 1):
        share = seconds / len(engines) / (LAPS if seconds > 60 else 1)
        for name in engines:
            figures, findings = ENGINES[name](seed + lap, seconds=share)
            print(told(name, figures, seed + lap), flush=True)
            for finding in findings:
                count += 1
                print(
                    f"  FOUND {str(finding)[:1500]}\n  again with: python -m tests.fuzz --replay {write(finding)}",
                    flush=True,
                )
    print(
        f"{count} findings; this process came to {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB"
    )
    return 1 if count else 0


def told(name: str, figures: Figures, seed: int) -> str:
    """The figures of one engine as text."""
    rate = figures.executions / max(figures.seconds, 0.001)
    lines = [
        f"{name} (seed {seed}): {figures.executions} executions in {figures.seconds:.0f} s, {rate:.0f}/s"
    ]
    for what, outcomes in figures.outcomes.items():
        lines.append(
            f"  {what:32} {sum(outcomes.values()):8}  "
            + ", ".join(f"{key} {number}" for key, number in sorted(outcomes.items()))
        )
    lines += [f"  {what}: {text}" for what, text in figures.notes.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
