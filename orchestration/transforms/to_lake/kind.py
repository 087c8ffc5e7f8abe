"""The kind of lake tables that follow one topic."""

from dataclasses import dataclass

from orchestration.transforms.declarations import TopicTable, table_key
from orchestration.transforms.kinds import Kind, Made, TopicFeed
from orchestration.transforms.replay.plan import ReplayRequest, why_no_replay_of_groups
from orchestration.transforms.replay.steps import Replayed, counted
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_lake.history import history_asset, replay_job
from orchestration.transforms.to_lake.replay import TableReplayer


@dataclass(frozen=True)
class LakeTable(Kind):
    """A table of the lake that follows one topic."""

    table: TopicTable

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.name

    @property
    def feed(self) -> TopicFeed:
        """Return the facts for sensor and lag."""
        table = self.table
        return TopicFeed(
            asset_key=table_key(table.name), table=table.name, topic=table.topic.name, minimum_interval_s=table.minimum_interval_s
        )

    @property
    def follower(self) -> TopicTable:
        """Return the table itself."""
        return self.table

    @property
    def is_replayed_whole(self) -> bool:
        """Return whether the table keeps aggregates."""
        return bool(self.table.aggregates)

    def why_no_replay(self, request: ReplayRequest) -> str | None:
        """Return why only everything can be replayed into a table of aggregates."""
        return why_no_replay_of_groups(self.name) if self.table.aggregates and not request.is_everything else None

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Replay the records of ``request``, a piece at a time."""
        replayer = TableReplayer(self.table, context)
        planned = replayer.plan(request)
        return counted(self.name, Replayed(lost=planned.lost, archived_count=planned.archived_count), replayer.run(planned))

    def definitions(self) -> Made:
        """Return the replay job, and the history by day unless the table keeps aggregates."""
        return Made(assets=[] if self.table.aggregates else [history_asset(self.table)], jobs=[replay_job(self.table)])
