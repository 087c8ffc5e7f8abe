"""Metrics that clients pushed (KIP-714), on the metrics page.

Decides the names. A client's ``org.apache.kafka.producer.record.error.rate`` is
``kafka_client_producer_record_error_rate`` here. Its labels are the client's id, the id of its
instance and the labels that the client sent. A client's own label named like one of these two is
ignored.
"""

import re
from collections.abc import Iterator

from log_service.metrics.exposition import Family, Sample, labels
from log_service.storage.partition_metadata import format_uuid
from log_service.telemetry.series import PushedSeries, Shown, are_counts

PREFIX = "kafka_client_"
KAFKA = "org.apache.kafka."
OWN = "tidelog_client_telemetry"
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]+")


def pushed_families(series: PushedSeries, now_ms: int) -> Iterator[Family]:
    """Yield counts of the pushes, and every pushed metric."""
    if not series.push_count:
        return
    series.forget_silent(now_ms)
    for name, text, value in (
        ("clients", "Clients whose metrics are kept.", series.client_count),
        ("series", "Series of clients that are kept.", len(series)),
    ):
        yield Family(name=f"{OWN}_{name}", type="gauge", help=text, samples=[("", "", value)])
    for name, text, value in (
        ("pushes", "How often clients pushed metrics.", series.push_count),
        (
            "left_out",
            "Numbers of clients that were passed over, for want of room or because of their kind.",
            series.left_out_count,
        ),
    ):
        yield Family(
            name=f"{OWN}_{name}_total", type="counter", help=text, samples=[("", "", value)]
        )
    by_name: dict[str, list[Shown]] = {}
    for name, shown in series.by_name():
        by_name.setdefault(PREFIX + _plain(name.removeprefix(KAFKA)), []).extend(shown)
    for name, shown in by_name.items():
        samples: list[Sample] = [("", labels(_labels(each)), each.value.value) for each in shown]
        yield Family(
            name=name,
            type="counter" if are_counts(shown) else "gauge",
            help="Pushed by clients (KIP-714).",
            samples=samples,
        )


def _labels(shown: Shown) -> dict[str, str]:
    own = {"client_id": shown.client_id, "client_instance_id": format_uuid(shown.instance_id)}
    return {**{_label(name): value for name, value in shown.labels}, **own}


def _label(name: str) -> str:
    plain = _plain(name)
    return f"_{plain}" if plain[:1].isdecimal() or plain.startswith("__") or not plain else plain


def _plain(name: str) -> str:
    return _NO_NAME.sub("_", name)
