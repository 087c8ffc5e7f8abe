"""The topic of schemas is on three nodes that are killed.

Each acknowledged schema is there once, and in order.
"""

from collections.abc import Iterator

import pytest
import trio

from log_service.client import BlockingAdmin, ConfigResource
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.http.registry_processes import wait_in_thread
from tests.integration.http.schema_logs import TIMEOUT_MS, OpenLog, open_log

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC = "_schemas"
WRITE_COUNT = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


def test_writes_go_on_when_leaders_are_killed(cluster: ClusterNodes) -> None:
    """Each write is in the log once. Another instance reads them all, and supersedes the writer."""

    async def write(log: OpenLog, acknowledged: list[bytes], many: trio.Event) -> None:
        for number in range(WRITE_COUNT):
            await log.prepare_write(TIMEOUT_MS)
            await log.put(b"%d" % number)
            acknowledged.append(b"%d" % number)
            if number == WRITE_COUNT // 3:
                many.set()

    async def main() -> None:
        acknowledged: list[bytes] = []
        many = trio.Event()
        async with (
            open_log(cluster.bootstrap, TOPIC) as log,
            open_log(cluster.bootstrap, TOPIC) as other,
        ):
            await log.take_over(TIMEOUT_MS)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write, log, acknowledged, many)
                await many.wait()
                leader = await wait_in_thread(cluster.leader_of, TOPIC, 0)
                await wait_in_thread(cluster.kill, leader)
            await other.take_over(TIMEOUT_MS)
            assert (
                other.seen.keys == acknowledged == [b"%d" % number for number in range(WRITE_COUNT)]
            )
            await wait_in_thread(cluster.wait_until_whole, TOPIC)

    trio.run(main)
    with BlockingAdmin(cluster.bootstrap) as admin:
        configs = admin.describe_configs([ConfigResource.topic(TOPIC)])[ConfigResource.topic(TOPIC)]
        assert len(admin.describe_topics([TOPIC])[TOPIC].partitions[0].replicas) == 3
    assert configs["min.insync.replicas"].value == "2"
