"""Processes that are killed while their machines run on have lost nothing.

The controller is told so (KIP-966).
"""

import json
import shutil
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from log_service.storage.files import RealFiles
from tests.helpers.broker_process import ALONE, BrokerProcess
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.confluent import read_all
from tests.integration.wire import Wire

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

TOPIC = "orders"
RECORDS = [b"%d" % number for number in range(300)]
ELIGIBLE_LEADERS = ("--feature", "eligible.leader.replicas.version=1")


def write(bootstrap: str, replicas: int) -> None:
    configs = {"min.insync.replicas": str(min(2, replicas))}
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics(
            [NewTopic(name=TOPIC, partition_count=1, replication_factor=replicas, configs=configs)]
        )
    with BlockingProducer(bootstrap, acks="all") as producer:
        for value in RECORDS:
            producer.send(TOPIC, value)
        producer.flush()


def told_by(nodes: ClusterNodes, node_id: int) -> DescribeTopicPartitionsResponsePartition:
    with Wire(f"127.0.0.1:{nodes.ports[node_id]}") as wire:
        response = wire.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)]), 0)
    partition: DescribeTopicPartitionsResponsePartition = response.topics[0].partitions[0]
    return partition


def epoch_in(data: Path) -> int:
    return int(json.loads((data / "tidelog-running").read_bytes())["brokerEpoch"])


def skip_unless_the_page_cache_is_known(directory: Path) -> None:
    if RealFiles().page_cache_id(directory) is None:
        pytest.skip("this system does not tell whether its page cache is the one from before")


def test_after_a_kill_of_all_replicas_any_of_them_may_lead_and_has_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    """The one that led last does not come back. As with Apache Kafka the partition would wait for
    it, whatever the others have.
    """
    skip_unless_the_page_cache_is_known(tmp_path)
    with ClusterNodes(TIDELOG, tmp_path / "cluster", format_arguments=ELIGIBLE_LEADERS) as nodes:
        write(nodes.bootstrap, 3)
        leader = nodes.leader_of(TOPIC, 0)
        others = [node_id for node_id in nodes.node_ids if node_id != leader]
        before = told_by(nodes, leader)
        assert sorted(before.isr_nodes) == [1, 2, 3]
        for node_id in (leader, *others):
            nodes.kill(node_id)

        nodes.start(*others)
        bootstrap = ",".join(f"127.0.0.1:{nodes.ports[node_id]}" for node_id in others)
        assert read_all(bootstrap, TOPIC, len(RECORDS)) == RECORDS
        after = told_by(nodes, others[0])
        assert after.leader_id in others
        assert sorted(after.isr_nodes) == others

        nodes.wait_until_whole(TOPIC)
        whole = told_by(nodes, leader)
        assert (whole.eligible_leader_replicas or [], whole.last_known_elr or []) == ([], [])
        nodes.wait_until_equal(TOPIC)


def test_a_broker_that_lost_a_log_while_it_was_down_is_not_elected_with_an_empty_one(
    tmp_path: Path,
) -> None:
    """It said that it lost nothing, led, and the whole replicas were cut to its empty log."""
    skip_unless_the_page_cache_is_known(tmp_path)
    with ClusterNodes(TIDELOG, tmp_path / "cluster", format_arguments=ELIGIBLE_LEADERS) as nodes:
        write(nodes.bootstrap, 3)
        leader = nodes.leader_of(TOPIC, 0)
        victim, other = [node_id for node_id in nodes.node_ids if node_id != leader]
        for node_id in nodes.node_ids:
            nodes.kill(node_id)
        shutil.rmtree(nodes.data(victim) / f"{TOPIC}-0")

        nodes.start(victim, other)
        assert f"{TOPIC}-0 is missing, it ended at offset {len(RECORDS)}" in nodes.log(victim)
        bootstrap = f"127.0.0.1:{nodes.ports[victim]},127.0.0.1:{nodes.ports[other]}"
        assert read_all(bootstrap, TOPIC, len(RECORDS)) == RECORDS
        nodes.start(leader)
        nodes.wait_until_whole(TOPIC)
        assert read_all(nodes.bootstrap, TOPIC, len(RECORDS)) == RECORDS
        nodes.wait_until_equal(TOPIC)


def test_a_single_node_that_lost_a_log_says_so_and_gives_no_offset_twice(tmp_path: Path) -> None:
    skip_unless_the_page_cache_is_known(tmp_path)
    with BrokerProcess(tmp_path) as broker:
        write(broker.bootstrap, 1)
        broker.kill()
        shutil.rmtree(tmp_path / "data" / f"{TOPIC}-0")
        broker.start()
        assert f"{TOPIC}-0 is missing" in broker.log
        with BlockingProducer(broker.bootstrap, acks="all") as producer:
            assert producer.send(TOPIC, b"next").wait().offset >= 1
        assert read_all(broker.bootstrap, TOPIC, 1) == [b"next"]


def test_apache_kafka_starts_beside_the_file_and_its_run_makes_it_worth_nothing(
    tmp_path: Path,
) -> None:
    skip_unless_the_page_cache_is_known(tmp_path)
    with ClusterNodes(
        {1: APACHE_KAFKA}, tmp_path / "cluster", ALONE, size=1, is_mixed=True
    ) as nodes:
        write(nodes.bootstrap, 1)
        nodes.replace(1, TIDELOG)
        ours = epoch_in(nodes.data(1))
        for product in (APACHE_KAFKA, TIDELOG):
            nodes.kill(1)
            nodes.products[1] = product
            assert epoch_in(nodes.data(1)) == ours, "Apache Kafka leaves the file alone"
            nodes.start(1)
        assert read_all(nodes.bootstrap, TOPIC, len(RECORDS)) == RECORDS
        assert epoch_in(nodes.data(1)) > ours
        nodes.stop(1)
        assert not (nodes.data(1) / "tidelog-running").exists()


def test_a_broker_says_in_its_directory_that_it_runs_and_no_more_once_it_has_stopped(
    tmp_path: Path,
) -> None:
    skip_unless_the_page_cache_is_known(tmp_path)
    with BrokerProcess(tmp_path / "node") as broker:
        file = broker.directory / "data" / "tidelog-running"
        first = json.loads(file.read_bytes())
        assert first["pageCacheId"] == RealFiles().page_cache_id(file.parent)
        broker.kill()
        assert json.loads(file.read_bytes()) == first
        broker.start()
        assert json.loads(file.read_bytes())["brokerEpoch"] > first["brokerEpoch"]
        broker.stop()
        assert not file.exists()
