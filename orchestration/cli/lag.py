"""``tidelog lag``: shows the rows of each table of the project, and its lag behind its topics.

Lake and log service are queried when the command runs. The last run comes from the installation's
Dagster, if there is one.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from log_service.cli.output import cut, json_option, print_rows
from orchestration.cli.table_names import TABLE_PREFIXES, TableParameter
from orchestration.project.importing import kept_imports

if TYPE_CHECKING:
    import dagster as dg

    from orchestration.lake.tables import Lake
    from orchestration.log_client.protocol import LogClient
    from orchestration.settings import Settings
    from orchestration.transforms.kinds import TopicFeed
    from orchestration.warehouse.store import Warehouse

TIMEOUT_MS = 10_000
"""The limit of each request to the log service, because a person waits for the answer."""
COLUMNS = ("table", "topics", "rows", "lag", "seconds_behind", "failure")
SHOWN_REASON = 200


@click.command()
@click.argument("table", type=TableParameter(), required=False)
@json_option
def lag(*, table: str | None, as_json: bool) -> None:
    """Show the rows of each table and mart of the project, and the lag of those that follow topics.

    LAG counts the offsets that the table has not committed. SECONDS_BEHIND tells how long the
    oldest record waits. FAILURE tells why the last run failed, if it did. With TABLE only that one
    is shown. Call it in the folder of the project. Exit code 1 if the log service does not
    respond.
    """
    from orchestration.cli.surroundings import (  # noqa: PLC0415 - with the command
        explained,
        found_settings,
        loaded_project,
        project_folder,
    )

    settings = found_settings()
    project_folder()
    with kept_imports():
        assets = tuple(loaded_project().get_repository_def().assets_defs_by_key.values())
    with explained():
        found, trouble = looked_at(assets, table, settings)
    if not found and table is not None:
        known = (
            ", ".join(
                sorted({key.path[-1] for asset in assets for key in asset.keys if is_table(key)})
            )
            or "none"
        )
        raise click.ClickException(f"the project has no table {table}; it has {known}")
    print_rows(
        found,
        COLUMNS,
        as_json=as_json,
        empty="the project declares no table",
        flexible=("failure", "topics"),
    )
    if trouble:
        raise click.ClickException(f"lag is not known: {trouble}")


def looked_at(
    assets: "Sequence[dg.AssetsDefinition]", table: str | None, settings: "Settings"
) -> tuple[list[dict[str, Any]], str]:
    """Return a row per table, and the reason why lag is unknown, which is empty if it is known.

    With ``table`` only tables of that name have a row.
    """
    from orchestration.lake.tables import (  # noqa: PLC0415 - with the command, not with its help
        Lake,
    )
    from orchestration.log_client import connection  # noqa: PLC0415
    from orchestration.log_client.protocol import LogServiceError  # noqa: PLC0415
    from orchestration.transforms.kinds import topic_feeds  # noqa: PLC0415
    from orchestration.warehouse.store import Warehouse  # noqa: PLC0415

    lake = Lake(settings.lake_root)
    chosen = {
        key: asset
        for asset in assets
        for key in sorted(asset.keys)
        if is_table(key) and table in {None, key.path[-1]}
    }
    feeds = {feed.asset_key: feed for feed in topic_feeds(assets)}
    failed = failed_runs(chosen, settings)
    counts = Counts(lake, Warehouse(settings.warehouse_directory, lake), feeds)
    rows = []
    with ExitStack() as stack:
        log, trouble = None, ""
        try:
            log = (
                stack.enter_context(
                    connection.connect(settings.bootstrap_servers, timeout_ms=TIMEOUT_MS)
                )
                if feeds
                else None
            )
            lags = (
                dict(lag_columns(log, lake, [feed for key, feed in feeds.items() if key in chosen]))
                if log
                else {}
            )
        except LogServiceError as error:
            lags, trouble = {}, str(error)
        for key, asset in sorted(chosen.items()):
            feed = feeds.get(key)
            rows.append(
                {
                    "table": key.path[-1],
                    "asset": key.to_user_string(),
                    "topics": list(feed.topics) if feed else None,
                    "rows": counts.of(key, asset.metadata_by_key[key]),
                    **lags.get(key, {"lag": None, "seconds_behind": None}),
                    "failure": cut(failed[key], SHOWN_REASON) if key in failed else None,
                }
            )
    return rows, trouble


def is_table(key: "dg.AssetKey") -> bool:
    """Return whether an asset is a table, a mart, or a table in a database."""
    from orchestration.dead_letters.table import (  # noqa: PLC0415 - with the command, not with its help
        DEAD_LETTERS,
    )

    return len(key.path) > 1 and key.path[0] in TABLE_PREFIXES and key.path[-1] != DEAD_LETTERS


def lag_columns(
    log: "LogClient", lake: "Lake", feeds: "Sequence[TopicFeed]"
) -> "Iterator[tuple[dg.AssetKey, dict[str, Any]]]":
    """Yield the lag of each table whose topics exist.

    :raises LogServiceError: the log service does not respond.
    """
    from orchestration.retained.lag import (  # noqa: PLC0415 - with the command, not with its help
        measure_lag,
        seconds_behind,
    )

    for feed in feeds:
        measured = measure_lag(log, lake, topic=feed.topic, table=feed.table, also=feed.also)
        if measured is not None:
            yield (
                feed.asset_key,
                {
                    "lag": measured.lag,
                    "seconds_behind": seconds_behind(log, measured, time.time()),
                },
            )


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts the rows of tables in the lake and of tables in DuckDB files.

    Tables of a SQL database are not counted, and a transform to a topic has no rows.
    """

    lake: "Lake"
    warehouse: "Warehouse"
    feeds: "Mapping[dg.AssetKey, TopicFeed]"

    def of(self, key: "dg.AssetKey", metadata: Mapping[str, Any]) -> int | None:
        """Return the number of rows, None if the table does not exist yet, or is not counted."""
        from orchestration.lake.tables import (  # noqa: PLC0415 - with the command, not with its help
            LAKE_PREFIX,
        )
        from orchestration.transforms.dagster_views.address import SINK_METADATA  # noqa: PLC0415

        stored = metadata.get(SINK_METADATA)
        name = str(stored or key.path[-1])
        if key in self.feeds and self.feeds[key].target is not None:
            return None
        if key.path[0] == LAKE_PREFIX and stored is None:
            snapshot = self.lake.snapshot(name)
            return None if snapshot is None else snapshot.row_count
        if name not in self.warehouse.names():
            return None
        return int(self.warehouse.query(f'SELECT count(*) AS n FROM "{name}"')["n"][0].as_py())  # noqa: S608 - a validated name


def failed_runs(
    keys: "Collection[dg.AssetKey]", settings: "Settings"
) -> "Mapping[dg.AssetKey, str]":
    """Return, by asset, why its last run failed. It is empty without a Dagster instance."""
    from orchestration.installation.instance import (  # noqa: PLC0415 - with the command, not with its help
        open_instance,
    )
    from orchestration.project.home import dagster_home  # noqa: PLC0415
    from orchestration.sensing.failing_assets import FailingAssets  # noqa: PLC0415

    home = dagster_home(settings.data_directory)
    if not (home / "dagster.yaml").exists():
        return {}
    with open_instance(home) as instance:
        return {key: failed.why for key, failed in FailingAssets(instance).failed(keys).items()}
