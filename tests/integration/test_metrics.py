"""The metrics page of a running broker: the names that dashboards ask for, true numbers, and a server that nothing upsets."""

import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic
from tests.helpers.broker_process import BrokerThread, run_to_its_end

LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (-?[0-9.e+-]+|NaN|[+-]Inf)')
METRIC = re.compile(r"\b(?:kafka|process|python|tidelog)_[a-z0-9_]+")
DASHBOARD = Path(__file__).resolve().parent.parent.parent / "dashboards" / "tidelog.json"
SCRAPE_LABELS = {"job", "instance"}
"""Labels that Prometheus itself adds."""
GROUP = 'lag "in" words'


class Page:
    """A parsed page: values by name and labels, as they are spelled."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self.values: dict[tuple[str, str], float] = {}
        self.order: list[str] = []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                assert name not in self.types, "a family stands in one place"
                self.types[name] = kind
            elif not line.startswith("# HELP "):
                found = LINE.fullmatch(line)
                assert found is not None, line
                key = (found[1], found[2] or "")
                assert key not in self.values, f"twice: {line}"
                self.values[key] = float(found[3])
                self.order.append(found[1])

    def of(self, name: str, labels: str = "") -> float:
        return self.values[name, labels]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("metrics"), properties={"metrics.listener": "127.0.0.1:0"}) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics([NewTopic(name="orders", partition_count=2), NewTopic(name="idle", partition_count=1)])
        with BlockingProducer(running.bootstrap, acks="1", enable_idempotence=False) as producer:
            for number in range(100):
                producer.send("orders", b"value %d" % number, partition=number % 2)
            producer.flush()
        with BlockingConsumer(running.bootstrap, group_id=GROUP, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            count = 0
            while count < 60:
                count += len(consumer.poll(60 - count, timeout_ms=1_000))
            consumer.commit()
        yield running


def ask(broker: BrokerThread, path: str = "/metrics", method: str = "GET") -> tuple[int, str, http.client.HTTPMessage]:
    assert broker.broker.metrics_address is not None
    connection = http.client.HTTPConnection(*broker.broker.metrics_address, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers


@pytest.fixture
def page(broker: BrokerThread) -> Page:
    status, text, headers = ask(broker)
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Page(text)


def test_topics_tell_their_records_and_bytes(page: Page) -> None:
    prefix = "kafka_server_brokertopicmetrics_"
    assert page.of(f"{prefix}messagesin_total", 'topic="orders"') == 100
    assert page.of(f"{prefix}messagesin_total") >= 100
    size = sum(page.of("kafka_log_log_size", f'topic="orders",partition="{index}"') for index in (0, 1))
    assert page.of(f"{prefix}bytesin_total", 'topic="orders"') == size
    assert page.of(f"{prefix}bytesout_total", 'topic="orders"') >= size
    assert page.of(f"{prefix}messagesin_total", 'topic="idle"') == 0
    assert page.types[f"{prefix}messagesin_total"] == "counter"


def test_requests_are_counted_by_version_and_timed(page: Page) -> None:
    counted = {labels: value for (name, labels), value in page.values.items() if name == "kafka_network_requestmetrics_requests_total"}
    produced = sum(value for labels, value in counted.items() if labels.startswith('request="Produce"'))
    assert produced >= 1
    assert page.of("kafka_network_requestmetrics_totaltimems_count", 'request="Produce"') == produced
    median = page.of("kafka_network_requestmetrics_totaltimems", 'request="Produce",quantile="0.50"')
    slow = page.of("kafka_network_requestmetrics_totaltimems", 'request="Produce",quantile="0.999"')
    assert 0 < median <= slow < 10_000
    assert page.of("kafka_network_requestmetrics_totaltimems_sum", 'request="JoinGroup"') > 0
    assert 'request="FetchConsumer"' in {labels for name, labels in page.values if name.endswith("localtimems_count")}


def test_groups_tell_their_lag(page: Page) -> None:
    name = 'consumergroup="lag \\"in\\" words"'
    lags = [page.of("kafka_consumergroup_lag", f'{name},topic="orders",partition="{index}"') for index in (0, 1)]
    assert sum(lags) == 40
    assert page.of("kafka_consumergroup_lag_sum", f'{name},topic="orders"') == 40
    assert page.of("kafka_consumergroup_current_offset_sum", f'{name},topic="orders"') == 60
    assert page.of("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert page.of("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1


def test_the_cluster_is_described(page: Page) -> None:
    assert page.of("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert page.of("kafka_controller_kafkacontroller_globaltopiccount") == 3
    assert page.of("kafka_server_replicamanager_leadercount") == page.of("kafka_server_replicamanager_partitioncount")
    assert page.of("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert page.of("kafka_log_log_logendoffset", 'topic="orders",partition="0"') == 50
    assert page.of("kafka_topic_partition_current_offset", 'topic="orders",partition="0"') == 50
    assert page.of("kafka_server_socket_server_metrics_connection_creation_total", 'listener="PLAINTEXT",networkProcessor="0"') >= 3
    assert 0 <= page.of("kafka_network_socketserver_networkprocessoravgidle_percent") <= 1
    assert page.of("process_resident_memory_bytes") > 10 << 20


def test_the_cleaner_tells_what_it_did(tmp_path: Path) -> None:
    keys = {"metrics.listener": "127.0.0.1:0", "log.cleaner.backoff.ms": "50"}
    with BrokerThread(tmp_path, properties=keys) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            configs = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
            admin.create_topics([NewTopic(name="compacted", partition_count=1, configs=configs)])
        with BlockingProducer(running.bootstrap) as producer:
            for _ in range(20):
                producer.send("compacted", b"value" * 100, b"the same key")
                producer.flush()
        deadline = time.monotonic() + 30
        while (page := Page(ask(running)[1])).of("kafka_log_logcleaner_cleaner_recopy_percent") == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert 0 < page.of("kafka_log_logcleaner_cleaner_recopy_percent") < 100
    assert page.of("kafka_log_logcleanermanager_time_since_last_run_ms") < 30_000
    assert 0 <= page.of("kafka_log_logcleanermanager_max_dirty_percent") <= 100
    assert [value for (name, _), value in page.values.items() if name.endswith("uncleanable_partitions_count")] == [0]


def test_families_are_not_torn_apart(page: Page) -> None:
    families = [re.sub(r"(_sum|_count)$", "", name) if name not in page.types else name for name in page.order]
    assert set(families) == set(page.types)
    seen: list[str] = []
    for name in families:
        if not seen or seen[-1] != name:
            seen.append(name)
    assert len(seen) == len(set(seen))


def test_counters_do_not_fall_when_a_topic_goes(broker: BrokerThread) -> None:
    total = "kafka_server_brokertopicmetrics_messagesin_total"
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name="short-lived", partition_count=1)])
        with BlockingProducer(broker.bootstrap) as producer:
            producer.send("short-lived", b"x")
            producer.flush()
        before = Page(ask(broker)[1])
        admin.delete_topics(["short-lived"])
    after = Page(ask(broker)[1])
    assert after.of(total) >= before.of(total)
    assert (total, 'topic="short-lived"') not in after.values


def queries(value: object) -> Iterator[str]:
    """Every query of a dashboard: of panels and of variables."""
    if isinstance(value, dict):
        yield from (text for key in ("expr", "definition") if isinstance(text := value.get(key), str))
        for inner in value.values():
            yield from queries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from queries(inner)


def test_the_dashboard_asks_only_for_what_there_is(page: Page) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = {name for query in queries(dashboard) for name in METRIC.findall(query)}
    assert len(asked) >= 25
    assert asked - {name for name, _ in page.values} == set()
    labels = {label for _, text in page.values for label in re.findall(r'(\w+)="', text)} | SCRAPE_LABELS
    used = {label for query in queries(dashboard) for label in re.findall(r'(\w+)(?:=|!=)~?"', query)}
    assert used - labels == set()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 405), ("/metrics?x=1", "HEAD", 200)])
def test_other_paths_and_methods(broker: BrokerThread, path: str, method: str, status: int) -> None:
    found, text, _ = ask(broker, path, method)
    assert found == status
    assert ("/metrics" in text) is (status == 404)


def test_an_old_client_gets_the_page_without_chunks(broker: BrokerThread) -> None:
    assert broker.broker.metrics_address is not None
    with socket.create_connection(broker.broker.metrics_address, 10) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert Page(body.decode()).of("kafka_brokers") == 1


def slow_down(connection: socket.socket) -> None:
    connection.sendall(b"GET /metr")


def send_noise(connection: socket.socket) -> None:
    connection.sendall(b"\x00\x01\xff" * 10_000)


def leave_while_it_answers(connection: socket.socket) -> None:
    connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    connection.recv(1)


@pytest.mark.parametrize("misbehave", [slow_down, send_noise, leave_while_it_answers])
def test_others_are_answered_whatever_a_client_does(broker: BrokerThread, misbehave: Callable[[socket.socket], None]) -> None:
    assert broker.broker.metrics_address is not None
    with socket.create_connection(broker.broker.metrics_address, 10) as connection:
        misbehave(connection)
        assert ask(broker)[0] == 200
    assert ask(broker)[0] == 200


def test_a_flood_of_connections_is_bounded(broker: BrokerThread) -> None:
    assert broker.broker.metrics_address is not None
    crowd = [socket.create_connection(broker.broker.metrics_address, 10) for _ in range(40)]
    with BlockingAdmin(broker.bootstrap) as admin:
        assert admin.list_topics()
    for connection in crowd:
        connection.close()


def test_the_controller_s_listener_is_one_of_them(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    keys = {
        "metrics.listener": "127.0.0.1:0",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
    }
    with BrokerThread(tmp_path, properties=keys) as running:
        page = Page(ask(running)[1])
    names = {labels for name, labels in page.values if name == "kafka_server_socket_server_metrics_connection_count"}
    assert names == {f'listener="{name}",networkProcessor="0"' for name in ("PLAINTEXT", "CONTROLLER")}


def test_a_broker_without_the_key_opens_no_port(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as running:
        assert running.broker.metrics_address is None


def test_a_port_that_is_taken_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        exit_code, log = run_to_its_end(tmp_path, properties={"metrics.listener": f"127.0.0.1:{port}"})
    assert exit_code == 3
    assert f"metrics.listener=127.0.0.1:{port}" in log


def test_a_listener_that_is_none_is_refused(tmp_path: Path) -> None:
    exit_code, log = run_to_its_end(tmp_path, properties={"metrics.listener": "9404"})
    assert exit_code == 2
    assert "metrics.listener is '9404', which is not host:port" in log
