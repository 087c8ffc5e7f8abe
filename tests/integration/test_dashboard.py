"""The dashboard fits the page of a running broker.

It asks for existing metrics, adds up those that may be added, and names the unit.

``promtool``, where it is installed, reads the page and the queries as Prometheus does.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic
from tests.helpers.broker_process import BrokerThread
from tests.helpers.metrics_page import Page, ask

DASHBOARD = json.loads(
    (Path(__file__).resolve().parent.parent.parent / "dashboards" / "tidelog.json").read_text()
)
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
LOOKUPS = [variable["definition"] for variable in VARIABLES.values() if variable["type"] == "query"]

SELECTOR = re.compile(r"\b((?:kafka|process|python|tidelog)_[a-z0-9_]+)\{([^}]*)\}")
NAMES = re.compile(r'\{__name__=~"([a-z_|]+)"\}')
MATCHER = re.compile(r'(\w+)(?:=|!=|=~|!~)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
LOOKED_UP = re.compile(r"^label_values\(.*, (\w+)\)$")
SCRAPE_LABELS = {"job", "instance"}
"""Labels that Prometheus itself adds."""
ELSEWHERE = {
    "kafka_log_logflushstats_logflushrateandtimems_count_total": "kafka_log_logflushstats_logflushrateandtimems_count"
}
"""What the JMX exporter, from 1.0 on, makes of a name of ours."""
FILLED = {"$job": ".+", "$instance": ".+", "$topic": ".+", "$group": ".+", "$__rate_interval": "1m"}

UNITS = (
    (r"_(bytesin|bytesout)_total$", "Bps"),
    (r"_(log_size|resident_memory_bytes)$", "bytes"),
    (r"timems$", "ms"),
    (r"timems_count(_total)?$", "ops"),
    (r"avgidle_percent$|_cpu_seconds_total$", "percentunit"),
    (r"_messagesin_total$|^kafka_consumergroup_current_offset$", "cps"),
    (r"requests_total$", "reqps"),
)
PROMTOOL = shutil.which("promtool") or ""
needs_promtool = pytest.mark.skipif(
    not PROMTOOL,
    reason="promtool is not installed (Debian: apt-get install prometheus): Prometheus itself has not read it",
)
KNOWN_COMPLAINTS = {
    "camelCase": r"kafka_(server_(delayedoperation|socket_server|replicafetcher)|log_log\w*manager|network_processor)\w+",
    '"_sum" suffix': r"kafka_consumergroup_(lag|current_offset)_sum",
    '"_count" suffix': r"kafka_(server_socket_server_metrics_connection|log_logcleanermanager_uncleanable_partitions)_count",
    "abbreviated units": r"kafka_log_logcleanermanager_time_since_last_run_ms",
}
"""Names that dashboards for Kafka ask for; promtool would have others."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(
        tmp_path_factory.mktemp("dashboard"), properties={"metrics.listener": "127.0.0.1:0"}
    ) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics([NewTopic(name="orders", partition_count=2)])
        with BlockingProducer(running.bootstrap) as producer:
            for number in range(20):
                producer.send("orders", b"value", partition=number % 2)
            producer.flush()
        with BlockingConsumer(
            running.bootstrap, group_id="readers", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            while not consumer.poll(20, timeout_ms=1_000):
                pass
            consumer.commit()
            yield ask(running)[1]


@pytest.fixture
def page(text: str) -> Page:
    return Page(text)


def selectors(query: str) -> list[tuple[str, set[str]]]:
    """Return the names that a query asks for, each with the labels that it looks at."""
    grouped = {label.strip() for found in GROUPED.findall(query) for label in found.split(",")}
    grouped |= set(LOOKED_UP.findall(query))
    return [
        (name, set(MATCHER.findall(matchers)) | grouped)
        for name, matchers in SELECTOR.findall(query)
    ]


@pytest.mark.parametrize("query", TARGETS + LOOKUPS)
def test_a_query_asks_for_what_there_is(query: str, page: Page) -> None:
    asked = selectors(query)
    names = {name for name, _ in asked} | {
        name for found in NAMES.findall(query) for name in found.split("|")
    }
    assert names
    assert names - {name for name, _ in page.values} - set(ELSEWHERE) == set()
    assert {ELSEWHERE[name] for name in names & set(ELSEWHERE)} <= names
    for name, labels in asked:
        assert labels - page.labels_of(ELSEWHERE.get(name, name)) - SCRAPE_LABELS == set(), name


@pytest.mark.parametrize("query", TARGETS)
def test_a_query_is_of_the_chosen_jobs_so_that_clusters_are_not_added_up(query: str) -> None:
    assert selectors(query)
    assert all('job=~"$job"' in matchers for _, matchers in SELECTOR.findall(query))


@pytest.mark.parametrize("query", TARGETS)
def test_rates_are_of_counters_and_slopes_of_gauges(query: str, page: Page) -> None:
    found = SELECTOR.findall(query)
    assert query.count("[") == query.count("[$__rate_interval]")
    for name, _ in found:
        if page.only_grows(ELSEWHERE.get(name, name)):
            assert re.search(rf"\brate\({name}\{{[^}}]*\}}\[\$__rate_interval\]\)", query), (
                "a counter says nothing but how fast it grows"
            )
        else:
            assert f"rate({name}" not in query, "what falls is taken for a restart by rate()"


def test_the_dashboard_asks_for_many_things() -> None:
    assert len({name for query in TARGETS + LOOKUPS for name, _ in SELECTOR.findall(query)}) >= 25


def test_a_count_is_found_under_the_name_of_every_exporter() -> None:
    counts = [
        name
        for query in TARGETS
        for name, _ in SELECTOR.findall(query)
        if name.endswith(("_count", "_count_total"))
    ]
    distributions = [name for name in counts if "timems_" in name]
    assert sorted(distributions) == sorted([*ELSEWHERE, *ELSEWHERE.values()])


def test_fetches_are_not_counted_twice() -> None:
    """Kafka counts a fetch as Fetch and as that of a consumer or of a follower."""
    asked = [query for query in TARGETS if "kafka_network_requestmetrics_requests_total" in query]
    assert asked
    assert all('request!~"FetchConsumer|FetchFollower"' in query for query in asked)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["datasource"]["uid"] == "${datasource}"
    unit = panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        for name, _ in SELECTOR.findall(target["expr"]):
            wanted = next((found for pattern, found in UNITS if re.search(pattern, name)), unit)
            assert unit == wanted
    references = [target["refId"] for target in panel["targets"]]
    assert len(references) == len(set(references))


@pytest.mark.parametrize(
    "panel",
    [panel for panel in PANELS if panel["type"] == "timeseries"],
    ids=lambda panel: panel["title"],
)
def test_a_line_breaks_where_nothing_was_measured(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False


def test_what_comes_in_wholes_is_not_drawn_in_halves() -> None:
    counts = [
        panel
        for panel in PANELS
        if panel["fieldConfig"]["defaults"]["unit"] == "short" and panel["title"] != "Lag"
    ]
    assert len(counts) >= 5
    assert all(panel["fieldConfig"]["defaults"]["decimals"] == 0 for panel in counts)


def test_a_limit_far_above_does_not_flatten_what_is_open() -> None:
    defaults = next(
        panel["fieldConfig"]["defaults"]
        for panel in PANELS
        if "process_max_fds" in panel["targets"][-1]["expr"]
    )
    assert defaults["custom"]["scaleDistribution"]["type"] == "log"
    assert defaults["min"] == 1, "no logarithm of 0"


def test_panels_do_not_lie_on_each_other() -> None:
    places = {panel["id"]: panel["gridPos"] for panel in DASHBOARD["panels"]}
    assert len(places) == len(DASHBOARD["panels"])
    for one, other in combinations(places.values(), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(place["x"] + place["w"] <= 24 for place in places.values())


def test_variables_are_chosen_in_turn() -> None:
    assert list(VARIABLES) == ["datasource", "job", "instance", "topic", "group"]
    for variable in VARIABLES.values():
        if variable["type"] == "query":
            assert variable["query"]["query"] == variable["definition"]
            assert (variable["multi"], variable["includeAll"], variable["allValue"]) == (
                True,
                True,
                ".+",
            )
            assert variable["refresh"] == 2, "what came meanwhile is offered"
            assert variable["name"] == "job" or 'job=~"$job"' in variable["definition"]


@needs_promtool
def test_prometheus_reads_the_page_and_complains_about_known_names_only(text: str) -> None:
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    complaints = (checked.stdout + checked.stderr).splitlines()
    assert complaints
    for complaint in complaints:
        name, _, why = complaint.partition(" ")
        patterns = [pattern for kind, pattern in KNOWN_COMPLAINTS.items() if kind in why]
        assert any(re.fullmatch(pattern, name) for pattern in patterns), complaint


@needs_promtool
def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    rules = []
    for number, query in enumerate(TARGETS):
        filled = re.sub(r"\$\w+", lambda found: FILLED[found[0]], query)
        rules.append({"record": f"panel:query{number}", "expr": filled})
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(TARGETS)} rules found" in checked.stdout
