"""``tidelog top``: rates between two looks, order, and a screen that fits."""

from dataclasses import replace
from pathlib import Path

import pytest

from log_service.cli.top_metrics import TopicBytes, parse_topic_bytes
from log_service.cli.top_rates import GroupLook, Look, TopicLook, screen_of
from log_service.cli.top_registry import installed_registry, parse_registry, read_registry
from log_service.cli.top_view import Order, headline, table_text
from log_service.supervisor import state


def topic(end: int, *, size: int | None = 1_000, under_replicated: int = 0) -> TopicLook:
    return TopicLook(
        partition_count=2,
        under_replicated_count=under_replicated,
        leaderless_count=0,
        end_sum=end,
        record_count=end,
        size_bytes=size,
        leaders=(1, 2),
    )


PAGE = """\
# TYPE tidelog_http_requests_total counter
tidelog_http_requests_total{method="GET",path="/subjects/{subject}",status="200"} 30
tidelog_http_requests_total{method="GET",path="/metrics",status="200"} 1000
tidelog_http_requests_total{method="GET",path="/schemas/ids/{id}",status="404"} 10
tidelog_registry_is_writer 1
tidelog_registry_subjects 1
tidelog_registry_schemas 5
"""


def look(
    at_s: float,
    topics: dict[str, TopicLook],
    committed: int = 0,
    traffic: dict[str, TopicBytes] | None = None,
) -> Look:
    return Look(
        at_s=at_s,
        cluster_id="c" * 22,
        controller_id=1,
        brokers={1: "127.0.0.1:9092", 2: "127.0.0.1:9093"},
        topics=topics,
        groups={
            "billing": GroupLook(
                state="Stable", member_count=3, committed_sum=committed, lag=7, topics=("orders",)
            )
        },
        traffic=traffic or {},
    )


def test_rates_are_growth_per_second() -> None:
    before = look(10.0, {"orders": topic(100)}, 50, {"orders": TopicBytes(taken=1_000, given=0)})
    now = look(
        12.0,
        {"orders": topic(300), "fresh": topic(5)},
        70,
        {"orders": TopicBytes(taken=5_000, given=10)},
    )
    screen = screen_of(before, now)
    fresh, orders = screen.topics
    assert (orders["in"], orders["bytes_in"], orders["bytes_out"]) == (100.0, 2_000.0, 5.0)
    assert fresh["in"] is None, "what is new has no rate yet"
    assert screen.groups[0]["out"] == 10.0
    assert [(row["broker"], row["leads"], row["controller"]) for row in screen.brokers] == [
        (1, 2, True),
        (2, 2, False),
    ]


def test_a_topic_that_was_made_anew_did_not_shrink() -> None:
    assert (
        screen_of(look(0, {"orders": topic(100)}), look(1, {"orders": topic(10)})).topics[0]["in"]
        == 0.0
    )


def test_topics_are_sorted_by_any_column_and_turned_around() -> None:
    screen = screen_of(
        look(0, {"a": topic(0), "b": topic(0), "c": topic(0)}),
        look(1, {"a": topic(5, size=None), "b": topic(9, size=1), "c": topic(1)}),
    )
    order = Order("in")
    assert [row["topic"] for row in order(screen.topics)] == ["b", "a", "c"]
    assert not order.press("r")
    assert [row["topic"] for row in order(screen.topics)] == ["c", "a", "b"]
    order.press("r")
    order.press("s")
    assert order.key == "name"
    assert [row["topic"] for row in order(screen.topics)] == ["a", "b", "c"]
    assert [row["topic"] for row in Order("size")(screen.topics)] == ["c", "b", "a"], (
        "an unknown size is the least"
    )
    assert order.press("q")


def test_the_screen_fits_and_tells_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = {
        f"a-topic-with-a-name-that-is-very-long-{number:030}": topic(
            number, under_replicated=number % 2
        )
        for number in range(50)
    }
    screen = screen_of(look(0, names), look(1, names))
    text = table_text(screen, "in", 10)
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("cluster"))
    assert "1 under-replicated" in text
    assert text.count("a-topic") == 10
    assert "2 brokers  50 topics  100 partitions" in text


def test_bytes_are_read_from_pages_of_the_exporter_and_of_tidelog() -> None:
    page = (
        "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter\n"
        "kafka_server_brokertopicmetrics_bytesin_total 99\n"
        'kafka_server_brokertopicmetrics_bytesin_total{topic="orders",} 1.5E3\n'
        'kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 7\n'
    )
    assert parse_topic_bytes(page) == {"orders": TopicBytes(taken=1_500, given=7)}


def test_the_registry_has_a_line_of_its_own() -> None:
    """Its requests are those of clients, and not those of supervisors."""
    url = "http://127.0.0.1:8081"
    before, now = look(0, {}), look(2, {})
    then = replace(parse_registry(url, PAGE), request_count=20)
    screen = screen_of(
        replace(before, registry=then), replace(now, registry=parse_registry(url, PAGE))
    )
    assert (
        headline(screen).splitlines()[1]
        == f"registry {url}  1 subject  5 schemas  writes  10.0 requests/s"
    )
    assert len(headline(screen_of(before, now)).splitlines()) == 1
    first = screen_of(before, replace(now, registry=then))
    assert headline(first).endswith("  - requests/s"), "there is no rate yet"


def test_a_registry_that_cannot_be_read_keeps_no_cluster_from_being_shown() -> None:
    """The line says why. So does one for a page of something else."""
    now = replace(look(1, {}), registry=read_registry("http://127.0.0.1:1", {}))
    text = headline(screen_of(look(0, {}), now)).splitlines()[1]
    assert text.startswith("registry http://127.0.0.1:1  cannot be read: ")
    assert parse_registry("u", "up 1\n").failure == "its page has no figures of a registry"


def test_the_registry_of_an_installation_is_found(tmp_path: Path) -> None:
    """While the installation runs, and has one."""
    assert installed_registry(tmp_path) is None
    with state.held_lock(tmp_path):
        assert installed_registry(tmp_path) is None
        found = state.ComponentState(
            name="registry",
            state="ready",
            address="http://127.0.0.1:8085",
            pid=1,
            restart_count=0,
            log_path="x",
        )
        state.write(tmp_path, {"registry": found})
        assert installed_registry(tmp_path) == "http://127.0.0.1:8085"
