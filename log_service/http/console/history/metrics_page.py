"""Reads the figures of a node from its metrics page, while the page arrives in pieces.

Reads the metrics of Prometheus's text format that the console shows, and skips all others. It
reads the pages of tidelog, of Apache Kafka with the JMX exporter, and of kafka_exporter.

Invariants: a piece is scanned once. A page keeps at most ``MAX_FIGURES`` figures, and no line
longer than ``MAX_LINE_BYTES`` is kept.
"""

import re
from dataclasses import dataclass, field
from math import isfinite

from log_service.common.types import TopicPartition

MAX_FIGURES = 200_000
MAX_LINE_BYTES = 64 << 10
TOTALS = {
    b"kafka_server_brokertopicmetrics_messagesin_total": "records in",
    b"kafka_server_brokertopicmetrics_bytesin_total": "bytes in",
    b"kafka_server_brokertopicmetrics_bytesout_total": "bytes out",
}
TIMES = {
    (b"kafka_network_requestmetrics_totaltimems", "Produce"): "produce",
    (b"kafka_network_requestmetrics_localtimems", "FetchConsumer"): "fetch",
}
"""The whole time of a produce, and the time of a fetch without its wait for records."""
QUANTILES = {"0.50": "p50", "0.5": "p50", "0.99": "p99"}
END_OFFSET = b"kafka_topic_partition_current_offset"
COMMITTED = b"kafka_consumergroup_current_offset"
PRODUCED = b"tidelog_producer_records_total"
LINE = re.compile(
    rb"^("
    + b"|".join([*TOTALS, *{name for name, _ in TIMES}, END_OFFSET, COMMITTED, PRODUCED])
    + rb")(?:\{([^\n]*)\})? ([0-9.eE+-]+)(?: [0-9]+)?\r?$",
    re.MULTILINE,
)
LABEL = re.compile(r'\b([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(.)")


@dataclass(slots=True, kw_only=True)
class NodeFigures:
    """The figures of one page.

    ``totals`` are counts since the node's start, by the names in ``TOTALS``. ``times_ms`` has the
    durations of requests by name and quantile, ``ends`` the end offsets of partitions, and
    ``committed`` the offsets of groups. ``produced`` counts records by client id and topic, and is
    empty if the node does not count them.
    """

    totals: dict[str, float] = field(default_factory=dict)
    times_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    ends: dict[TopicPartition, float] = field(default_factory=dict)
    committed: dict[tuple[str, TopicPartition], float] = field(default_factory=dict)
    produced: dict[tuple[str, str], float] = field(default_factory=dict)
    is_naming_clients: bool = False


class PageReader:
    """Reads a page in pieces of any length. ``figures`` has the figures of all lines so far."""

    def __init__(self) -> None:
        self.figures = NodeFigures()
        self._rest = b""
        self._room = MAX_FIGURES

    def feed(self, piece: bytes) -> None:
        """Read the next piece. A line is read once its end has arrived."""
        lines, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self._rest = (self._rest + piece)[:MAX_LINE_BYTES]
            return
        lines = self._rest + lines
        self.figures.is_naming_clients |= PRODUCED in lines
        for name, of_line, number in LINE.findall(lines):
            if self._room > 0:
                self._note(name, of_line, number)
        self._rest = rest[:MAX_LINE_BYTES]

    def _note(self, name: bytes, of_line: bytes, number: bytes) -> None:
        try:
            value = float(number)
        except ValueError:
            return
        if not isfinite(value):
            return
        labels = labels_of(of_line)
        figures = self.figures
        if name in TOTALS:
            if not labels:
                figures.totals[TOTALS[name]] = value
            return
        if name in {END_OFFSET, COMMITTED}:
            partition = labels.get("partition", "")
            if not (partition.isascii() and partition.isdigit() and len(partition) < 11):
                return
            where = TopicPartition(labels.get("topic", ""), int(partition))
            self._room -= 1
            if name == END_OFFSET:
                figures.ends[where] = value
            else:
                figures.committed[labels.get("consumergroup", ""), where] = value
            return
        if name == PRODUCED:
            self._room -= 1
            figures.produced[labels.get("client_id", ""), labels.get("topic", "")] = value
            return
        request = TIMES.get((name, labels.get("request", "")))
        quantile = QUANTILES.get(labels.get("quantile", ""))
        if request is not None and quantile is not None:
            figures.times_ms[request, quantile] = value


def labels_of(text: bytes) -> dict[str, str]:
    """Return the labels of a line by name."""
    found = {}
    for name, value in LABEL.findall(text.decode("utf-8", "replace")):
        found[name] = ESCAPE.sub(_unescaped, value) if "\\" in value else value
    return found


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
