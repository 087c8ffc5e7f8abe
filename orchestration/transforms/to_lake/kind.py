"""The kind of table that is in the lake and follows one topic."""

from dataclasses import dataclass

from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.kinds import Additions, Kind, TopicFeed, feed_of
from orchestration.transforms.replay.plan import ReplayRequest, why_no_replay_of_groups
from orchestration.transforms.replay.steps import Replayed, replayed_by
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_lake.history import history_asset, replay_job
from orchestration.transforms.to_lake.replay import TableReplayer


@dataclass(frozen=True)
class LakeKind(Kind):
    """A table of the lake that follows one topic."""

    table: TopicTable

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.name

    @property
    def feed(self) -> TopicFeed:
        """Return the table's ``TopicFeed``, for the sensor and to measure lag."""
        return feed_of(self.table)

    @property
    def follower(self) -> TopicTable:
        """Return the table itself."""
        return self.table

    @property
    def is_replayed_whole(self) -> bool:
        """Return whether the table keeps aggregates, because such a table cannot replay a part."""
        return bool(self.table.aggregates)

    def why_no_replay(self, *, is_everything: bool, is_of_dead_letters: bool) -> str | None:  # noqa: ARG002 - a Kind
        """Return why a table of aggregates cannot replay a part, None if it is possible."""
        return (
            why_no_replay_of_groups(self.name)
            if self.table.aggregates and not is_everything
            else None
        )

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Replay the records of ``request``, a piece at a time."""
        return replayed_by(TableReplayer(self.table, context), self.name, request)

    def definitions(self) -> Additions:
        """Return the replay job, and the history by day unless the table keeps aggregates."""
        return Additions(
            assets=[] if self.table.aggregates else [history_asset(self.table)],
            jobs=[replay_job(self.table)],
        )
