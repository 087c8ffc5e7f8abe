"""Replays from Python, without Dagster: ``replay(clean_orders, from_time="2026-01-01T00:00:00Z")``.

The function is for scripts and notebooks in a project's folder. It uses broker, lake, Spark and
database of the settings. The commits are those of the job ``replay_TABLE``, but the Dagster UI
does not show the replay.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import dagster as dg

from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.settings import Settings, load_settings
from orchestration.spark.session import close_session, open_session, shared_scratch
from orchestration.transforms.dagster_views.reporting import milliseconds
from orchestration.transforms.kinds import declare_of_topics, declared, replayable_names
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.run.context import RunContext

logger = logging.getLogger(__name__)


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
    """Read committed records once more into ``table``.

    ``table`` is an asset of the project, or its name once the project is imported. ``offsets`` are
    (partition, start, end), end exclusive. Times are of records, ``to_time`` exclusive, UTC if
    they name no zone. A transform to a topic takes ``dead_letters=True`` alone. A join and a table
    of aggregates take ``everything=True``. Records that the log no longer holds are read from the
    topic's archive. If only a part of a span of time can be read, that part is replayed, and
    ``lost`` of the result names the rest.

    :raises ValueError: no records are asked for, or ``table`` cannot take the request.
    :raises ReplayRefusedError: a check forbids the commit of a piece of the replay. Pieces that
        were committed before stay replayed.
    :raises ProgressError: a range was never committed, neither log nor archive holds it, or neither
        holds any record of a span of time.
    :raises LogServiceError: the log service cannot be reached.
    :raises StoreError: a database refuses.
    """
    request = ReplayRequest(
        ranges=tuple(
            OffsetRange(partition=partition, start=start, end=end)
            for partition, start, end in offsets
        ),
        from_ms=milliseconds(_text(from_time)),
        to_ms=milliseconds(_text(to_time)),
        is_everything=everything,
        is_of_dead_letters=dead_letters,
    )
    if request.is_empty:
        raise ValueError(
            "say what to replay: offsets, from_time and to_time, everything=True or"
            " dead_letters=True"
        )
    name = table if isinstance(table, str) else table.key.path[-1]
    declare_of_topics()
    kind = declared(name)
    if kind is None:
        known = ", ".join(replayable_names()) or "none"
        raise ValueError(
            f"no table {name} that follows a topic is declared; import the project first. Declared"
            f" tables: {known}"
        )
    is_of_dead_letters = request == ReplayRequest(is_of_dead_letters=True)
    why = kind.why_no_replay(is_everything=everything, is_of_dead_letters=is_of_dead_letters)
    if why is not None:
        raise ValueError(why)
    settings = load_settings()
    session = open_session(settings)
    try:
        with connect(settings.bootstrap_servers) as log:
            return kind.replay(_context(settings, log, session), request)
    finally:
        close_session(session, settings)


def _context(settings: Settings, log: LogClient, session: Any) -> RunContext:
    """Return the context of a replay outside of Dagster."""
    return RunContext(
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


def _text(moment: datetime | str | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
