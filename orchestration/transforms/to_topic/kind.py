"""The kind of table that records what a transform sends to a topic."""

from dataclasses import dataclass
from datetime import UTC, datetime

from orchestration.settings import load_settings
from orchestration.transforms.declarations import table_key
from orchestration.transforms.kinds import Additions, EveryRecord, Kind, Snapshot, TopicFeed
from orchestration.transforms.ledger.ledger import is_reminder_due
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed, counted
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_topic.declarations import (
    TopicTransform,
    group_of,
    why_only_dead_letters,
)
from orchestration.transforms.to_topic.history import letters_replay_job
from orchestration.transforms.to_topic.outgoing import sending
from orchestration.transforms.to_topic.replay import run_letters_replay
from orchestration.transforms.to_topic.run import Sending


class Reminded(EveryRecord):
    """Starts a run for new records, and also before the cluster forgets the group's offsets."""

    def is_upkeep_due(self, snapshot: Snapshot, now_s: float) -> bool:
        """Return whether a run has to commit the group's offsets once more."""
        ledger = snapshot()
        return ledger is not None and is_reminder_due(ledger, datetime.fromtimestamp(now_s, UTC))


REMINDED = Reminded()


@dataclass(frozen=True)
class SendingKind(Kind):
    """A transform from a topic to a topic."""

    transform: TopicTransform

    @property
    def name(self) -> str:
        """Return the name of the transform and of its ledger."""
        return self.transform.name

    @property
    def feed(self) -> TopicFeed:
        """Return the transform's ``TopicFeed``, for the sensor and to measure lag."""
        return TopicFeed(
            asset_key=table_key(self.name),
            table=self.name,
            topic=self.transform.source.name,
            minimum_interval_s=self.transform.table.minimum_interval_s,
            target=self.transform.target.name,
            start=REMINDED,
        )

    def why_no_replay(self, *, is_everything: bool, is_of_dead_letters: bool) -> str | None:  # noqa: ARG002 - a Kind
        """Return why only dead letters can be replayed."""
        return None if is_of_dead_letters else why_only_dead_letters(self.transform)

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Send the dead letters of ``request`` that fit now."""
        group_id = group_of(self.name, load_settings().deployment)
        with context.log.open_sender(group_id) as sender:
            work = Sending(transform=self.transform, group_id=group_id, sender=sender)
            table = self.transform.checked_by(sending(self.transform))
            return counted(self.name, Replayed(), run_letters_replay(work, table, context, request))

    def definitions(self) -> Additions:
        """Return the job that replays dead letters."""
        return Additions(jobs=[letters_replay_job(self.transform)])
