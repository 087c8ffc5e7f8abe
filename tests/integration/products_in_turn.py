"""Gives a part in a cluster of both products to a node of the one that a test names.

Clients go on meanwhile.
"""

import time
from contextlib import suppress

from log_service.client import BlockingAdmin, KafkaError, TopicPartition
from log_service.common.java_hashing import hashed_partition
from tests.integration.cluster_nodes import ClusterNodes

MOST_ROUNDS = 3
WAIT_SECONDS = 60.0
OFFSETS_TOPIC = "__consumer_offsets"


def let_lead(nodes: ClusterNodes, product: str) -> int:
    """Have a node of that product lead the quorum; return the node.

    The leader is started again while other voters are paused: those that run are a majority, and as
    few of the other product as can be. A voter that is just starting waits for an election timeout
    before it stands, and one of that product has stood since the leader went.
    """
    for _ in range(MOST_ROUNDS):
        leader = nodes.controller()
        if nodes.products[leader] == product:
            return leader
        wanted = [node_id for node_id in nodes.voters if nodes.products[node_id] == product]
        others = [node_id for node_id in nodes.voters if node_id not in {leader, *wanted}]
        paused = others[max(0, len(nodes.voters) // 2 - len(wanted)) :]
        for node_id in paused:
            nodes.pause(node_id)
        try:
            nodes.stop(leader)
            nodes.launch(leader)
            nodes.controller(besides=paused)
        finally:
            for node_id in paused:
                nodes.resume(node_id)
        nodes.wait_until_told(*nodes.running)
    raise AssertionError(f"{product} never led in {MOST_ROUNDS} rounds")


def let_coordinate(nodes: ClusterNodes, group: str, product: str) -> int:
    """Move the partition of a group to a node of that product, have it lead, and return the node."""
    partitions = nodes.replicas_of(OFFSETS_TOPIC)
    index = hashed_partition(group, len(partitions))
    wanted = next(node_id for node_id in nodes.node_ids if nodes.products[node_id] == product)
    others = [node_id for node_id in partitions[index] if node_id != wanted]
    nodes.reassign(OFFSETS_TOPIC, index, [wanted, *others[: len(partitions[index]) - 1]])
    deadline = time.monotonic() + WAIT_SECONDS
    while nodes.coordinator_of(group) != wanted:
        assert time.monotonic() < deadline, f"node {wanted} never coordinated {group}"
        with (
            BlockingAdmin(nodes.bootstrap) as admin,
            suppress(KafkaError),
        ):
            # It leads by now, or not yet.
            admin.elect_leaders([TopicPartition(OFFSETS_TOPIC, index)])
    return wanted
