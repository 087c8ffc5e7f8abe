"""One cluster of both products: an Apache Kafka node that is controller and broker, and two of ours that are brokers.

Each leads a topic that the others follow. Brokers of ours are killed while an idempotent producer writes with acks=all: nothing that was
acknowledged is missing, nothing is there twice, and the segments of all replicas are the same, byte for byte.
"""

import time
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import ConfluentWriter
from tests.chaos.verdicts import judge, read_log
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes

UNFINISHED = ("eligible.leader.replicas.version",)
LEADERS = {"led-by-kafka": [1, 2, 3], "led-by-two": [2, 1, 3], "led-by-three": [3, 1, 2]}
TOPICS = dict.fromkeys(LEADERS, 1)
LOADING_SECONDS = 3.0


@pytest.mark.timeout(300)
def test_both_products_follow_each_other_and_lose_nothing(tmp_path: Path) -> None:
    products = {1: APACHE_KAFKA, 2: TIDELOG, 3: TIDELOG}
    with ClusterNodes(products, tmp_path, voter_count=1, is_mixed=True, is_dynamic=True, unserved=UNFINISHED) as nodes:
        with BlockingAdmin(nodes.bootstrap) as admin:
            config = {"min.insync.replicas": "2"}
            admin.create_topics([NewTopic(name=name, assignments={0: replicas}, configs=config) for name, replicas in LEADERS.items()])
        nodes.wait_until_whole(*LEADERS)
        writer = ConfluentWriter("rdkafka", nodes.bootstrap, 1, TOPICS)
        writer.start()
        for node_id, led in ((2, "led-by-two"), (3, "led-by-three")):
            time.sleep(LOADING_SECONDS)
            nodes.kill(node_id)
            time.sleep(LOADING_SECONDS)
            nodes.start(node_id)
            time.sleep(LOADING_SECONDS)
            nodes.wait_until_whole(*LEADERS)
            assert nodes.leader_of(led, 0) != node_id
        writer.stop()
        nodes.wait_until_whole(*LEADERS)
        nodes.wait_until_equal(*LEADERS)
        segments = {(topic, 0): nodes.segments(replicas[0], topic) for topic, replicas in LEADERS.items()}
        assert judge(read_log(nodes.bootstrap, TOPICS), [writer], [], segments) == []
        assert all(sum(topic == each for each, _, _ in writer.acknowledged) > 100 for topic in LEADERS)
