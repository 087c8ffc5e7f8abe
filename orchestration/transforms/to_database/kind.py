"""The kind of table that is in a database and follows one topic."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from orchestration.lake.tables import Lake
from orchestration.resources.database import DatabaseResource
from orchestration.resources.warehouse import WarehouseResource
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.kinds import Additions, Kind, Ownership, TopicFeed, feed_of
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed, replayed_by
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
        """Return the name of the table's declaration, and of its ledger."""
        return self.table.name

    @property
    def feed(self) -> TopicFeed:
        """Return the table's ``TopicFeed``, for the sensor and to measure lag."""
        return feed_of(self.follower)

    @property
    def follower(self) -> TopicTable:
        """Return the declaration of the table as one that follows a topic."""
        return self.table.follower

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Replay the records of ``request``, a piece at a time."""
        with opened(self.table, DatabaseResource(), WarehouseResource(), context.lake) as store:
            return replayed_by(
                DatabaseReplayer(Storing(declared=self.table, store=store), context),
                self.name,
                request,
            )

    @property
    def has_owner(self) -> bool:
        """Return True, because the table is in a database."""
        return True

    @contextmanager
    def ownership(
        self, database: DatabaseResource, warehouse: WarehouseResource, lake: Lake
    ) -> Iterator[Ownership]:
        """Open the table, and yield its owner.

        :raises StoreError: the database refuses.
        """
        with opened(self.table, database, warehouse, lake) as store:
            has_account = lake.snapshot(self.name) is not None
            yield Ownership(
                holder=store.holder, take=partial(store.take_over, is_of_this_lake=has_account)
            )

    def validate_beside(self, others: Iterable[Kind]) -> None:
        """Refuse a project in which two followers write the same table.

        :raises ValueError: names them.
        """
        validate_apart([one.table for one in others if isinstance(one, StoredKind)])

    def definitions(self) -> Additions:
        """Return the history by day, and the replay job."""
        return Additions(assets=[history_asset(self.table)], jobs=[replay_job(self.table)])
