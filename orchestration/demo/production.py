"""Sends the demo's data through Tidelog's own producer, with a progress bar.

Counts the records that the broker acknowledged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from log_service.client import BlockingProducer, KafkaError, RecordMetadata
from orchestration.demo.directory import DemoError
from orchestration.demo.source import DataSet
from orchestration.log_client.connection import connect
from orchestration.settings import client_settings
from orchestration.topics.spec import TopicSpec, reconcile

PRODUCER_SETTINGS = {"compression": "zstd", "linger_ms": 20, "batch_size": 256 * 1024}
SHOW_EVERY = 2_000


@dataclass(slots=True, kw_only=True)
class Receipts:
    """Counts acknowledgements. Written by the producer's thread only."""

    acknowledged: int = 0
    errors: list[KafkaError] = field(default_factory=list)

    def note(self, _metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Count one record."""
        if error is None:
            self.acknowledged += 1
        elif len(self.errors) < 10:
            self.errors.append(error)


def create_topics(bootstrap_servers: str, specs: Sequence[TopicSpec]) -> None:
    """Create the topics as the project declares them."""
    with connect(bootstrap_servers) as log:
        for spec in specs:
            reconcile(log, spec)


def produce(bootstrap_servers: str, sets: Sequence[DataSet], console: Console) -> dict[str, int]:
    """Send all records and return, by topic, how many the broker acknowledged.

    :raises DemoError: the broker did not acknowledge all records.
    """
    columns = (
        TextColumn("  producing {task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9} records/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, console=console) as progress,
        BlockingProducer(bootstrap_servers, **PRODUCER_SETTINGS, **client_settings()) as producer,
    ):
        return {data.topic: _produce_one(producer, data, progress) for data in sets}


def _produce_one(producer: BlockingProducer, data: DataSet, progress: Progress) -> int:
    total = data.count()
    task = progress.add_task(data.topic, total=total, rate="")
    receipts = Receipts()
    sent = 0
    for sent, record in enumerate(data.records(), start=1):
        producer.send(data.topic, record.value, record.key, on_delivery=receipts.note)
        if sent % SHOW_EVERY == 0:
            _show(progress, task, receipts.acknowledged)
    producer.flush()
    _show(progress, task, receipts.acknowledged)
    if receipts.errors or receipts.acknowledged != sent:
        why = receipts.errors[0] if receipts.errors else "no reason was given"
        raise DemoError(
            f"only {receipts.acknowledged} of {sent} records of topic {data.topic} were"
            f" acknowledged: {why}"
        )
    return receipts.acknowledged


def _show(progress: Progress, task: "int", acknowledged: int) -> None:
    elapsed_s = progress.tasks[task].elapsed or 0.0
    rate = f"{acknowledged / elapsed_s:,.0f}" if elapsed_s > 0 else ""
    progress.update(task, completed=acknowledged, rate=rate)  # type: ignore[arg-type]
