"""Transactions in numbers: verification, markers without a destination, late transactions.

Decides the names, and when a transaction is late. It is late when its producer was silent for
``transaction.max.timeout.ms`` and five minutes. By then no coordinator will end it any more.
Readers of committed records cannot read past its first record until an operator ends it.
"""

from collections.abc import Iterator

from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.metrics.state import counter, gauge
from log_service.broker.metrics.traffic import summary
from log_service.metrics.exposition import Family

LATE_AFTER_MS = 5 * 60_000
"""This is added to the longest timeout that a producer may request, as in Kafka."""


def late_before_ms(sources: MetricsSources) -> int:
    """Return the wall time, in ms, before which an open transaction counts as late.

    It is compared with the time of the producer's last write.
    """
    node = sources.node
    return node.clock.wall_ms() - node.config.transactions.max_timeout_ms - LATE_AFTER_MS


def transaction_families(sources: MetricsSources, late_count: int) -> Iterator[Family]:
    """Yield the families of verification, of pending markers, and of late transactions."""
    verifier = sources.node.transaction_verifier
    prefix = "kafka_server_addpartitionstotxnmanager_"
    times = verifier.times
    yield Family(
        name=f"{prefix}verificationtimems",
        type="summary",
        help=(
            "Time until a coordinator has said whether partitions are in a transaction, or added"
            " them, in milliseconds."
        ),
        samples=summary({}, times.recent(sources.now_ms()), times.count, times.sum_ns),
    )
    text = (
        "Partitions that are not in the transaction that a producer says, or whose coordinator was"
        " not reached."
    )
    yield counter(f"{prefix}verificationfailurerate_count", text, verifier.failure_count)
    prefix = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
    text = "Transactions that end with markers for partitions without a leader."
    yield gauge(
        f"{prefix}unknowndestinationqueuesize", text, sources.markers.unknown_destination_count
    )
    text = "Led partitions with a transaction that no coordinator will end."
    yield gauge("kafka_server_replicamanager_partitionswithlatetransactionscount", text, late_count)
