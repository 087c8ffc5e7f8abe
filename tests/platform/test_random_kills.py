"""Every sink, source and shape holds each sent record once.

Its runs are killed anywhere, again and again. ROUNDS sets how often each is killed, SEED how: a
failure prints both, and the story. Runs of append tables, joins and topics are also killed in a
whole installation (``test_kill_loop``).
"""

import itertools
import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.broker_process import BrokerProcess
from tests.platform.databases import database
from tests.platform.dying_anywhere import Deaths
from tests.platform.kill_lines import (
    AggregateLine,
    AppendedLine,
    ArchiveLine,
    DatabaseLine,
    FilesLine,
    LatestLine,
    Line,
    MartLine,
    TableLine,
)

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(7_200),
    pytest.mark.repeats("kills at drawn moments of runs that other tests kill at every step"),
]
ROUNDS = int(os.environ.get("ROUNDS") or 20)
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 31))
DATABASES = list(itertools.product(["sqlite", "postgresql", "duckdb"], [True, False]))
"""Each kind of database, with tables of newest rows and of all rows."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.bootstrap


def survive(line: Line, name: str, directory: Path) -> None:
    """Feed and kill a line in rounds; after each it has to be exact."""
    rng = random.Random(f"{SEED} {name}")
    deaths = Deaths(rng, directory)
    fed = itertools.count()
    try:
        line.feed(next(fed))
        deaths.live(line.job(limit=1_000, is_replayed=False))
        line.feed(next(fed))
        deaths.learn(line.job(limit=1_000, is_replayed=True))
        line.judge()
        for _ in range(ROUNDS):
            line.feed(next(fed))
            for _ in range(rng.choice((1, 1, 2))):
                if not deaths.die(line.job(limit=rng.choice((7, 1_000)), is_replayed=True)):
                    line.feed(next(fed))  # or the next one would have nothing to do
                line.look()
            deaths.live(line.job(limit=rng.choice((7, 1_000)), is_replayed=False))
            line.judge()
    except BaseException as error:
        error.add_note("\n".join([f"ROUNDS={ROUNDS} SEED={SEED} {name}", *deaths.story]))
        raise
    logging.getLogger(__name__).info(
        "%s: %d deaths in %d rounds, SEED=%d", name, deaths.deaths, ROUNDS, SEED
    )


@pytest.mark.parametrize("shape", [AppendedLine, LatestLine, AggregateLine])
def test_a_table_holds_what_it_was_sent_wherever_its_runs_are_killed(
    shape: Callable[[str, Path], Line], spark_remote: str, tmp_path: Path
) -> None:
    line = shape(spark_remote, tmp_path)
    survive(line, type(line).__name__, tmp_path)


@pytest.mark.parametrize(("kind", "is_keyed"), DATABASES)
def test_a_table_of_a_database_holds_what_it_was_sent_wherever_its_runs_are_killed(
    kind: str, is_keyed: bool, spark_remote: str, tmp_path: Path
) -> None:
    with database(kind, tmp_path) as place:
        survive(
            DatabaseLine(spark_remote, tmp_path, place, is_keyed=is_keyed),
            f"{kind} {is_keyed}",
            tmp_path,
        )


def test_an_archive_holds_each_record_wherever_its_runs_are_killed(tmp_path: Path) -> None:
    survive(ArchiveLine(tmp_path), "archive", tmp_path)


@pytest.mark.parametrize(
    ("kind", "is_compared"),
    [("postgresql", False), ("sqlite", True)],
    ids=["by-cursor", "by-comparison"],
)
def test_each_change_of_a_table_is_sent_once_wherever_runs_are_killed(
    kind: str, is_compared: bool, bootstrap: str, tmp_path: Path
) -> None:
    with database(kind, tmp_path) as place:
        survive(TableLine(bootstrap, place, is_compared=is_compared), f"captured {kind}", tmp_path)


def test_each_line_of_a_file_is_sent_once_wherever_runs_are_killed(
    bootstrap: str, tmp_path: Path
) -> None:
    survive(FilesLine(bootstrap, tmp_path), "files", tmp_path)


def test_a_mart_is_the_old_or_the_new_one_wherever_its_builds_are_killed(tmp_path: Path) -> None:
    survive(MartLine(tmp_path), "mart", tmp_path)
