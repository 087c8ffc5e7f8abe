"""Hunts planted bugs in simulated clusters.

It has the seeds that are played with a bug, and the commands that play them.

A run ends where a witness finds something, so that most bugs are shown within a second.
"""

# ruff: noqa: T201 - commands

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.sim.cluster_plan import Aim, ClusterPlan, draw_cluster_plan
from tests.sim.cluster_runs import play_until_broken
from tests.sim.node_bugs import Bug, planted
from tests.sim.node_runs import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBug(Bug):
    """A planted bug that takes several nodes: the seeds are those of clusters.

    ``aim`` is the scenario that they are played with, where the weather of the general plan rarely
    comes to what the bug is about. ``is_long`` bugs take some three seconds or more, and only a long
    run plays them.
    """

    aim: Aim | None = None
    seed_limit: int = 24
    is_long: bool = False

    def plan_of(self, seed: int) -> ClusterPlan:
        return draw_cluster_plan(seed, aim=self.aim)


def first_noticed(bug: ClusterBug) -> Outcome | None:
    """Return what became of the first of the bug's seeds that shows it; None where none does."""
    with planted(bug):
        return next(
            (
                found
                for seed in bug.seeds()
                if (found := play_until_broken(seed, bug.aim)).violations
            ),
            None,
        )


def shown_by(bug: ClusterBug, last_seed: int) -> Iterator[tuple[Outcome, float]]:
    """Play each seed up to one that fits a bug.

    Yield the outcome of those that show it, and the seconds of CPU that each took.
    """
    with planted(bug):
        for seed in range(last_seed + 1):
            if bug.fits(bug.plan_of(seed)):
                begun = time.process_time()
                outcome = play_until_broken(seed, bug.aim)
                if outcome.violations:
                    yield outcome, time.process_time() - begun


def hunt(bugs: Sequence[ClusterBug], arguments: Iterable[str] | None = None) -> int:
    """Play bugs, and print which seed shows each.

    Return 1 if one of them was not noticed, and 2 if there is no such bug.
    """
    parser = argparse.ArgumentParser(
        description="Plant bugs into a simulated cluster, and see whether they are noticed."
    )
    parser.add_argument("name", nargs="?", default="", help="part of the names of the bugs to play")
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="LAST",
        help="play every seed up to this one, and say which of them show a bug",
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    chosen = [bug for bug in bugs if options.name in bug.name]
    if not chosen:
        print(
            f"no bug's name contains {options.name!r}; the names are: {', '.join(map(str, bugs))}",
            file=sys.stderr,
        )
        return 2
    missed = 0
    for bug in chosen:
        begun = time.process_time()
        if options.seeds is not None:
            found = list(shown_by(bug, options.seeds))
            told = ", ".join(f"{outcome.seed} ({seconds:.1f} s)" for outcome, seconds in found)
            outcome = found[0][0] if found else None
        else:
            outcome = first_noticed(bug)
            told = "" if outcome is None else f"seed {outcome.seed}: {outcome.violations[0]}"
        missed += outcome is None
        print(
            f"{bug}: {told or 'not noticed'} ({time.process_time() - begun:.0f} s of CPU)",
            flush=True,
        )
    return 1 if missed else 0
