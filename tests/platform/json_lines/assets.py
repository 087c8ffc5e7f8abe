"""The decorator ``@json_lines``, and the asset that it makes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.assets import (
    Presentation,
    asset_spec,
    commit_events,
    is_asset_selected,
)
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.reporting import DagsterReporter, Event, run_context
from orchestration.transforms.declarations import TopicTable, Transform, pool_of, table_key
from orchestration.transforms.kinds import declare
from orchestration.transforms.run.following import follow
from tests.platform.json_lines.kind import JsonLinesKind
from tests.platform.json_lines.run import JsonLines

SHOWN = Presentation(group_name="files", tags=None, owners=None, freshness_policy=None)


class JsonLinesConfig(dg.Config):
    """Overrides of one run."""

    follow_s: int = Field(
        default=0,
        description="Go on with what comes for so many seconds, a commit at a time; 0: one range",
    )


def json_lines(
    *, name: str, topic: TopicSpec, directory: Path, **limits: Any
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Make a folder of JSON lines of a DataFrame function over ``topic``.

    :raises ValueError: the declaration makes no sense. The text says why.
    """

    def made(function: Transform) -> dg.AssetsDefinition:
        return json_lines_asset(
            JsonLines(directory, TopicTable(name=name, topic=topic, function=function, **limits))
        )

    return made


def json_lines_asset(lines: JsonLines) -> dg.AssetsDefinition:
    """Return the asset of ``lines``."""
    table = lines.follower
    key = table_key(table.name)
    spec = asset_spec(key, [table.topic.asset_key], table.function, SHOWN, kinds={"json"})

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[declare(JsonLinesKind(lines), spec)],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(table.name),
    )
    def follow_into_files(
        context: dg.AssetExecutionContext,
        config: JsonLinesConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
        if not is_asset_selected(context, table.name):
            return
        with explained(table.name, spark), log_service.open() as log:
            reporter = DagsterReporter(context, table)
            run = run_context(context, log, lake, spark, reporter)
            yield from commit_events(
                context,
                table,
                run,
                reporter,
                follow(table, run, follow_s=config.follow_s, run=lines.run),
            )

    return follow_into_files
