"""The metrics pages of a cluster's nodes tell of the controller and of replicas.

One page says that its node is the active controller. Lagging replicas are told where they lag.
"""

import re

import trio

from tests.helpers.cluster import Cluster, host_of, node_properties, tell_cluster
from tests.helpers.metrics_page import fetch

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
STATE = re.compile(r'kafka_server_raftmetrics_current_state\{current_state="(\w+)"\} 1')


async def page_of(cluster: Cluster, node_id: int) -> str:
    return await fetch(cluster.world.client_env().network, host_of(node_id), 9404)


def number(page: str, name: str) -> float:
    (found,) = re.findall(rf"^{name} (\S+)$", page, re.MULTILINE)
    return float(found)


def test_one_node_says_that_it_is_the_active_controller_and_all_say_who() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [1, 2, 3, 4] for each in cluster.brokers)
        )
        pages = {each: await page_of(cluster, each) for each in cluster.brokers}
        assert {each: number(page, ACTIVE) for each, page in pages.items()} == {
            each: float(each == leader) for each in pages
        }
        states = {each: STATE.findall(page) for each, page in pages.items()}
        assert states == {
            each: ["leader" if each == leader else "observer" if each == 4 else "follower"]
            for each in pages
        }
        assert {
            number(page, "kafka_server_raftmetrics_current_leader") for page in pages.values()
        } == {leader}
        assert number(pages[leader], "kafka_server_raftmetrics_current_vote") == leader
        assert number(pages[4], "kafka_server_raftmetrics_current_vote") == -1

    files = {
        each: node_properties(each, (1, 2, 3), metrics_listener=f"{host_of(each)}:9404")
        for each in (1, 2, 3)
    }
    tell_cluster(
        story,
        {
            **files,
            4: node_properties(4, (1, 2, 3), "broker", metrics_listener=f"{host_of(4)}:9404"),
        },
    )


def test_fetches_of_followers_are_counted_apart_from_those_of_consumers() -> None:
    def count(page: str, name: str) -> float:
        return number(page, f'kafka_network_requestmetrics_totaltimems_count{{request="{name}"}}')

    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await trio.sleep(10)
        page = await page_of(cluster, leader)
        assert count(page, "Fetch") == count(page, "FetchFollower") > 0, (
            "the other controllers fetch the metadata log"
        )
        assert 'request="FetchConsumer"' not in page

    files = {
        each: node_properties(each, (1, 2, 3), metrics_listener=f"{host_of(each)}:9404")
        for each in (1, 2, 3)
    }
    tell_cluster(story, files)
