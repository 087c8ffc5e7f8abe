"""The context of a topic table's run from Dagster, and the run's reports to Dagster.

Decides the tags of a run, the events of a committed batch or replay, and that a run fails if its
batch must not be committed. The table's own asset and its replays use it alike.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg
from deltalake.exceptions import DeltaError

from orchestration.log_client.protocol import LogClient, LogServiceError
from orchestration.offsets.ranges import OffsetRanges
from orchestration.resources.lake import LakeResource
from orchestration.resources.spark import SparkResource
from orchestration.retained.lag import measure_lag
from orchestration.retained.lag_objective import declared_objective, evaluation, lag_verdict
from orchestration.settings import load_settings
from orchestration.spark.session import shared_scratch
from orchestration.topics.registry_check import recent_evaluation
from orchestration.topics.spec import TopicSpec, schema_metadata
from orchestration.transforms.dagster_views import events
from orchestration.transforms.declarations import TopicTable, mirror_group, table_key
from orchestration.transforms.run.context import Reporter, RunContext, TopicRunResult

MAX_TAG_LENGTH = 200
Event = dg.AssetCheckResult | dg.MaterializeResult[None]
Shown = Event | dg.AssetCheckEvaluation | dg.AssetMaterialization
Context = dg.AssetExecutionContext | dg.OpExecutionContext


def run_context(
    context: Context,
    log: LogClient,
    lake: LakeResource,
    spark: SparkResource,
    reporter: Reporter,
    *,
    is_loss_accepted: bool = False,
) -> RunContext:
    """Return the context of a run, made from the settings and the resources of a Dagster run."""
    settings = load_settings()
    return RunContext(
        log=log,
        lake=lake.open(),
        session=lambda: spark.spark_session,
        reporter=reporter,
        run_id=context.run.run_id,
        records_per_run=settings.records_per_run,
        byte_limits=settings.byte_limits,
        arrow_records=settings.arrow_records,
        commit_attempts=settings.commit_attempts,
        scratch=shared_scratch(settings),
        is_loss_accepted=is_loss_accepted,
    )


class DagsterReporter:
    """Reports the progress of a run in Dagster's log and in the tags of the run."""

    def __init__(self, context: Context, table: TopicTable) -> None:
        self._context = context
        self._table = table
        self._committed: OffsetRanges | None = None

    def note(self, sentence: str) -> None:
        """Log a sentence for a person as a warning."""
        self._context.log.warning(sentence)

    def committed(self, ranges: OffsetRanges) -> None:
        """Remember committed ranges, which the next ``pin`` adds to those in the run's tag."""
        self._committed = ranges if self._committed is None else self._committed.spanning(ranges)

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        """Write the table's name and the ranges into the run's log and tags.

        The tag shows the span of these ranges and of those that the run has committed.
        """
        span = ranges if self._committed is None else self._committed.spanning(ranges)
        self._context.log.info(
            "%s: %s of topic %s (id %s), offsets %s",
            self._table.name,
            kind,
            ranges.topic,
            ranges.topic_id,
            ranges,
        )
        self._context.instance.add_run_tags(
            self._context.run.run_id, run_tags(self._table.name, ranges.topic, kind, str(span))
        )


def run_tags(table: str, topic: str, kind: str, span: str) -> dict[str, str]:
    """Return the tags that describe a run in Dagster's list of runs.

    ``kind`` says what the run reads the topic for, such as "batch" or "replay", and ``span`` is a
    text of its offsets.
    """
    return {
        "tidelog/table": table,
        "tidelog/topic": topic,
        "tidelog/kind": kind,
        "tidelog/range": shortened(span),
    }


def topic_events(context: Context, table: TopicTable, result: TopicRunResult) -> Iterator[Event]:
    """Yield the materialization and the checks of a batch or replay.

    The materialization comes first, because Dagster links a check to the newest one.

    :raises Failure: the batch must not be committed, and was not. Its checks were yielded.
    """
    key = table_key(table.name)
    if result.batch is None:
        state = result.state
        if events.is_announced(context.instance, key, state.topic_id, state.committed):
            context.log.info("%s: nothing new in topic %s", table.name, table.topic.name)
        else:
            context.log.info(
                "%s: an earlier run committed and could not tell; telling now", table.name
            )
            yield events.recovered_materialization(key, state)
        return
    checks = events.check_results(key, table.rules, result.batch.violations, result.outcomes)
    if result.failures:
        yield from checks
        raise_failures(
            table.name, result.failures, f"offsets {result.ranges} of topic {table.topic.name}"
        )
    topic = table.topic
    schema = schema_metadata(topic)
    yield events.topic_materialization(key, result, datetime.now(UTC), topic.fields, schema)
    yield from checks


def with_verdicts(
    context: Context,
    run: RunContext,
    name: str,
    topics: Sequence[TopicSpec],
    shown: Iterable[Shown],
) -> Iterator[Shown | dg.AssetCheckEvaluation]:
    """Yield ``shown``, and after each materialization the results of the table's checks.

    The checks are its lag objective, and the schemas of its ``topics`` in a registry, if any.
    Results follow each materialization, because Dagster treats a check that is older than the
    newest one as not evaluated.
    """
    within_s = declared_objective(table_key(name))
    for event in shown:
        yield event
        if not isinstance(event, dg.MaterializeResult | dg.AssetMaterialization):
            continue
        compatible = recent_evaluation(table_key(name), topics)
        if compatible is not None:
            yield compatible
        if within_s is None:
            continue
        first, *others = (one.name for one in topics)
        try:
            lag = measure_lag(run.log, run.lake, topic=first, table=name, also=others)
            if lag is not None:
                yield evaluation(
                    table_key(name),
                    lag_verdict(run.log, lag, within_s, int(run.now().timestamp() * 1000)),
                )
        except (
            LogServiceError,
            DeltaError,
            OSError,
        ) as error:  # the commit stands, and the watchdog judges, too
            context.log.warning(
                "%s: whether it keeps its objective cannot be told: %s", name, error
            )


def raise_failures(name: str, failures: Sequence[str], source: str) -> None:
    """Fail the run if there are ``failures``, the reasons for which nothing was committed.

    ``source`` is a text of the offsets or inputs, for the error.

    :raises Failure: there are reasons. It forbids retries.
    """
    if failures:
        raise dg.Failure(
            description=(
                f"{name} was not committed from {source}: {'; '.join(failures)}. "
                "Nothing is lost: correct the rule, the transform or the source and run again"
            ),
            allow_retries=False,
        )


def mirror(context: Context, table: TopicTable, run: RunContext, result: TopicRunResult) -> None:
    """Commit the table's offsets to its consumer group, for Kafka's tools."""
    mirror_progress(context, table.name, run, result.ranges.topic, result.next_offsets)


def mirror_progress(
    context: Context, name: str, run: RunContext, topic: str, offsets: Mapping[int, int]
) -> None:
    """Commit a table's offsets in a topic to its consumer group, for Kafka's tools.

    They are not a checkpoint, so a failure is only logged as a warning.
    """
    group_id = mirror_group(name, load_settings().deployment)
    try:
        run.log.mirror_offsets(group_id, topic, offsets)
    except Exception as error:  # noqa: BLE001 - the commit stands, whatever happens here
        context.log.warning("the offsets of group %s could not be mirrored: %s", group_id, error)


def milliseconds(text: str | None) -> int | None:
    """Return a time in milliseconds since 1970, None for an empty text.

    A time without zone is UTC.

    :raises ValueError: the text is not ISO 8601.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time: give ISO 8601, e.g. 2026-01-01T00:00:00Z"
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def shortened(text: str) -> str:
    """Return a text that fits into a tag."""
    return text if len(text) <= MAX_TAG_LENGTH else f"{text[: MAX_TAG_LENGTH - 3]}..."
