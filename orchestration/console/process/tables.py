"""The facts on the project's tables: their lag and state, one table's columns and commits.

The functions of ``tidelog lag`` find rows, lag and failures. This module adds commits, dead letters
and the topics that a table comes from.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import click
import dagster as dg

from orchestration.cli.lag import TIMEOUT_MS, looked_at
from orchestration.cli.surroundings import explained
from orchestration.console.commits import Commit, commit_of, pace_of
from orchestration.console.process.project import (
    Method,
    assets_now,
    current_settings,
    dagster_url,
    input_tables,
    inputs_of,
    source_topics,
)
from orchestration.console.values import TableFacts
from orchestration.dead_letters.table import DEAD_LETTERS, DeadLetters
from orchestration.installation.instance import open_instance
from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.log_client import connection
from orchestration.log_client.connection import topic_id_of
from orchestration.log_client.protocol import LogServiceError
from orchestration.project.home import UNFINISHED, dagster_home
from orchestration.retained.lag_objective import declared_objective
from orchestration.settings import Settings
from orchestration.topics.inputs import MART_PREFIX
from orchestration.topics.spec import TOPIC_PREFIX
from orchestration.transforms.kinds import topic_feeds
from orchestration.warehouse.store import Warehouse
from orchestration.warehouse.topics_in_sql import SCHEMA_NAME, topic_names

LOOKED_AT_COMMITS = 30
SHOWN_COMMITS = 50
LOOKED_AT_RUNS = 200


def tables() -> dict[str, Any]:
    """Return the facts on all tables, and why some of them are not known."""
    settings = current_settings()
    assets = assets_now()
    with explained():
        rows, trouble = looked_at(assets, None, settings)
        lake = Lake(settings.lake_root)
        letters = Counter[str]()
        for counted in DeadLetters(lake).summary():
            letters[str(counted["target"])] += int(counted["count"])
    running = running_assets(settings)
    feeds = {feed.asset_key.to_user_string(): feed for feed in topic_feeds(assets)}
    inputs = inputs_of(assets)
    now_ms = round(time.time() * 1_000)
    found = []
    for row in rows:
        key = dg.AssetKey.from_user_string(row["asset"])
        feed = feeds.get(row["asset"])
        commits = newest_commits(lake, row["table"], LOOKED_AT_COMMITS)
        facts = TableFacts(
            name=row["table"],
            asset=row["asset"],
            topics=tuple(row["topics"] or ()),
            inputs=input_tables(inputs[key]),
            sources=sorted({*source_topics(key, inputs), *(row["topics"] or ())}),
            target=None if feed is None else feed.target,
            rows=row["rows"],
            lag=row["lag"],
            seconds_behind=row["seconds_behind"],
            objective_s=declared_objective(key),
            committed_ms=commits[0].committed_ms if commits else None,
            records_per_s=pace_of(commits, now_ms),
            dead_letters=letters[row["table"]],
            failure=row["failure"] or "",
            is_running=row["asset"] in running,
            is_mart=key.path[0] == MART_PREFIX,
        )
        found.append(asdict(facts))
    return {
        "tables": found,
        "topics": declared_topics(assets),
        "trouble": trouble,
        "dagster_url": dagster_url(settings),
    }


def declared_topics(assets: Iterable[dg.AssetsDefinition]) -> list[str]:
    """Return the topics that the project declares or reads."""
    keys = {key for asset in assets for key in (*asset.keys, *asset.dependency_keys)}
    return sorted(key.path[-1] for key in keys if key.path[0] == TOPIC_PREFIX)


def running_assets(settings: Settings) -> Collection[str]:
    """Return the assets of unfinished runs of the installation's Dagster.

    Only the newest ``LOOKED_AT_RUNS`` of these runs are considered.
    """
    home = dagster_home(settings.data_directory)
    if not (home / "dagster.yaml").exists():
        return ()
    with open_instance(home) as instance:
        runs = instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)), limit=LOOKED_AT_RUNS)
    return {key.to_user_string() for run in runs for key in run.asset_selection or ()}


def newest_commits(lake: Lake, name: str, count: int) -> list[Commit]:
    """Return the newest commits of a table, the newest first.

    There are none if the table is not in the lake.
    """
    snapshot = lake.snapshot(name)
    return [] if snapshot is None else commits_of(snapshot, count)


def commits_of(snapshot: TableSnapshot, count: int) -> list[Commit]:
    """Return the newest commits of a table, the newest first."""
    return [commit_of(entry) for entry in snapshot.delta.history(count)]


def table(*, name: str) -> dict[str, Any]:
    """Return the columns and the commits of a table or mart.

    ``is_there`` of the result is False if neither lake nor warehouse has it.

    :raises ClickException: it cannot be read.
    """
    settings = current_settings()
    lake = Lake(settings.lake_root)
    warehouse = Warehouse(settings.warehouse_directory, lake)
    known = {*lake.names(), *warehouse.names()}
    if name not in known:
        return {"columns": [], "commits": [], "is_there": False}
    with explained():
        described = warehouse.query(f'DESCRIBE "{name}"')
        commits = newest_commits(lake, name, SHOWN_COMMITS)
    columns = [
        {"name": row["column_name"], "type": row["column_type"], "is_null": row["null"] == "YES"}
        for row in described.to_pylist()
    ]
    return {"columns": columns, "commits": [asdict(one) for one in commits], "is_there": True}


def topic_ids(*, names: Sequence[str]) -> dict[str, str]:
    """Return the ids of topics at the project's cluster, as UUIDs.

    Topics that do not exist are left out.

    :raises ClickException: the cluster does not respond.
    """
    settings = current_settings()
    try:
        with connection.connect(settings.bootstrap_servers, timeout_ms=TIMEOUT_MS) as log:
            found = [log.describe_topic(name) for name in names]
    except LogServiceError as error:
        raise click.ClickException(str(error)) from error
    return {one.topic: str(topic_id_of(one.topic_id)) for one in found if one is not None}


def relations(*, question: str) -> dict[str, list[str]]:
    """Return the tables and topics that a query reads, and more if that is not certain.

    The console checks the person's rights on them before it runs the query.
    """
    settings = current_settings()
    warehouse = Warehouse(settings.warehouse_directory, Lake(settings.lake_root))
    with explained():
        named = warehouse.relations_of(question)
    return {
        "tables": sorted(named - {DEAD_LETTERS}),
        "topics": sorted(topic_names(question)),
        "all": sorted([*named, *(f"{SCHEMA_NAME}.{each}" for each in topic_names(question))]),
        "has_dead_letters": [DEAD_LETTERS] if DEAD_LETTERS in named else [],
    }


METHODS: dict[str, Method] = {
    "tables": tables,
    "table": table,
    "topic_ids": topic_ids,
    "relations": relations,
}
