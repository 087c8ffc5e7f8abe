"""Logins and handshakes on the metrics page: successes, failures, and expired logins.

Decides the names, which are those of Apache Kafka's socket server with a label for the mechanism. A
mechanism is one that the listener offers, so clients cannot create series. Failures are also shown
by address, for as many addresses as a listener counts apart. Of handshakes only failures are
counted. A node without logins and without TLS shows none of this.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from log_service.broker.metrics.sources import MetricsSources
from log_service.metrics.exposition import Family, Sample, labels
from log_service.metrics.failure_counts import TLS, FailureCounts

if TYPE_CHECKING:
    from log_service.broker.logins.login import LoginMeter

PREFIX = "kafka_server_socket_server_metrics"
FAILED = "failed_authentication"
COUNTS: Sequence[tuple[str, str, Callable[["LoginMeter"], int]]] = (
    ("successful_authentication", "Logins that succeeded", lambda meter: meter.success_total),
    (FAILED, "Logins and handshakes that failed", lambda meter: meter.failure_total),
    (
        "successful_reauthentication",
        "Repeated logins that succeeded",
        lambda meter: meter.repeated_success_total,
    ),
    (
        "failed_reauthentication",
        "Repeated logins that failed",
        lambda meter: meter.repeated_failure_total,
    ),
)


def login_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the logins of each listener and mechanism."""
    meters = {
        (name, mechanism): meter
        for name, login in sources.logins.items()
        for mechanism, meter in login.meters.items()
    }
    handshakes = {
        (name, TLS): server.failed_handshake_count
        for name in sources.tls_listeners
        if (server := sources.servers.get(name)) is not None
    }
    if not (meters or handshakes):
        return
    now_ms = sources.now_ms()
    for name, text, count in COUNTS:
        totals = {key: count(meter) for key, meter in meters.items()} | (
            handshakes if name == FAILED else {}
        )
        rates = {
            key: sources.rates.of((name, *key), value, now_ms) for key, value in totals.items()
        }
        yield Family(
            name=f"{PREFIX}_{name}_total", type="counter", help=f"{text}.", samples=_rows(totals)
        )
        yield Family(
            name=f"{PREFIX}_{name}_rate",
            type="gauge",
            help=f"{text} per second, lately.",
            samples=_rows(rates),
        )
    expired = {key: meter.expired_total for key, meter in meters.items()}
    text = "Connections that were closed because their login had ended."
    yield Family(
        name=f"{PREFIX}_expired_connections_killed_count",
        type="counter",
        help=text,
        samples=_rows(expired),
    )
    by_address: list[Sample] = [
        ("", labels({"listener": name, "mechanism": mechanism, "address": address}), count)
        for name, failures in _failures(sources)
        for mechanism, address, count in failures.items()
    ]
    if by_address:
        text = "Logins and handshakes that failed, repeated logins too, by the client's address."
        yield Family(
            name="tidelog_failed_logins_total", type="counter", help=text, samples=by_address
        )


def _failures(sources: MetricsSources) -> Iterator[tuple[str, FailureCounts]]:
    """Yield each listener's name with the failures there by address."""
    for name, login in sources.logins.items():
        yield name, login.failures
    for name, server in sources.servers.items():
        yield name, server.handshake_failures


def _rows(values: "dict[tuple[str, str], int] | dict[tuple[str, str], float]") -> list[Sample]:
    return [
        ("", labels({"listener": listener, "networkProcessor": 0, "mechanism": mechanism}), value)
        for (listener, mechanism), value in values.items()
    ]


def certificate_families(days_left: Mapping[str, int]) -> Iterator[Family]:
    """Yield the days until the certificates of listeners expire, if there are any."""
    if days_left:
        samples = [("", labels({"listener": name}), days) for name, days in days_left.items()]
        text = "Whole days until the certificate of a listener ends; negative once it has."
        yield Family(
            name="tidelog_listener_certificate_days_left", type="gauge", help=text, samples=samples
        )
