"""Reads the bytes in and out of each topic from a broker's metrics page, for ``tidelog top``.

Reads two metrics of Prometheus's text format and skips all others. It reads the pages of tidelog
and of an Apache Kafka broker with the JMX exporter.
"""

import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException

from log_service.common.errors import ConfigError, ErrorCode, KafkaError

LINE = re.compile(
    r'kafka_server_brokertopicmetrics_bytes(in|out)_total\{topic="([^"]+)",?\} ([0-9.eE+]+)'
)
TIMEOUT_S = 5.0
MAX_PAGE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBytes:
    """The bytes that a topic received and sent since the broker started."""

    taken: float = 0
    given: float = 0

    def __add__(self, other: "TopicBytes") -> "TopicBytes":
        return TopicBytes(taken=self.taken + other.taken, given=self.given + other.given)


def read_topic_bytes(url: str) -> dict[str, TopicBytes]:
    """Return how many bytes each topic received and sent, from the page at ``url``.

    Raises:
        ConfigError: ``url`` is not the URL of a page.
        KafkaError: NETWORK_EXCEPTION, the page cannot be read.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"{url!r} is not an address of a metrics page, like http://127.0.0.1:9404/metrics"
        )
    try:
        return parse_topic_bytes(read_page(url))
    except (OSError, ValueError) as error:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{url} cannot be read: {error}") from error


def read_page(url: str, context: ssl.SSLContext | None = None) -> str:
    """Return the text of a page. ``url`` has to be one of http or https.

    Raises:
        OSError, ValueError: the page cannot be read.
    """
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S, context=context) as response:  # noqa: S310 - see above
            page: bytes = response.read(MAX_PAGE_BYTES)
    except urllib.error.HTTPError as error:
        error.close()  # it is the response, with its connection
        raise
    except HTTPException as error:
        raise OSError(f"the response is not HTTP: {error!r}") from error
    return page.decode("utf-8", "replace")


def parse_topic_bytes(text: str) -> dict[str, TopicBytes]:
    """Return how many bytes each topic received and sent, from a page's text."""
    found: dict[str, TopicBytes] = {}
    for direction, topic, value in LINE.findall(text):
        counted = (
            TopicBytes(taken=float(value)) if direction == "in" else TopicBytes(given=float(value))
        )
        found[topic] = found.get(topic, TopicBytes()) + counted
    return found
