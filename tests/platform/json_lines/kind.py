"""The kind of tables of JSON lines, and the job that replays into one."""

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.resources.spark import SparkResource
from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.dagster_views.replays import (
    ReplayConfig,
    TableEvent,
    job_events,
    job_of,
    replay_context,
    replay_op,
    tagged,
)
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.kinds import Additions, Kind, TopicFeed, feed_of
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed, replayed_by
from orchestration.transforms.run.context import RunContext
from tests.platform.json_lines.replay import JsonLinesReplayer
from tests.platform.json_lines.run import JsonLines


@dataclass(frozen=True)
class JsonLinesKind(Kind):
    """A folder of JSON lines that follows one topic."""

    lines: JsonLines

    @property
    def name(self) -> str:
        """Return the name of the follower, and of the table of its files."""
        return self.follower.name

    @property
    def feed(self) -> TopicFeed:
        """Return the facts for sensor and lag."""
        return feed_of(self.follower)

    @property
    def follower(self) -> TopicTable:
        """Return the follower."""
        return self.lines.follower

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Replay the records of ``request``, a piece at a time."""
        return replayed_by(JsonLinesReplayer(self.lines, context), self.name, request)

    def definitions(self) -> Additions:
        """Return the replay job."""
        return Additions(jobs=[replay_job(self.lines)])


def replay_job(lines: JsonLines) -> dg.JobDefinition:
    """Return the job that replays the records of its config."""
    table = lines.follower

    @replay_op(table)
    def replay(
        context: dg.OpExecutionContext,
        config: ReplayConfig,
        log_service: LogServiceResource,
        spark: SparkResource,
        lake: LakeResource,
    ) -> Iterator[TableEvent | dg.Output[None]]:
        with tagged(context, config), explained(table.name, spark), log_service.open() as log:
            yield from job_events(
                context,
                table,
                config,
                JsonLinesReplayer(lines, replay_context(context, table, log, lake, spark)),
            )

    return job_of(table, replay)
