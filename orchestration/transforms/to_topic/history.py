"""The replay of a transform to a topic in Dagster: the job ``replay_NAME``.

The job sends rejected records that fit now. It waits for the transform's pool, as the transform's
own runs do. It reports the sent records on ``lake/NAME``, and that the target has new records. Its
config has the fields of every replay job. A range of offsets selects the dead letters in it.
"""

from collections.abc import Iterator

import dagster as dg

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.settings import load_settings
from orchestration.transforms.dagster_views.dead_letters import rejection_events
from orchestration.transforms.dagster_views.events import plain_events
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.replays import (
    JOB_PREFIX,
    ReplayConfig,
    TableEvent,
    job_with,
    keep_fixes,
    tagged,
)
from orchestration.transforms.dagster_views.reporting import (
    DagsterReporter,
    run_context,
    topic_events,
)
from orchestration.transforms.declarations import pool_of
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.to_topic.declarations import TopicTransform, group_of
from orchestration.transforms.to_topic.events import AFTER_FAILURE, grown
from orchestration.transforms.to_topic.outgoing import sending
from orchestration.transforms.to_topic.replay import planned_letters, run_letters_replay
from orchestration.transforms.to_topic.run import Sending


def letters_replay_job(transform: TopicTransform) -> dg.JobDefinition:
    """Return the job that replays the dead letters of its config."""
    name = JOB_PREFIX + transform.name
    table = transform.checked_by(sending(transform))
    description = (
        f"Send to {transform.target.name} what {transform.name} rejected and what fits now, each"
        " record once"
    )

    @dg.op(name=f"{name}_records", description=description, pool=pool_of(transform.name))
    def replay(
        context: dg.OpExecutionContext,
        config: ReplayConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[TableEvent | dg.Output[None]]:
        group_id = group_of(transform.name, load_settings().deployment)
        replayed = Replayed()
        with (
            tagged(context, config),
            explained(transform.name, spark, AFTER_FAILURE),
            log_service.open() as log,
        ):
            request = config.request()
            run = run_context(context, log, lake, spark, DagsterReporter(context, table))
            ranges, count = planned_letters(transform, run, request)
            if config.dry_run:
                yield dg.Output(
                    None,
                    metadata={
                        "offsets": str(ranges) or "none",
                        "offset_count": count,
                        "dry_run": True,
                    },
                )
                return
            keep_fixes(run.lake, transform.name, config.fixes, note=f"run {context.run.run_id}")
            with log.open_sender(group_id) as sender:
                work = Sending(transform=transform, group_id=group_id, sender=sender)
                for result in run_letters_replay(work, table, run, request):
                    yield from plain_events(context.instance, topic_events(context, table, result))
                    yield grown(transform, log)
                    yield from rejection_events(transform.name, result.letters)
                    replayed.add(result)
        yield dg.Output(None, metadata=replayed.metadata())

    return job_with(transform.name, replay, description)
