"""The asset of a table in a database, as Dagster shows it.

Events hold offsets, rows, checks, dead letters and the place of the table. Decides what Dagster
shows of a run, like ``orchestration.transforms.dagster_views.assets`` for lake tables. The asset
``lake/NAME`` is the ledger, which records the commits to the table.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from orchestration.resources.database import DatabaseResource
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.resources.warehouse import WarehouseResource
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.address import DUCKDB, SINK_METADATA, table_address
from orchestration.transforms.dagster_views.assets import (
    Presentation,
    asset_spec,
    commit_events,
    is_asset_selected,
)
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.reporting import DagsterReporter, Event, run_context
from orchestration.transforms.declarations import pool_of, table_key
from orchestration.transforms.kinds import declare
from orchestration.transforms.run.following import follow
from orchestration.transforms.to_database.declarations import DatabaseTable
from orchestration.transforms.to_database.kind import StoredKind
from orchestration.transforms.to_database.opening import opened, refusals_as_failures
from orchestration.transforms.to_database.run import Storing


class DatabaseTableConfig(dg.Config):
    """Overrides of one run. Without any, the run continues from the offsets in the database."""

    accept_lost_records: bool = Field(
        default=False, description="Go on where retention removed records before they were read"
    )
    follow_s: int = Field(
        default=0,
        description="Go on with what comes for so many seconds, a commit at a time; 0: one range",
    )


def database_table_asset(declared: DatabaseTable, shown: Presentation) -> dg.AssetsDefinition:
    """Return the asset of ``declared``.

    It has no automation condition, because the topic sensor starts it.
    """
    table = declared.follower
    key = table_key(table.name)
    metadata = {
        SINK_METADATA: declared.table,
        **table_address(declared.table, DUCKDB if declared.kind == DUCKDB else None),
    }
    spec = asset_spec(
        key,
        [table.topic.asset_key],
        table.function,
        shown,
        kinds={"pyspark", declared.kind},
        metadata=metadata,
    )

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[declare(StoredKind(declared), spec)],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(table.name),
    )
    def follow_into_database(  # noqa: PLR0917 - Dagster gives each resource by its name
        context: dg.AssetExecutionContext,
        config: DatabaseTableConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
        database: DatabaseResource,
        warehouse: WarehouseResource,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
        if not is_asset_selected(context, table.name):
            return
        with (
            explained(table.name, spark),
            refusals_as_failures(table.name),
            log_service.open() as log,
            opened(declared, database, warehouse, lake.open()) as store,
        ):
            reporter = DagsterReporter(context, table)
            run = run_context(
                context, log, lake, spark, reporter, is_loss_accepted=config.accept_lost_records
            )
            work = Storing(declared=declared, store=store)
            results = follow(table, run, follow_s=config.follow_s, run=work.run)
            yield from commit_events(context, table, run, reporter, results, has_days=True)

    return follow_into_database
