"""All fetches of this node as a follower, and the connection that fetches each partition.

Each leader has ``num.replica.fetchers`` connections. The partition's name decides which of them
fetches it. A connection begins with its first partition and ends with its last. ``Fetcher``
performs the fetches.

Invariant: a partition is fetched over at most one connection, from the leader in the newest
metadata.
"""

from collections.abc import Callable, Iterable
from zlib import crc32

import trio

from log_service.common.env import Clock
from log_service.common.features import METADATA_VERSION
from log_service.common.types import NodeId, TopicPartition
from log_service.metadata.features import METADATA_VERSION_LEVEL
from log_service.metadata.image import MetadataImage
from log_service.replication.fetcher import Fetcher
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import Partition
from log_service.replication.throttles import Throttle

FetcherKey = tuple[int, int]
"""The leader id and the index of one connection to this leader."""


class Fetchers:
    """The fetchers of one node. Each runs as a task of ``nursery``."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        links: ClusterLinks,
        clock: Clock,
        nursery: trio.Nursery,
        image: Callable[[], MetadataImage],
        throttle: Callable[[], Throttle | None],
        on_safe: Callable[[Partition], None],
    ) -> None:
        self._node_id = node_id
        self._links = links
        self._clock = clock
        self._nursery = nursery
        self._image = image
        self._throttle = throttle
        self._on_safe = on_safe
        self._fetchers: dict[FetcherKey, Fetcher] = {}
        self._places: dict[TopicPartition, FetcherKey] = {}

    def __repr__(self) -> str:
        return f"<Fetchers {list(self._fetchers.values())}>"

    def __len__(self) -> int:
        return len(self._places)

    @property
    def max_lag(self) -> int:
        """The lag, in records, of the partition that is furthest behind its leader."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its current leader, in its current leader epoch."""
        where = partition.topic_partition
        key = (
            partition.leader,
            (crc32(where.topic.encode()) + where.partition) % self._links.config.fetcher_count,
        )
        if self._places.get(where, key) != key:
            self.forget(partition)
        self._places[where] = key
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = self._new_fetcher(*key)
            fetcher.add(partition)
            self._nursery.start_soon(self._run, key, fetcher)
        else:
            fetcher.add(partition)

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition, if it is fetched."""
        key = self._places.pop(partition.topic_partition, None)
        if key is not None and (fetcher := self._fetchers.get(key)) is not None:
            fetcher.remove(partition)

    def on_brokers_changed(self, broker_ids: Iterable[int]) -> None:
        """Send requests to these brokers now, because their address or state may have changed."""
        changed = frozenset(broker_ids)
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id in changed:
                fetcher.wake()

    def _new_fetcher(self, leader_id: int, index: int) -> Fetcher:
        return Fetcher(
            node_id=self._node_id,
            leader_id=leader_id,
            index=index,
            links=self._links,
            clock=self._clock,
            find_leader=lambda: self._find(leader_id),
            metadata_version=lambda: self._image().features.get(
                METADATA_VERSION, METADATA_VERSION_LEVEL
            ),
            throttle=self._throttle,
            on_safe=self._on_safe,
            start_soon=self._nursery.start_soon,
        )

    def _find(self, leader_id: int) -> tuple[str, int] | None:
        """Return the host and port at which a broker listens for other brokers."""
        broker = self._image().cluster.brokers.get(NodeId(leader_id))
        endpoint = None if broker is None else broker.endpoints.get(self._links.listener_name)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    async def _run(self, key: FetcherKey, fetcher: Fetcher) -> None:
        while len(fetcher):
            await fetcher.run()  # a partition may have come while the last connection was given up
        if self._fetchers.get(key) is fetcher:
            del self._fetchers[key]
