"""The command plays so many kills of a loaded node, and every case of a disk.

Or it plays so many faults of a cluster.

    python -m tests.chaos --kills 200 --seed 1
    python -m tests.chaos --kills 0 --case vanishes
    python -m tests.chaos --nodes 3 --kills 200 --seed 1

Returns 1 if a promise was broken; the directories of a cluster are kept then.
"""

# ruff: noqa: T201 - a command
import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import cluster_kills, disks, kills


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Kill a node and take its files away.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--case", default="", help="only the cases of a disk whose name has this text"
    )
    parser.add_argument("--nodes", type=int, choices=(1, 3, 5), default=1)
    options = parser.parse_args()
    if options.nodes > 1:
        return play_cluster(options.nodes, options.kills, options.seed)
    faults = play_cases(options.case)
    if options.kills:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            outcome = kills.run(Path(folder), options.kills, options.seed)
        print(outcome, flush=True)
        faults += len(outcome.faults)
    return 1 if faults else 0


def play_cluster(size: int, kills_count: int, seed: int) -> int:
    """Play faults of a cluster; return 1 if a promise was broken."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    outcome = cluster_kills.run(
        folder, kills_count, seed, size, told=lambda line: print(line, flush=True)
    )
    print(outcome, flush=True)
    if not outcome.faults:
        shutil.rmtree(folder)
    return 1 if outcome.faults else 0


def play_cases(text: str) -> int:
    """Play the cases whose name has a text, tell of each, and return how many failed."""
    failed = 0
    for name, case in disks.CASES.items():
        if text not in name:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            try:
                case(Path(folder))
                verdict = "holds"
            except disks.UnfitError as reason:
                verdict = f"SKIPPED: {reason}"
            except AssertionError as error:
                failed += 1
                verdict = f"BROKEN: {error}"
        print(f"{name:45} {time.monotonic() - begun:5.1f} s  {verdict}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
