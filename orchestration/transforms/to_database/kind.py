"""The kind of tables of a database that follow one topic."""

from collections.abc import Iterable
from dataclasses import dataclass

from orchestration.resources.database import DatabaseResource
from orchestration.resources.warehouse import WarehouseResource
from orchestration.transforms.declarations import TopicTable, table_key
from orchestration.transforms.kinds import Kind, Made, TopicFeed, all_declared
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed, counted
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_database.declarations import DatabaseTable, validate_apart
from orchestration.transforms.to_database.history import history_asset, replay_job
from orchestration.transforms.to_database.opening import opened
from orchestration.transforms.to_database.replay import DatabaseReplayer
from orchestration.transforms.to_database.run import Storing


@dataclass(frozen=True)
class StoredKind(Kind):
    """A table of a SQL database, or of a DuckDB file, that follows one topic."""

    table: DatabaseTable

    @property
    def name(self) -> str:
        """Return the name of the follower, and of its ledger."""
        return self.table.name

    @property
    def feed(self) -> TopicFeed:
        """Return the facts for sensor and lag."""
        follower = self.table.follower
        return TopicFeed(
            asset_key=table_key(self.name), table=self.name, topic=follower.topic.name, minimum_interval_s=follower.minimum_interval_s
        )

    @property
    def follower(self) -> TopicTable:
        """Return the follower."""
        return self.table.follower

    def why_no_replay(self, request: ReplayRequest) -> str | None:  # noqa: ARG002 - a Kind
        """Return None, because every replay is possible."""
        return None

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Replay the records of ``request``, a piece at a time."""
        with opened(self.table, DatabaseResource(), WarehouseResource(), context.lake) as store:
            replayer = DatabaseReplayer(Storing(declared=self.table, store=store), context)
            planned = replayer.plan(request)
            return counted(self.name, Replayed(lost=planned.lost, archived_count=planned.archived_count), replayer.run(planned))

    def validate_beside(self, others: Iterable[Kind]) -> None:
        """Refuse two followers of one table.

        :raises ValueError: names them.
        """
        validate_apart([one.table for one in others if isinstance(one, StoredKind)])

    def definitions(self) -> Made:
        """Return the history by day, and the replay job."""
        return Made(assets=[history_asset(self.table)], jobs=[replay_job(self.table)])


def declared_tables() -> dict[str, DatabaseTable]:
    """Return the declared tables of databases, by the name of their followers."""
    return {kind.name: kind.table for kind in all_declared() if isinstance(kind, StoredKind)}
