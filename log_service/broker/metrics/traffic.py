"""Traffic of topics, and durations of requests.

The families are ``kafka_server_brokertopicmetrics_*`` and ``kafka_network_requestmetrics_*``.
Decides their names. A topic has a row of its own, and the sum of all topics has one without a
label, as in Kafka. The local time of an immediate response is its total time. The queue time is 0,
because there is no queue between a connection and its handler.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from log_service.metrics.exposition import Family, Labels, Sample, labels
from log_service.metrics.latency import NS_PER_MS, LatencyMeter, quantiles_ms
from log_service.metrics.request_meter import RequestMeter
from log_service.protocol.api_versions import ApiKey
from log_service.replication.traffic import Traffic

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
QUANTILE_TEXTS = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")

TopicCounter = tuple[str, str, Callable[[Traffic], int]]

TOPIC_COUNTERS: Sequence[TopicCounter] = (
    ("messagesin", "Records appended.", lambda traffic: traffic.record_count),
    ("bytesin", "Bytes of record batches appended.", lambda traffic: traffic.appended_bytes),
    ("bytesout", "Bytes of record batches sent to consumers.", lambda traffic: traffic.sent_bytes),
    (
        "totalproducerequests",
        "Partitions of produce requests.",
        lambda traffic: traffic.append_count,
    ),
    (
        "failedproducerequests",
        (
            "Partitions of produce requests that failed; what is refused as too large, damaged or"
            " stale is not counted."
        ),
        lambda traffic: traffic.failed_append_count,
    ),
    (
        "totalfetchrequests",
        "Partitions of fetch requests that were read.",
        lambda traffic: traffic.read_count,
    ),
    (
        "failedfetchrequests",
        (
            "Partitions of fetch requests that failed; offsets out of range and stale leaders are"
            " not counted."
        ),
        lambda traffic: traffic.failed_read_count,
    ),
)
SHARE_COUNTERS: Sequence[TopicCounter] = (
    (
        "totalsharefetchrequests",
        "Partitions of fetches of share groups.",
        lambda traffic: traffic.share_fetch_count,
    ),
    (
        "failedsharefetchrequests",
        "Those that failed.",
        lambda traffic: traffic.failed_share_fetch_count,
    ),
    (
        "totalshareacknowledgementrequests",
        "Partitions of acknowledgements of share groups.",
        lambda traffic: traffic.share_acknowledge_count,
    ),
    (
        "failedshareacknowledgementrequests",
        "Those that failed.",
        lambda traffic: traffic.failed_share_acknowledge_count,
    ),
)
"""Shown for the topics that share groups read, and for all topics together."""


def topic_families(topics: Mapping[str, Traffic], total: Traffic) -> Iterator[Family]:
    """Yield the counters of each topic and of all topics together."""
    shared = {
        topic: traffic
        for topic, traffic in topics.items()
        if traffic.share_fetch_count or traffic.share_acknowledge_count
    }
    for counters, of_topics in ((TOPIC_COUNTERS, topics), (SHARE_COUNTERS, shared)):
        for name, text, count in counters:
            samples = _by_topic(of_topics, total, count)
            yield Family(
                name=f"kafka_server_brokertopicmetrics_{name}_total",
                type="counter",
                help=text,
                samples=samples,
            )


def _by_topic(
    topics: Mapping[str, Traffic], total: Traffic, count: Callable[[Traffic], int]
) -> Iterator[Sample]:
    yield "", "", count(total)
    for topic, traffic in topics.items():
        yield "", labels({"topic": topic}), count(traffic)


def producer_family(produced: Iterable[tuple[str, str, int]]) -> Family:
    """Return the family of the records that each client appended to each topic."""
    samples: list[Sample] = [
        ("", labels({"client_id": client_id, "topic": topic}), count)
        for client_id, topic, count in produced
    ]
    return Family(
        name="tidelog_producer_records_total",
        type="counter",
        help="Records appended, by the id of the client that sent them.",
        samples=samples,
    )


def request_families(meters: Mapping[ApiKey, RequestMeter], now_ms: int) -> Iterator[Family]:
    """Yield counts by version and summaries of durations, for every API with a request."""
    used = {
        name: found for name, found in _named(meters) if any(any(meter.versions) for meter in found)
    }
    yield Family(
        name="kafka_network_requestmetrics_requests_total",
        type="counter",
        help="Requests by API and version.",
        samples=_by_version(used),
    )
    # Each meter is read once, because reading may begin a window.
    looks = {meter: _Recent(meter, now_ms) for found in used.values() for meter in found}
    recent = {name: [looks[meter] for meter in found] for name, found in used.items()}
    for suffix, text, parts in (
        (
            "totaltimems",
            "Time from a request's last byte to its response, in milliseconds.",
            _Recent.total,
        ),
        ("localtimems", "Time in the request's handler, in milliseconds.", _Recent.local),
        (
            "remotetimems",
            (
                "Time that a request waited for records, replicas, members or the disk, in"
                " milliseconds."
            ),
            _Recent.remote,
        ),
        (
            "requestqueuetimems",
            "Time between reading and handling, in milliseconds: there is no queue between them.",
            _Recent.queue,
        ),
    ):
        yield Family(
            name=f"kafka_network_requestmetrics_{suffix}",
            type="summary",
            help=text,
            samples=_summaries(recent, parts),
        )


def _named(meters: Mapping[ApiKey, RequestMeter]) -> Iterator[tuple[str, Sequence[RequestMeter]]]:
    """Yield each name of the request metrics with its meters.

    All fetches count under Fetch, and again under FetchConsumer or FetchFollower.
    """
    for key, meter in meters.items():
        name = "".join(part.capitalize() for part in key.name.split("_"))
        if meter.followers is None:
            yield name, (meter,)
        else:
            yield name, (meter, meter.followers)
            yield f"{name}Consumer", (meter,)
            yield f"{name}Follower", (meter.followers,)


def _by_version(used: Mapping[str, Sequence[RequestMeter]]) -> Iterator[Sample]:
    for name, found in used.items():
        for version, counts in enumerate(zip(*(meter.versions for meter in found), strict=True)):
            if any(counts):
                yield "", labels({"request": name, "version": version}), sum(counts)


Parts = tuple[Sequence[int], int, int]
"""Bucket counts of the last minutes, the number of all durations ever, and their sum in
nanoseconds.
"""


class _Recent:
    """The durations of one meter at one moment."""

    def __init__(self, meter: RequestMeter, now_ms: int) -> None:
        self._at_once, self._at_once_recent = meter.at_once, _recent_of(meter.at_once, now_ms)
        self._local, self._local_recent = (
            meter.delayed_local,
            _recent_of(meter.delayed_local, now_ms),
        )
        self._total, self._total_recent = (
            meter.delayed_total,
            _recent_of(meter.delayed_total, now_ms),
        )

    def total(self) -> Parts:
        return (
            _added(self._at_once_recent, self._total_recent),
            self._at_once.count + self._total.count,
            self._at_once.sum_ns + self._total.sum_ns,
        )

    def local(self) -> Parts:
        return (
            _added(self._at_once_recent, self._local_recent),
            self._at_once.count + self._local.count,
            self._at_once.sum_ns + self._local.sum_ns,
        )

    def remote(self) -> Parts:
        """Return the times that requests waited between handler and response.

        A delayed request counts with its whole time in the buckets, because its time in the handler
        is small compared to the wait. A request that got its response at once waited for 0.
        """
        waited = list(self._total_recent)
        waited[0] += sum(self._at_once_recent)
        return (
            waited,
            self._at_once.count + self._total.count,
            max(0, self._total.sum_ns - self._local.sum_ns),
        )

    def queue(self) -> Parts:
        return [0] * len(self._at_once_recent), self._at_once.count + self._local.count, 0


def _recent_of(meter: LatencyMeter, now_ms: int) -> Sequence[int]:
    return meter.recent(now_ms)


def _added(first: Sequence[int], second: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(first, second, strict=True)]


def _summaries(
    recent: Mapping[str, Sequence[_Recent]], parts: Callable[[_Recent], Parts]
) -> Iterator[Sample]:
    for name, found in recent.items():
        counts, counted, sums_ns = zip(*map(parts, found), strict=True)
        yield from summary(
            {"request": name},
            [sum(bucket) for bucket in zip(*counts, strict=True)],
            sum(counted),
            sum(sums_ns),
        )


def summary(
    values: Mapping[str, object], counts: Sequence[int], count: int, sum_ns: int
) -> Iterable[Sample]:
    """Yield the quantiles, the sum and the count of durations, in milliseconds."""
    plain: Labels = labels(values)
    for text, value in zip(QUANTILE_TEXTS, quantiles_ms(counts, QUANTILES), strict=True):
        yield "", labels({**values, "quantile": text}), round(value, 6)
    yield "_sum", plain, sum_ns / NS_PER_MS
    yield "_count", plain, count
