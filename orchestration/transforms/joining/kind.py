"""The kind of table that joins two topics."""

from dataclasses import dataclass

from orchestration.transforms.declarations import table_key
from orchestration.transforms.joining.declarations import JoinedTable, why_only_everything
from orchestration.transforms.joining.history import join_replay_job
from orchestration.transforms.joining.replay import run_join_replay, summed
from orchestration.transforms.kinds import Additions, Kind, TopicFeed
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed, ReplayRefusedError
from orchestration.transforms.run.context import RunContext


@dataclass(frozen=True)
class JoinedKind(Kind):
    """A table of two joined topics."""

    table: JoinedTable

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.name

    @property
    def feed(self) -> TopicFeed:
        """Return the table's ``TopicFeed``, for the sensor and to measure lag."""
        table = self.table
        return TopicFeed(
            asset_key=table_key(table.name),
            table=table.name,
            topic=table.left.name,
            also=(table.right.name,),
            minimum_interval_s=table.minimum_interval_s,
        )

    @property
    def is_replayed_whole(self) -> bool:
        """Return True, because the partners of a record may be anywhere in the other topic."""
        return True

    def why_no_replay(self, *, is_everything: bool, is_of_dead_letters: bool) -> str | None:  # noqa: ARG002 - a Kind
        """Return why a part cannot be replayed, None if everything is requested."""
        return None if is_everything else why_only_everything(self.name)

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Join everything once more."""
        whole = run_join_replay(self.table, context, request)
        if whole.failures:
            raise ReplayRefusedError(f"{self.name}: {'; '.join(whole.failures)}")
        return summed(whole)

    def definitions(self) -> Additions:
        """Return the replay job."""
        return Additions(jobs=[join_replay_job(self.table)])
