"""Reads the bytes that topics took and gave from a broker's metrics page, for ``tidelog top``.

Knows two lines of Prometheus's text format and passes over all others. It reads tidelog's page and
that of an Apache Kafka broker behind the JMX exporter.
"""

import re
import urllib.error
import urllib.request
from dataclasses import dataclass

from log_service.common.errors import ConfigError, ErrorCode, KafkaError

LINE = re.compile(r'kafka_server_brokertopicmetrics_bytes(in|out)_total\{topic="([^"]+)",?\} ([0-9.eE+]+)')
TIMEOUT_S = 5.0
MAX_PAGE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBytes:
    """The bytes of a topic since the broker started."""

    taken: float = 0
    given: float = 0

    def __add__(self, other: "TopicBytes") -> "TopicBytes":
        return TopicBytes(taken=self.taken + other.taken, given=self.given + other.given)


def read_topic_bytes(url: str) -> dict[str, TopicBytes]:
    """Return the bytes of each topic on the page at ``url``.

    Raises:
        ConfigError: ``url`` is no address of a page.
        KafkaError: NETWORK_EXCEPTION, it cannot be read.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is no address of a metrics page, like http://127.0.0.1:9404/metrics")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310 - http and https only, see above
            text = response.read(MAX_PAGE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{url} cannot be read: {error}") from error
    return parse_topic_bytes(text)


def parse_topic_bytes(text: str) -> dict[str, TopicBytes]:
    """Return the bytes of each topic in a page's text."""
    found: dict[str, TopicBytes] = {}
    for direction, topic, value in LINE.findall(text):
        counted = TopicBytes(taken=float(value)) if direction == "in" else TopicBytes(given=float(value))
        found[topic] = found.get(topic, TopicBytes()) + counted
    return found
