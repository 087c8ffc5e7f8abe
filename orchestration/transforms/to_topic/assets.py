"""The asset of a transform to a topic, as Dagster shows it.

Events hold offsets, rows, checks and counts of sent records. Another event says that the target has
new records. Decides what Dagster shows of a run, like
``orchestration.transforms.dagster_views.assets`` for tables. One sender is open for the whole run.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.settings import load_settings
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.assets import (
    Presentation,
    asset_spec,
    is_asset_selected,
    selected,
)
from orchestration.transforms.dagster_views.dead_letters import rejection_events
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.reporting import (
    DagsterReporter,
    Event,
    run_context,
    topic_events,
    with_verdicts,
)
from orchestration.transforms.declarations import pool_of, table_key
from orchestration.transforms.kinds import declare
from orchestration.transforms.run.following import follow
from orchestration.transforms.to_topic.declarations import TopicTransform, group_of
from orchestration.transforms.to_topic.events import AFTER_FAILURE, grown
from orchestration.transforms.to_topic.kind import SendingKind
from orchestration.transforms.to_topic.outgoing import sending
from orchestration.transforms.to_topic.run import Sending

TARGET_METADATA = "tidelog/target"


class TopicTransformConfig(dg.Config):
    """Overrides of one run. Without any, the run continues from the group's offsets."""

    accept_lost_records: bool = Field(
        default=False, description="Go on where retention removed records before they were read"
    )
    accept_remembered_offsets: bool = Field(
        default=False,
        description=(
            "The cluster forgot the group's offsets: go on from those that the ledger in the lake"
            " holds"
        ),
    )
    follow_s: int = Field(
        default=0,
        description=(
            "Go on with what comes for so many seconds, a transaction at a time; 0: one range"
        ),
    )


def topic_transform_asset(transform: TopicTransform, shown: Presentation) -> dg.AssetsDefinition:
    """Return the asset of ``transform``.

    It has no automation condition, because the topic sensor starts it.
    """
    table = transform.checked_by(sending(transform))
    key = table_key(transform.name)
    metadata = {TARGET_METADATA: transform.target.name}
    spec = asset_spec(
        key,
        [transform.source.asset_key],
        transform.table.function,
        shown,
        kinds={"pyspark", "kafka"},
        metadata=metadata,
    )

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[declare(SendingKind(transform), spec)],
        check_specs=events.check_specs(key, table.rules, table.suite),
        can_subset=True,
        pool=pool_of(transform.name),
    )
    def send_on(
        context: dg.AssetExecutionContext,
        config: TopicTransformConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
        if not is_asset_selected(context, transform.name):
            return
        group_id = group_of(transform.name, load_settings().deployment)
        with (
            explained(transform.name, spark, AFTER_FAILURE),
            log_service.open() as log,
            log.open_sender(group_id) as sender,
        ):
            reporter = DagsterReporter(context, table)
            run = run_context(
                context, log, lake, spark, reporter, is_loss_accepted=config.accept_lost_records
            )
            work = Sending(
                transform=transform,
                group_id=group_id,
                sender=sender,
                is_memory_trusted=config.accept_remembered_offsets,
            )
            for number, result in enumerate(
                follow(table, run, follow_s=config.follow_s, run=work.run)
            ):
                if result.version is not None:
                    reporter.committed(result.ranges)
                outcomes = selected(context, topic_events(context, table, result))
                shown = outcomes if number == 0 else events.plain_events(context.instance, outcomes)
                yield from with_verdicts(context, run, transform.name, [transform.source], shown)
                if result.version is not None:
                    yield grown(transform, log)
                yield from rejection_events(transform.name, result.letters)

    return send_on
