"""The share groups of a node: the share partitions that it leads, and the sessions of members.

A share partition (one group on one partition) is kept from the first fetch until its partition is
led elsewhere, or until its group has no session here and no work is in progress. When a member has
gone, every share partition in which it may hold records releases them. Knows no request.

When a connection ends, waiting fetches of its groups are checked again ``ENDED_PAUSE_MS`` later. A
process that dies ends several connections within moments. Without the pause each of its members in
turn would acquire the records of the previous one, and use up a delivery.

Invariants: at most one ``LedSharePartition`` serves a key. A waiting fetch is checked again
whenever its share partitions may have changed, at most ``ENDED_PAUSE_MS`` after that. The end of a
group or of a partition visits only its own share partitions, however many others there are.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from log_service.broker.share.counts import FetchCounts, ShareCounts
from log_service.broker.share.group_settings import GroupShareSettings
from log_service.broker.share.led_share_partition import (
    DeadLetters,
    FindStart,
    LedSharePartition,
    ShareWorld,
)
from log_service.broker.share.session import ShareSession, ShareSessionCache
from log_service.broker.share.state_protocol import SharePersister
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import SHARE_VERSION
from log_service.common.timers import TimerQueue
from log_service.coordinator.share.acknowledging import AcknowledgedRange
from log_service.coordinator.share.share_state import ShareKey
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.replication.listeners import Registration
from log_service.replication.partition import Partition
from log_service.replication.purgatory import Purgatory
from log_service.replication.replica_listener import ReplicaListener

N = TypeVar("N", bound=Hashable)
ENDED_PAUSE_MS = 50
"""For how long no waiting fetch gets the records of an ended connection's members."""


class Shares(ReplicaListener):
    """All share partitions of this node by key, and all share sessions.

    Add it to the replica manager as a listener.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: TimerQueue,
        persister: SharePersister,
        settings: Callable[[str], GroupShareSettings],
        find_start: FindStart,
        dead_letters: DeadLetters,
        max_session_count: int,
    ) -> None:
        self.settings = settings
        self.timers = timers
        self.counts = ShareCounts()
        self.acknowledged: Counter[int] = Counter()
        """Numbers of acknowledged records by ``AcknowledgeType``."""
        self.evicted_count = 0
        self.expired_fetch_count = 0
        """Number of fetches that waited until their deadline."""
        self.fetch_counts: dict[str, FetchCounts] = {}
        """Counts of fetches by group, kept while one of the group's partitions is served here."""
        self.sessions = ShareSessionCache(max_session_count)
        self.delayed_fetches: Purgatory[ShareKey] = Purgatory(timers)
        self.partitions: dict[ShareKey, LedSharePartition] = {}
        self._of_group: dict[str, dict[ShareKey, LedSharePartition]] = {}
        self._of_partition: dict[Partition, dict[ShareKey, LedSharePartition]] = {}
        self._paused: set[ShareKey] = set()
        self._watching: dict[ShareKey, Registration[Callable[[Partition], None]]] = {}
        self._world = ShareWorld(
            clock=clock,
            timers=timers,
            persister=persister,
            settings=settings,
            find_start=find_start,
            dead_letters=dead_letters,
            on_change=self._changed,
            on_lost=self._forget,
            counts=self.counts,
        )

    def __repr__(self) -> str:
        return f"<Shares partitions={len(self.partitions)} sessions={len(self.sessions)}>"

    def open(self, key: ShareKey, partition: Partition) -> LedSharePartition:
        """Return a group's records of a partition that this node leads, and load them if needed.

        They may still be loading, or have failed to load.
        """
        led = self.partitions.get(key)
        if led is None:
            led = self.partitions[key] = LedSharePartition(key, partition, self._world)
            self._of_group.setdefault(key.group_id, {})[key] = led
            self._of_partition.setdefault(partition, {})[key] = led
            self.fetch_counts.setdefault(key.group_id, FetchCounts())
            self._watching[key] = partition.high_watermark_listeners.add(
                lambda _partition: self._changed(key)
            )
            led.load()
        return led

    def find(self, key: ShareKey) -> LedSharePartition | None:
        """Return a group's records of a partition, or None if none were fetched here."""
        return self.partitions.get(key)

    # Sessions

    def end_session(self, session: ShareSession) -> None:
        """End a session, and make the records that its member holds available again.

        If the session has ended already, nothing happens, because the member may have begun another
        session.
        """
        if self.sessions.is_open(session):
            self.sessions.close(session.key)
            self._release(session)

    def end_connection(self, connection_id: int) -> None:
        """End the sessions of a closed connection.

        The records of their members are available to others before their locks expire.
        """
        ended = self.sessions.close_connection(connection_id)
        self._pause({session.key.group_id for session in ended})
        for session in ended:
            self.evicted_count += 1
            self._release(session)

    def _pause(self, group_ids: set[str]) -> None:
        """Delay the checks of some groups' waiting fetches until the end of a pause.

        A pause that is in progress is not extended.
        """
        of_groups = (self._of_group.get(group_id, {}) for group_id in sorted(group_ids))
        paused = [key for of_group in of_groups for key in of_group if key not in self._paused]
        if paused:
            self._paused.update(paused)
            self.timers.schedule(
                self._world.clock.monotonic_ms() + ENDED_PAUSE_MS, lambda: self._go_on(paused)
            )

    def _go_on(self, paused: Iterable[ShareKey]) -> None:
        self._paused.difference_update(paused)
        for key in paused:
            self._changed(key)

    def _release(self, session: ShareSession) -> None:
        of_group = list(self._of_group.get(session.key.group_id, {}).values())
        for led in of_group:
            led.release(session.key.member_id)
        for led in of_group:
            self._maybe_retire(led)

    def _maybe_retire(self, led: LedSharePartition) -> None:
        """Drop a share partition whose group has no session here, once all is stored.

        Its start offset is stored, too. So the next session gets the records that come before it
        begins.
        """
        if self.sessions.has_group(led.key.group_id):
            return
        if led.is_idle and not led.store_start():
            self._lose(
                led, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the group has no member here")
            )

    # Counts

    def count_acknowledged(self, ranges: Iterable[AcknowledgedRange], start_offset: int) -> None:
        """Count stored acknowledgements by type.

        Offsets below ``start_offset``, the start of the share partition, do not count.
        """
        for each in ranges:
            first = max(each.first_offset, start_offset)
            if len(each.types) == 1:
                self.acknowledged[each.types[0]] += max(each.last_offset - first + 1, 0)
            else:
                self.acknowledged.update(each.types[first - each.first_offset :])

    # Changes

    def on_image(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        """End all sessions once share groups are disabled in the cluster."""
        if self.partitions and not image.features.get(SHARE_VERSION, 0):
            self.end_all()

    def _changed(self, key: ShareKey) -> None:
        if self.delayed_fetches.waiting_count and key not in self._paused:
            self.delayed_fetches.check(key)
        led = self.partitions.get(key)
        if led is not None and led.is_idle:
            self._maybe_retire(led)

    def _forget(self, led: LedSharePartition) -> None:
        """Remove a share partition from the maps, because it is lost."""
        if self.partitions.get(led.key) is led:
            del self.partitions[led.key]
            self._watching.pop(led.key).cancel()
            _drop(self._of_partition, led.partition, led.key)
            if _drop(self._of_group, led.key.group_id, led.key):
                del self.fetch_counts[led.key.group_id]
        self.delayed_fetches.check(led.key)

    def _lose(self, led: LedSharePartition, error: KafkaError) -> None:
        led.lose(error)
        self._forget(led)

    def on_lost(self, partition: Partition) -> None:
        """Drop the share partitions of a partition that this node no longer leads.

        Its next leader loads the stored state.
        """
        for led in list(self._of_partition.get(partition, {}).values()):
            text = f"this node leads {partition.topic_partition} no more"
            self._lose(led, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text))

    def end_all(self) -> None:
        """End all sessions and drop all share partitions.

        Called when share groups were switched off, or this node stops.
        """
        self.sessions.close_all()
        for led in list(self.partitions.values()):
            self._lose(
                led,
                KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node serves no share groups any more"
                ),
            )
        self.delayed_fetches.expire_all()


def _drop(by_name: dict[N, dict[ShareKey, LedSharePartition]], name: N, key: ShareKey) -> bool:
    """Remove a share partition from the entry ``name``. Return whether the entry is empty now.

    An empty entry is removed, too.
    """
    del by_name[name][key]
    if by_name[name]:
        return False
    del by_name[name]
    return True
