"""Metrics pages become figures, and figures become rates and lags."""

import pytest

from log_service.common.types import TopicPartition
from log_service.http.console.history import metrics_page
from log_service.http.console.history.metrics_page import NodeFigures, PageReader
from log_service.http.console.history.rates import lag_key, producer_rates, sample_of

TIDELOG = r"""# TYPE kafka_server_brokertopicmetrics_messagesin_total counter
kafka_server_brokertopicmetrics_messagesin_total 120
kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 100
kafka_server_brokertopicmetrics_bytesin_total 9000
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.50"} 0.25
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 4
kafka_network_requestmetrics_totaltimems{request="FetchConsumer",quantile="0.99"} 500
kafka_network_requestmetrics_localtimems{request="FetchConsumer",quantile="0.99"} 2
kafka_consumergroup_current_offset{consumergroup="a \"b\" \\",topic="orders",partition="0"} 40
kafka_topic_partition_current_offset{topic="orders",partition="0"} 100
"""
KAFKA = """kafka_server_brokertopicmetrics_messagesin_total 7.0
kafka_server_brokertopicmetrics_bytesout_total{topic="orders",} 3.0
kafka_server_brokertopicmetrics_bytesout_total 1.0E3
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.50",} NaN
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99",} 12.5 1700000000000
"""
ORDERS = TopicPartition("orders", 0)


def read(text: str, length: int = 1 << 16) -> NodeFigures:
    reader, data = PageReader(), text.encode()
    for start in range(0, len(data), length):
        reader.feed(data[start : start + length])
    return reader.figures


@pytest.mark.parametrize("length", [1, 7, 100, 1 << 16])
def test_a_page_is_read_in_pieces_of_any_length(length: int) -> None:
    figures = read(TIDELOG, length)
    assert figures.totals == {"records in": 120, "bytes in": 9000}
    assert figures.times_ms == {
        ("produce", "p50"): 0.25,
        ("produce", "p99"): 4,
        ("fetch", "p99"): 2,
    }
    assert figures.committed == {('a "b" \\', ORDERS): 40}
    assert figures.ends == {ORDERS: 100}


def test_the_page_of_apache_kafka_is_read() -> None:
    figures = read(KAFKA)
    assert figures.totals == {"records in": 7, "bytes out": 1000}
    assert figures.times_ms == {("produce", "p99"): 12.5}


def test_a_hostile_page_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "MAX_FIGURES", 10)
    row = 'kafka_topic_partition_current_offset{{topic="t",partition="{}"}} {}\n'
    figures = read("".join(row.format(number, number) for number in range(100)))
    assert len(figures.ends) == 10
    wrong = 'kafka_topic_partition_current_offset{topic="t",partition="\u0661"} 1\n'
    odd = "kafka_server_brokertopicmetrics_messagesin_total 1e999\n" + "x" * (1 << 20) + "\n"
    figures = read(wrong + odd + "\x00\xff{" * 1_000 + "\n" + TIDELOG)
    assert figures.totals["records in"] == 120
    assert set(figures.ends) == {ORDERS}


def test_rates_are_those_of_all_nodes_and_never_negative() -> None:
    before = {"a": NodeFigures(totals={"records in": 100}), "b": NodeFigures()}
    now = {
        "a": NodeFigures(totals={"records in": 130}),
        "b": NodeFigures(totals={"records in": 1_000_000}),
        "c": NodeFigures(totals={"records in": 5}),
    }
    assert sample_of(before, now, 10.0) == {("records in",): 3.0}
    again = {"a": NodeFigures(totals={"records in": 10})}
    assert sample_of(now, again, 10.0) == {("records in",): 0.0}


def test_producers_have_a_rate_from_the_second_look_on() -> None:
    row = "# TYPE tidelog_producer_records_total counter\n"
    row += 'tidelog_producer_records_total{client_id="shop",topic="orders"} 40\n'
    figures, pair = read(row), ("shop", "orders")
    assert figures.is_naming_clients
    assert not read(KAFKA).is_naming_clients
    assert producer_rates({}, {"a": figures}, 10.0) == {pair: None}
    before = {"a": NodeFigures(), "b": figures}
    assert producer_rates(before, {"a": figures, "b": figures}, 10.0) == {pair: 4.0}


def test_the_slowest_node_tells_the_duration() -> None:
    key = ("produce", "p99")
    now = {"a": NodeFigures(times_ms={key: 3.0}), "b": NodeFigures(times_ms={key: 8.0})}
    assert sample_of({}, now, 1.0) == {key: 8.0}


def test_a_lag_needs_the_ends_of_all_partitions_whichever_node_has_them() -> None:
    other = TopicPartition("orders", 1)
    group = NodeFigures(committed={("g", ORDERS): 40, ("g", other): 7}, ends={ORDERS: 100})
    assert lag_key("g", "orders") not in sample_of({}, {"a": group}, 1.0)
    leader = NodeFigures(ends={other: 5})
    assert sample_of({}, {"a": group, "b": leader}, 1.0) == {lag_key("g", "orders"): 60.0}
