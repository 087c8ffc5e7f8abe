"""The quotas of clients on the metrics page: pauses, and the clients nearest to their quotas.

Decides the names, and how many clients are shown. There may be any number of client ids, so only
those nearest to their quotas are shown.
"""

from collections.abc import Iterator, Mapping

from log_service.broker.quotas import ClientQuotas
from log_service.metrics.exposition import Family, Sample, labels
from log_service.quota.entities import QuotaKey
from log_service.quota.windows import Measured, Meters

MAX_SHOWN_COUNT = 50
"""The most rates that are shown for each kind of quota."""
PREFIX = "kafka_server_clientquotas"


def quota_families(quotas: ClientQuotas, now_ms: int) -> Iterator[Family]:
    """Yield pauses by kind of quota, and the rates that are nearest to their bounds."""
    meters: Mapping[QuotaKey, Meters] = {
        **quotas.meters,
        QuotaKey.CONNECTION_CREATION_RATE: quotas.addresses.meters,
    }
    used = {key: found for key, found in meters.items() if len(found) or found.pause_count}
    yield Family(
        name=f"{PREFIX}_throttled_total",
        type="counter",
        help="Requests whose client had to pause, and connections that were held back.",
        samples=[("", labels({"quota": key}), found.pause_count) for key, found in used.items()],
    )
    yield Family(
        name=f"{PREFIX}_throttle_seconds_total",
        type="counter",
        help="Seconds that clients were told to pause, all together.",
        samples=[
            ("", labels({"quota": key}), found.pause_total_ms / 1_000)
            for key, found in used.items()
        ],
    )
    shown = {key: found.shown(now_ms, MAX_SHOWN_COUNT) for key, found in used.items()}
    for name, text, value in (
        (
            "rate",
            (
                "Use of a quota per second by those who share it, nearest to their bounds first:"
                " bytes, percent or connections."
            ),
            _rate,
        ),
        ("limit", "The quota that they share, per second.", _bound),
    ):
        samples: list[Sample] = [
            ("", labels({"quota": key, "client": each.share}), value(each))
            for key, found in shown.items()
            for each in found
        ]
        yield Family(name=f"{PREFIX}_{name}", type="gauge", help=text, samples=samples)


def _rate(measured: Measured) -> float:
    return measured.rate


def _bound(measured: Measured) -> float:
    return measured.bound
