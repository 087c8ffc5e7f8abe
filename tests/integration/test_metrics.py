"""The metrics page of a broker has the names that dashboards ask for, and true numbers.

Nothing upsets its server.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from log_service.records.builder import build_batch
from tests.helpers.broker_process import BrokerThread, run_to_its_end
from tests.helpers.metrics_page import Page, ask
from tests.integration.record_requests import produce_request
from tests.integration.transactional_writer import TransactionalWriter
from tests.integration.wire import Wire

ASKED_FOR = {
    "kafka_broker_info": "",
    "kafka_cluster_partition_": "atminisr replicascount underminisr",
    "kafka_consumergroup_": "current_offset lag members",
    "kafka_controller_": "controllerstats_uncleanleaderelections_total kafkacontroller_activecontrollercount "
    "kafkacontroller_offlinepartitionscount kafkacontroller_preferredreplicaimbalancecount",
    "kafka_coordinator_group_groupmetadatamanager_": "numgroups numgroupsstable numgroupsempty numgroupsdead",
    "kafka_log_": "log_size logmanager_offlinelogdirectorycount",
    "kafka_network_": "processor_idle_percent requestchannel_requestqueuesize socketserver_networkprocessoravgidle_percent",
    "kafka_server_brokertopicmetrics_": "bytesin_total bytesout_total messagesin_total totalproducerequests_total totalfetchrequests_total "
    "failedproducerequests_total failedfetchrequests_total",
    "kafka_server_": "kafkarequesthandlerpool_requesthandleravgidle_percent kafkaserver_brokerstate replicafetchermanager_maxlag",
    "kafka_server_raftmetrics_": "current_epoch current_leader current_state current_vote high_watermark log_end_offset",
    "kafka_server_replicamanager_": "isrexpands_total isrshrinks_total leadercount partitioncount underminisrpartitioncount "
    "underreplicatedpartitions",
    "kafka_server_socket_server_metrics_": "connection_close_rate connection_count connection_creation_rate",
    "kafka_topic_partition_": "current_offset in_sync_replica leader_is_preferred oldest_offset replicas under_replicated_partition",
    "kafka_topic_partitions": "",
    "process_": "cpu_seconds_total open_fds resident_memory_bytes",
}
"""Names in dashboards and alerts that people have for Kafka, by how they begin."""
GROUP = 'lag "in" words'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(
        tmp_path_factory.mktemp("metrics"), properties={"metrics.listener": "127.0.0.1:0"}
    ) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(name="orders", partition_count=2),
                    NewTopic(name="idle", partition_count=1),
                ]
            )
        with BlockingProducer(running.bootstrap, acks="1", enable_idempotence=False) as producer:
            for number in range(100):
                producer.send("orders", b"value %d" % number, partition=number % 2)
            producer.flush()
        with BlockingConsumer(
            running.bootstrap, group_id=GROUP, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            count = 0
            while count < 60:
                count += len(consumer.poll(60 - count, timeout_ms=1_000))
            consumer.commit()
        yield running


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
    size = sum(
        page.of("kafka_log_log_size", f'topic="orders",partition="{index}"') for index in (0, 1)
    )
    assert page.of(f"{prefix}bytesin_total", 'topic="orders"') == size
    assert page.of(f"{prefix}bytesout_total", 'topic="orders"') >= size
    assert page.of(f"{prefix}messagesin_total", 'topic="idle"') == 0
    assert page.types[f"{prefix}messagesin_total"] == "counter"
    of_client = 'client_id="tidelog",topic="orders"'
    assert page.of("tidelog_producer_records_total", of_client) == 100


def test_requests_are_counted_by_version_and_timed(page: Page) -> None:
    counted = {
        labels: value
        for (name, labels), value in page.values.items()
        if name == "kafka_network_requestmetrics_requests_total"
    }
    produced = sum(
        value for labels, value in counted.items() if labels.startswith('request="Produce"')
    )
    assert produced >= 1
    assert (
        page.of("kafka_network_requestmetrics_totaltimems_count", 'request="Produce"') == produced
    )
    median = page.of(
        "kafka_network_requestmetrics_totaltimems", 'request="Produce",quantile="0.50"'
    )
    slow = page.of("kafka_network_requestmetrics_totaltimems", 'request="Produce",quantile="0.999"')
    assert 0 < median <= slow < 10_000
    assert page.of("kafka_network_requestmetrics_totaltimems_sum", 'request="JoinGroup"') > 0
    assert 'request="FetchConsumer"' in {
        labels for name, labels in page.values if name.endswith("localtimems_count")
    }


def test_groups_tell_their_lag(page: Page) -> None:
    name = 'consumergroup="lag \\"in\\" words"'
    lags = [
        page.of("kafka_consumergroup_lag", f'{name},topic="orders",partition="{index}"')
        for index in (0, 1)
    ]
    assert sum(lags) == 40
    assert page.of("kafka_consumergroup_lag_sum", f'{name},topic="orders"') == 40
    assert page.of("kafka_consumergroup_current_offset_sum", f'{name},topic="orders"') == 60
    assert page.of("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert page.of("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 1


def test_the_cluster_is_described(page: Page) -> None:
    assert page.of("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert page.of("kafka_controller_kafkacontroller_globaltopiccount") == 3
    assert page.of("kafka_server_replicamanager_leadercount") == page.of(
        "kafka_server_replicamanager_partitioncount"
    )
    assert page.of("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert page.of("kafka_log_log_logendoffset", 'topic="orders",partition="0"') == 50
    assert page.of("kafka_topic_partition_current_offset", 'topic="orders",partition="0"') == 50
    assert (
        page.of(
            "kafka_server_socket_server_metrics_connection_creation_total",
            'listener="PLAINTEXT",networkProcessor="0"',
        )
        >= 3
    )
    assert 0 <= page.of("kafka_network_socketserver_networkprocessoravgidle_percent") <= 1
    assert page.of("process_resident_memory_bytes") > 10 << 20


def test_what_dashboards_and_alerts_ask_for_is_there(page: Page) -> None:
    asked = {start + end for start, ends in ASKED_FOR.items() for end in ends.split() or [""]}
    assert asked - {name for name, _ in page.values} == set()


def test_the_metadata_log_has_both_names_that_it_has_at_kafka(page: Page) -> None:
    assert page.of("kafka_server_raftmetrics_current_state", 'current_state="leader"') == 1
    assert page.of("kafka_server_raft_metrics_current_state_info", 'state="leader"') == 1
    for name in (
        "current_leader",
        "current_vote",
        "current_epoch",
        "high_watermark",
        "log_end_offset",
    ):
        assert (
            page.of(f"kafka_server_raftmetrics_{name}")
            == page.of(f"kafka_server_raft_metrics_{name}")
            > 0
        )
    applied = page.of("kafka_server_brokermetadatametrics_last_applied_record_offset")
    assert applied == page.of("kafka_server_raftmetrics_high_watermark") - 1
    assert applied == page.of("kafka_server_broker_metadata_metrics_last_applied_record_offset")


def test_brokers_and_preferred_leaders_are_told(broker: BrokerThread, page: Page) -> None:
    assert page.of("kafka_broker_info", f'id="1",address="{broker.bootstrap}"') == 1
    preferred = {
        labels: value
        for (name, labels), value in page.values.items()
        if name == "kafka_topic_partition_leader_is_preferred"
    }
    assert len(preferred) == page.of("kafka_server_replicamanager_leadercount")
    assert set(preferred.values()) == {1}
    assert page.of("kafka_server_replicafetchermanager_maxlag", 'clientId="Replica"') == 0


def test_what_went_to_disks_is_told_where_the_system_tells(page: Page) -> None:
    counts = Path("/proc/self/io")
    told = {
        name for name, _ in page.values if name.startswith("kafka_server_kafkaserver_linux_disk_")
    }
    if not counts.exists():
        assert told == set()
        return
    written = re.search(r"^write_bytes: (\d+)$", counts.read_text(), re.MULTILINE)
    assert written is not None
    assert 0 < page.of("kafka_server_kafkaserver_linux_disk_write_bytes") <= int(written[1])
    assert page.of("kafka_server_kafkaserver_linux_disk_read_bytes") >= 0


def test_the_cleaner_tells_what_it_did(tmp_path: Path) -> None:
    keys = {"metrics.listener": "127.0.0.1:0", "log.cleaner.backoff.ms": "50"}
    with BrokerThread(tmp_path, properties=keys) as running:
        with BlockingAdmin(running.bootstrap) as admin:
            configs = {
                "cleanup.policy": "compact",
                "segment.ms": "1",
                "min.cleanable.dirty.ratio": "0.01",
            }
            admin.create_topics([NewTopic(name="compacted", partition_count=1, configs=configs)])
        with BlockingProducer(running.bootstrap) as producer:
            for _ in range(20):
                producer.send("compacted", b"value" * 100, b"the same key")
                producer.flush()
        deadline = time.monotonic() + 30
        while (page := Page(ask(running)[1])).of(
            "kafka_log_logcleaner_cleaner_recopy_percent"
        ) == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert 0 < page.of("kafka_log_logcleaner_cleaner_recopy_percent") < 100
    assert page.of("kafka_log_logcleanermanager_time_since_last_run_ms") < 30_000
    assert 0 <= page.of("kafka_log_logcleanermanager_max_dirty_percent") <= 100
    assert [
        value
        for (name, _), value in page.values.items()
        if name.endswith("uncleanable_partitions_count")
    ] == [0]


def test_transactions_tell_how_far_they_hold_readers_back(tmp_path: Path) -> None:
    """One is open, and its producer wrote long ago; a batch that no coordinator knows of is
    refused.
    """
    with BrokerThread(tmp_path, properties={"metrics.listener": "127.0.0.1:0"}) as broker:
        with BlockingAdmin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(name="ledger", partition_count=1)])
        where = 'topic="ledger",partition="0"'
        late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
        failures = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count"
        with (
            BlockingProducer(broker.bootstrap, transactional_id="writer") as producer,
            Wire(broker.bootstrap) as wire,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            for _ in range(3):
                producer.send("ledger", b"of long ago", timestamp_ms=1_700_000_000_000)
            producer.flush()
            page = Page(ask(broker)[1])
            assert page.of("kafka_cluster_partition_laststableoffsetlag", where) == 3
            assert page.of(late) == 1
            assert page.of("kafka_server_addpartitionstotxnmanager_verificationtimems_count") == 1
            assert page.of(failures) == 0
            producer.commit_transaction()
            told = TransactionalWriter(wire, "stranger", is_version_2=False)
            content = build_batch(
                [(0, None, b"never")],
                is_transactional=True,
                producer_id=told.producer_id,
                producer_epoch=told.epoch,
                base_sequence=0,
            )
            wire.ask(replace(produce_request("ledger", content), transactional_id="stranger"), 11)
            page = Page(ask(broker)[1])
            assert page.of(failures) == 1
            assert (
                page.of(
                    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
                )
                == 0
            )
            deadline = time.monotonic() + 20  # the marker may come after the response
            while page.of(late) or page.of("kafka_cluster_partition_laststableoffsetlag", where):
                assert time.monotonic() < deadline
                page = Page(ask(broker)[1])
            asked = {
                labels
                for name, labels in page.values
                if name == "kafka_network_requestmetrics_requests_total"
            }
            assert any("EndTxn" in labels for labels in asked)
            assert not any("WriteTxnMarkers" in labels for labels in asked), (
                "a node asks itself by no request"
            )


def test_groups_are_counted_by_protocol(page: Page) -> None:
    assert page.of("kafka_server_group_coordinator_metrics_group_count", 'protocol="classic"') == 1
    assert page.of("kafka_server_group_coordinator_metrics_group_count", 'protocol="consumer"') == 0
    assert page.of("kafka_server_group_coordinator_metrics_group_count", 'protocol="streams"') == 0
    assert (
        page.of("kafka_server_group_coordinator_metrics_consumer_group_count", 'state="stable"')
        == 0
    )
    assert (
        page.of("kafka_server_group_coordinator_metrics_streams_group_count", 'state="notready"')
        == 0
    )
    assert page.of("kafka_server_group_coordinator_metrics_group_count", 'protocol="share"') == 0
    assert (
        page.of("kafka_server_group_coordinator_metrics_share_group_count", 'state="stable"') == 0
    )


def test_families_are_not_torn_apart(page: Page) -> None:
    families = [
        re.sub(r"(_sum|_count)$", "", name) if name not in page.types else name
        for name in page.order
    ]
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


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/metrics", "POST", 405), ("/metrics?x=1", "HEAD", 200)],
)
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
def test_others_are_answered_whatever_a_client_does(
    broker: BrokerThread, misbehave: Callable[[socket.socket], None]
) -> None:
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
    names = {
        labels
        for name, labels in page.values
        if name == "kafka_server_socket_server_metrics_connection_count"
    }
    assert names == {
        f'listener="{name}",networkProcessor="0"' for name in ("PLAINTEXT", "CONTROLLER")
    }


def test_a_broker_without_the_key_opens_no_port(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as running:
        assert running.broker.metrics_address is None


def test_a_port_that_is_taken_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        exit_code, log = run_to_its_end(
            tmp_path, properties={"metrics.listener": f"127.0.0.1:{port}"}
        )
    assert exit_code == 3
    assert f"metrics.listener=127.0.0.1:{port}" in log


def test_a_listener_that_is_none_is_refused(tmp_path: Path) -> None:
    exit_code, log = run_to_its_end(tmp_path, properties={"metrics.listener": "9404"})
    assert exit_code == 2
    assert "metrics.listener is '9404', which is not host:port" in log


def test_what_librdkafka_pushes_is_on_the_page(broker: BrokerThread) -> None:
    name = ConfigResource.client_metrics("pushing")
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.alter_configs(
            {
                name: {
                    "metrics": "*",
                    "interval.ms": "100",
                    "match": "client_id=pushing,client_software_name=confluent-kafka.*",
                }
            }
        )
        assert name in admin.list_config_resources([ResourceType.CLIENT_METRICS])
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "client.id": "pushing", "enable.metrics.push": True}
    )
    pushed = ""
    deadline = time.monotonic() + 30
    while "kafka_client_producer_node_request_latency_avg{" not in pushed:
        assert time.monotonic() < deadline, pushed
        producer.produce("orders", b"x")
        producer.flush(1)
        pushed = "\n".join(
            line
            for line in ask(broker)[1].splitlines()
            if line.startswith(("kafka_client_", "tidelog_client_"))
        )
        time.sleep(0.05)
    producer.close()
    assert 'client_id="pushing"' in pushed
    assert "kafka_client_producer_connection_creation_total{" in pushed
    assert value_of(pushed, "tidelog_client_telemetry_left_out_total") == 0
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.alter_configs({name: dict.fromkeys(("metrics", "interval.ms", "match"))})
        assert name not in admin.list_config_resources([ResourceType.CLIENT_METRICS])


def value_of(shown: str, name: str) -> float:
    """The value of a name without labels."""
    return next(
        float(line.rpartition(" ")[2]) for line in shown.splitlines() if line.startswith(f"{name} ")
    )
