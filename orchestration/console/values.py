"""The facts on tables, as the console and the processes that find them share them.

Each value becomes JSON by ``dataclasses.asdict`` and comes back by its fields. This module imports
nothing of the platform, because the console's process has to stay small.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TEMPORARY_PREFIX = "tidelog-console-"
"""The beginning of the name of a process's own temporary folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """One table or mart of the project, as it is now.

    ``asset`` is its key as the Dagster UI shows it. ``topics`` are those that it follows itself,
    ``inputs`` the tables and marts that it is made of, ``sources`` all topics that its rows come
    from, also through other tables. ``target`` is the topic that a transform sends to. Numbers that
    are not known are None. ``failure`` is the reason why the last run failed, empty if it did not.
    """

    name: str
    asset: str
    topics: Sequence[str] = ()
    inputs: Sequence[str] = ()
    sources: Sequence[str] = ()
    target: str | None = None
    rows: int | None = None
    lag: int | None = None
    seconds_behind: float | None = None
    objective_s: int | None = None
    committed_ms: int | None = None
    records_per_s: float | None = None
    dead_letters: int = 0
    failure: str = ""
    is_running: bool = False
    is_mart: bool = False
