"""A cluster at one moment: brokers with their log directories, and partitions with their replicas.

This module does not read the cluster. A fenced broker is registered and does not serve. A broker
that is not in ``brokers`` is unknown, and its replicas are lost until it registers again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from log_service.common.errors import TidelogError
from log_service.common.types import TopicPartition

NO_LEADER = -1


class PlanRefused(TidelogError):  # noqa: N818 - it names what happened
    """The plan cannot or should not be made.

    The text says why, and what to do. Nothing was changed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory. Sizes are -1 if the broker does not report them.

    ``used_bytes`` is the size of the replicas in it. ``served`` are the partitions of these
    replicas, without unfinished copies. A cordoned directory takes no new replicas (KIP-1066).
    """

    path: str
    is_online: bool = True
    is_cordoned: bool = False
    total_bytes: int = -1
    usable_bytes: int = -1
    used_bytes: int = 0
    served: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayout:
    """A registered broker. All brokers without a ``rack`` count as one rack.

    A fenced broker does not report its directories. ``cordon_below`` is a text with the other
    places, beside the broker's own setting, at which ``cordoned.log.dirs`` cordons its directories.
    It is empty if there are none.
    """

    broker_id: int
    rack: str | None = None
    is_fenced: bool = False
    address: str = ""
    log_dirs: tuple[LogDirectory, ...] = ()
    cordon_below: str = ""

    @property
    def is_cordoned(self) -> bool:
        """Whether the broker takes no new replicas.

        This is so if all directories that have not failed are cordoned.
        """
        online = [directory for directory in self.log_dirs if directory.is_online]
        return bool(online) and all(directory.is_cordoned for directory in online)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLayout:
    """A partition. The first replica is the preferred leader. ``leader`` is -1 while there is none.

    ``size_bytes`` is the size of the largest replica that a broker reports. ``lags`` are the
    replicas' lags in offsets, by broker, as far as brokers report them. ``adding`` and ``removing``
    are the brokers of a reassignment that is under way.
    """

    where: TopicPartition
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    size_bytes: int = 0
    min_isr: int = 1
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lags: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """Brokers and partitions, in the order of their ids and names."""

    brokers: tuple[BrokerLayout, ...]
    partitions: tuple[PartitionLayout, ...]
    observers: frozenset[int] = frozenset()
    """Brokers whose replicas are not in sync by design."""

    def broker(self, broker_id: int) -> BrokerLayout:
        """Return the broker with an id.

        Raises:
            PlanRefused: the broker is not registered.
        """
        for broker in self.brokers:
            if broker.broker_id == broker_id:
                return broker
        known = ", ".join(str(broker.broker_id) for broker in self.brokers)
        raise PlanRefused(f"there is no broker {broker_id}; there are {known}")

    @property
    def fenced(self) -> tuple[int, ...]:
        """The ids of fenced brokers."""
        return tuple(broker.broker_id for broker in self.brokers if broker.is_fenced)

    @property
    def active(self) -> tuple[int, ...]:
        """The ids of brokers that are not fenced."""
        return tuple(broker.broker_id for broker in self.brokers if not broker.is_fenced)

    @property
    def cordoned(self) -> tuple[int, ...]:
        """The ids of brokers that serve, keep their replicas, and take no new ones."""
        return tuple(
            broker.broker_id
            for broker in self.brokers
            if broker.is_cordoned and not broker.is_fenced
        )

    @property
    def receiving(self) -> tuple[int, ...]:
        """The ids of brokers to which a plan may move replicas if it names no brokers.

        They serve, are not observers and are not cordoned.
        """
        cordoned = self.cordoned
        return tuple(
            broker_id
            for broker_id in self.active
            if broker_id not in self.observers and broker_id not in cordoned
        )

    def with_one_more(self, broker_id: int, rack: str | None) -> "ClusterLayout":
        """Return the layout that the cluster will have when a broker has joined."""
        return replace(self, brokers=(*self.brokers, BrokerLayout(broker_id=broker_id, rack=rack)))

    def racks(self, broker_ids: Collection[int]) -> dict[int, str]:
        """Return the rack of each broker. Brokers without one share the rack ``""``."""
        return {
            broker.broker_id: broker.rack or ""
            for broker in self.brokers
            if broker.broker_id in broker_ids
        }

    def topics(self) -> dict[str, list[PartitionLayout]]:
        """Return the partitions by topic."""
        found: dict[str, list[PartitionLayout]] = {}
        for partition in self.partitions:
            found.setdefault(partition.where.topic, []).append(partition)
        return found


def why_cordoned(broker: BrokerLayout) -> str:
    """Return why a broker takes no new replicas, and how to change that.

    Unsetting the broker's own setting helps only if no other setting cordons. An empty setting of
    its own always helps.
    """
    own = broker.broker_id
    if broker.cordon_below:
        return (
            f"it is cordoned (cordoned.log.dirs in {broker.cordon_below}), until: tidelog configs"
            f" set cordoned.log.dirs= --broker {own}"
        )
    return (
        "it is cordoned (cordoned.log.dirs), until: tidelog configs unset cordoned.log.dirs"
        f" --broker {own}"
    )
