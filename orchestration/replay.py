"""Replay from Python, without Dagster: ``replay(clean_orders, from_time="2026-01-01T00:00:00Z")``.

For scripts and notebooks in a project's folder. It uses broker, lake, Spark and database of the settings. The commits are those of the
job ``replay_TABLE``; the Dagster UI shows nothing of it.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from uuid import uuid4

import dagster as dg

from orchestration.connection import connect
from orchestration.log_client import LogClient
from orchestration.offsets import OffsetRange, OffsetRanges
from orchestration.resources.database import DatabaseResource
from orchestration.resources.warehouse import WarehouseResource
from orchestration.settings import load_settings
from orchestration.spark.session import close_session, open_session, shared_scratch
from orchestration.tables import Lake
from orchestration.transforms.declarations import declared_table
from orchestration.transforms.history import Replayer, TableReplayer
from orchestration.transforms.joining.declarations import declared_join, declared_joins
from orchestration.transforms.joining.replay import run_join_replay, summed
from orchestration.transforms.replay_plan import ReplayRequest
from orchestration.transforms.replay_run import Replayed
from orchestration.transforms.telling import milliseconds
from orchestration.transforms.to_database.assets import opened
from orchestration.transforms.to_database.declarations import declared_database_table, declared_database_tables
from orchestration.transforms.to_database.replay import DatabaseReplayer
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_topic.declarations import declared_transform, declared_transforms, group_of
from orchestration.transforms.to_topic.outgoing import sending
from orchestration.transforms.to_topic.replay import run_letters_replay
from orchestration.transforms.to_topic.run import Sending
from orchestration.transforms.topic_run import RunContext, TopicRunResult
from orchestration.transforms.without_replay import why_no_replay

logger = logging.getLogger(__name__)


class ReplayRefusedError(RuntimeError):
    """A piece of the replay must not be committed; the text says why. What was committed before stays replayed."""


class _LoggingReporter:
    def note(self, sentence: str) -> None:
        logger.warning("%s", sentence)

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        logger.info("%s of topic %s, offsets %s", kind, ranges.topic, ranges)


def replay(
    table: str | dg.AssetsDefinition,
    *,
    offsets: Sequence[tuple[int, int, int]] = (),
    from_time: datetime | str | None = None,
    to_time: datetime | str | None = None,
    everything: bool = False,
    dead_letters: bool = False,
) -> Replayed:
    """Read committed records once more into ``table``, an asset of the project or its name once the project is imported.

    ``offsets`` are (partition, start, end), end exclusive; times are of records, ``to_time`` exclusive, UTC where they name no zone. A
    transform to a topic takes ``dead_letters=True`` alone, a join and a table of aggregates ``everything=True``. What the log no longer
    holds is read from the topic's archive.

    :raises ValueError: nothing is asked for, or what ``table`` cannot take. :raises ReplayRefusedError: a check forbids the commit
        of a piece. :raises ProgressError: a range was never committed, or neither log nor archive holds it, or nothing of a span of time.
        Where a part of a span is left, that is replayed, and ``lost`` of what is returned names the rest. :raises LogServiceError: the
        log service cannot be reached. :raises StoreError: a database refuses.
    """
    request = ReplayRequest(
        ranges=tuple(OffsetRange(partition=partition, start=start, end=end) for partition, start, end in offsets),
        from_ms=milliseconds(_text(from_time)),
        to_ms=milliseconds(_text(to_time)),
        is_everything=everything,
        is_of_dead_letters=dead_letters,
    )
    if request.is_empty:
        raise ValueError("say what to replay: offsets, from_time and to_time, everything=True or dead_letters=True")
    name = table if isinstance(table, str) else table.key.path[-1]
    is_of_dead_letters = request == ReplayRequest(is_of_dead_letters=True)
    why = why_no_replay(name, is_everything=everything, is_of_dead_letters=is_of_dead_letters)
    if why is not None:
        raise ValueError(why)
    settings = load_settings()
    session = open_session(settings)
    try:
        with connect(settings.bootstrap_servers) as log:
            context = RunContext(
                log=log,
                lake=Lake(settings.lake_root),
                session=lambda: session,
                reporter=_LoggingReporter(),
                run_id=f"replay-{uuid4().hex}",
                records_per_run=settings.records_per_run,
                byte_limits=settings.byte_limits,
                arrow_records=settings.arrow_records,
                commit_attempts=settings.commit_attempts,
                scratch=shared_scratch(settings),
            )
            if name in declared_joins():
                whole = run_join_replay(declared_join(name), context, request)
                if whole.failures:
                    raise ReplayRefusedError(f"{name}: {'; '.join(whole.failures)}")
                return summed(whole)
            if name in declared_transforms():
                return _counted(name, Replayed(), _letters(name, context, request, log, settings.deployment))
            with _replayer(name, context) as replayer:
                planned = replayer.plan(request)
                return _counted(name, Replayed(lost=planned.lost, archived_count=planned.archived_count), replayer.run(planned))
    finally:
        close_session(session, settings)


def _counted(name: str, replayed: Replayed, results: Iterable[TopicRunResult]) -> Replayed:
    """Return ``replayed`` with what became of each piece.

    :raises ReplayRefusedError: a check forbids the commit of one.
    """
    for result in results:
        if result.failures:
            raise ReplayRefusedError(f"{name}, offsets {result.ranges}: {'; '.join(result.failures)}")
        replayed.add(result)
    return replayed


@contextmanager
def _replayer(name: str, context: RunContext) -> Iterator[Replayer]:
    """Yield what replays into a table of the lake, or of a database."""
    if name not in declared_database_tables():
        yield TableReplayer(declared_table(name), context)
        return
    declared = declared_database_table(name)
    with opened(declared, DatabaseResource(), WarehouseResource(), context.lake) as store:
        yield DatabaseReplayer(Storing(declared=declared, store=store), context)


def _letters(name: str, context: RunContext, request: ReplayRequest, log: LogClient, deployment: str | None) -> Iterator[TopicRunResult]:
    """Yield what becomes of each part of the dead letters of a transform to a topic."""
    transform, group_id = declared_transform(name), group_of(name, deployment)
    with log.open_sender(group_id) as sender:
        work = Sending(transform=transform, group_id=group_id, sender=sender)
        yield from run_letters_replay(work, transform.checked_by(sending(transform)), context, request)


def _text(moment: datetime | str | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
