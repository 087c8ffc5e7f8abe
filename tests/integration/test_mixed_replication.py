"""One cluster has an Apache Kafka node, which is controller and broker, and two brokers of ours.

Each leads a topic that the others follow. Brokers of ours are killed, and replicas move from one
product to the other and back, while an idempotent producer writes with acks=all: nothing that was
acknowledged is missing, nothing is there twice, and the segments of all replicas are the same, byte
for byte.
"""

import time
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import ConfluentWriter
from tests.chaos.verdicts import judge, read_log
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes

KAFKA, OURS, OTHER = 1, 2, 3
LEADERS = {
    "led-by-kafka": [KAFKA, OURS, OTHER],
    "led-by-two": [OURS, KAFKA, OTHER],
    "led-by-three": [OTHER, KAFKA, OURS],
}
MOVED = "moved"
TOPICS = dict.fromkeys([*LEADERS, MOVED], 1)
LOADING_SECONDS = 3.0


@pytest.mark.timeout(300)
def test_both_products_follow_each_other_and_lose_nothing(tmp_path: Path) -> None:
    products = {KAFKA: APACHE_KAFKA, OURS: TIDELOG, OTHER: TIDELOG}
    with ClusterNodes(products, tmp_path, voter_count=1, is_mixed=True, is_dynamic=True) as nodes:
        with BlockingAdmin(nodes.bootstrap) as admin:
            config = {"min.insync.replicas": "2"}
            topics = [
                NewTopic(name=name, assignments={0: replicas}, configs=config)
                for name, replicas in LEADERS.items()
            ]
            admin.create_topics([*topics, NewTopic(name=MOVED, assignments={0: [KAFKA]})])
        nodes.wait_until_whole(*TOPICS)
        writer = ConfluentWriter("rdkafka", nodes.bootstrap, 1, TOPICS)
        writer.start()
        for node_id, led in ((OURS, "led-by-two"), (OTHER, "led-by-three")):
            time.sleep(LOADING_SECONDS)
            nodes.kill(node_id)
            time.sleep(LOADING_SECONDS)
            nodes.start(node_id)
            time.sleep(LOADING_SECONDS)
            nodes.wait_until_whole(*LEADERS)
            assert nodes.leader_of(led, 0) != node_id
        for places in ([OURS], [KAFKA], [OTHER, KAFKA], [KAFKA, OURS]):
            nodes.reassign(MOVED, 0, places)
        writer.stop()
        nodes.wait_until_whole(*TOPICS)
        nodes.wait_until_equal(*TOPICS)
        segments = {
            (topic, 0): nodes.segments(replicas[0], topic)
            for topic, replicas in {**LEADERS, MOVED: [KAFKA]}.items()
        }
        assert judge(read_log(nodes.bootstrap, TOPICS), [writer], [], segments) == []
        assert all(
            sum(topic == each for each, _, _ in writer.acknowledged) > 100 for topic in TOPICS
        )
