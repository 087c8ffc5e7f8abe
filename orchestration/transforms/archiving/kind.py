"""The kind of table that archives a topic."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestration.retained.archive import Archive, archive_table
from orchestration.retained.lag import TopicLag
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving.planning import due_offsets, is_sweep_due, is_tidying_due
from orchestration.transforms.archiving.run import swept_at
from orchestration.transforms.declarations import table_key
from orchestration.transforms.kinds import Kind, Snapshot, TopicFeed
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.run.context import RunContext


@dataclass(frozen=True, slots=True)
class FullChunks:
    """Starts a run when a partition has a whole chunk of waiting offsets, or when a sweep is due.

    A sweep archives all waiting records. It is due ``within_s`` seconds after the last one.
    """

    archive: Archive
    is_each_record_awaited: bool = False

    def due_offsets(self, lag: TopicLag, snapshot: Snapshot, now_s: float) -> int:
        """Return how many of the pending offsets are to be archived now."""
        return due_offsets(lag, self.archive, swept_at(snapshot()), now_s) if lag.pending else 0

    def is_upkeep_due(self, snapshot: Snapshot, now_s: float) -> bool:
        """Return whether a run has to look for expired files."""
        return self.archive.kept_days is not None and is_tidying_due(
            self.archive, swept_at(snapshot()), now_s
        )

    def run_config(
        self,
        snapshot: Snapshot,
        now_s: float,
        *,
        follow_s: int,  # noqa: ARG002 - a StartRule
    ) -> Mapping[str, object]:
        """Return the config of a run, which archives only full chunks if no sweep is due."""
        return (
            {}
            if is_sweep_due(self.archive, swept_at(snapshot()), now_s)
            else {"only_full_chunks": True}
        )


@dataclass(frozen=True)
class ArchivingKind(Kind):
    """The archive of a topic."""

    spec: TopicSpec

    @property
    def name(self) -> str:
        """Return the name of the archive's table."""
        return archive_table(self.spec.name)

    @property
    def feed(self) -> TopicFeed:
        """Return the table's ``TopicFeed``, for the sensor and to measure lag."""
        start = FullChunks(self.spec.archived or Archive())
        return TopicFeed(
            asset_key=table_key(self.name),
            table=self.name,
            topic=self.spec.name,
            minimum_interval_s=None,
            start=start,
        )

    @property
    def is_replayable(self) -> bool:
        """Return False, because an archive holds each record as it was."""
        return False

    @property
    def has_dead_letters(self) -> bool:
        """Return False, because an archive accepts every record."""
        return False

    def why_no_replay(
        self,
        *,
        is_everything: bool = False,  # noqa: ARG002 - a StartRule
        is_of_dead_letters: bool = False,  # noqa: ARG002 - a Kind
    ) -> str:
        """Return why nothing is replayed into an archive, and how it is built anew."""
        return (
            f"{self.name} is the archive of the topic {self.spec.name}: it holds each record as it"
            " was, so that there is no replay into it. To have it built anew of what the log still"
            " holds, move the table's folder in the lake away: the next run begins at the log"
            " start. Records that only the archive holds are gone then"
        )

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:  # noqa: ARG002 - a Kind
        """Refuse the replay.

        :raises ValueError: says how the archive is built anew.
        """
        raise ValueError(self.why_no_replay())


def archive_of(spec: TopicSpec) -> ArchivingKind | None:
    """Return the archive that a topic declares, None if it declares none."""
    return None if spec.archived is None else ArchivingKind(spec)
