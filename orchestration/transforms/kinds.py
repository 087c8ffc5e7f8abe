"""The kinds of tables that follow topics: one protocol, and one registry of declared tables.

The ``kind`` module of a kind's folder makes a ``Kind`` of each declaration, and its ``assets``
module registers the ``Kind`` here. Sensors, lag, replays, dead letters and the commands read this
registry, so a new kind changes none of them. A kind whose tables are declared by topics, and not
one by one, registers them as ``TablesOfTopics``. Beside its folder, a new kind needs three entries:
its public names in ``transforms/__init__.py`` and in the stub ``orchestration/__init__.pyi``, and
its folder in the import contract of the kinds in ``pyproject.toml``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import dagster as dg

from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.retained.lag import TopicLag
from orchestration.topics.spec import TopicSpec, declared_topic, declared_topics, topic_specs
from orchestration.transforms.declarations import TopicTable, table_key
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.run.context import RunContext

if TYPE_CHECKING:
    from orchestration.resources.database import DatabaseResource
    from orchestration.resources.warehouse import WarehouseResource

FOLLOWS = "tidelog/follows"
"""The tag of an asset that follows topics, and the label of its ``KindText`` in the metadata."""
FOLLOWERS = dg.AssetSelection.tag(FOLLOWS, "")
"""Selects the assets that follow topics, of every kind."""
Snapshot = Callable[[], TableSnapshot | None]
"""Loads the lake's table of a kind. Returns None if it does not exist yet."""


class StartRule(Protocol):
    """Decides when a table gets a run, and with which config."""

    @property
    def is_each_record_awaited(self) -> bool:
        """Return whether a single new record can start a run."""
        ...

    def due_offsets(self, lag: TopicLag, snapshot: Snapshot, now_s: float) -> int:
        """Return how many offsets a run could read now."""
        ...

    def is_upkeep_due(self, snapshot: Snapshot, now_s: float) -> bool:
        """Return whether a run has work to do without new records."""
        ...

    def run_config(
        self, snapshot: Snapshot, now_s: float, *, follow_s: int
    ) -> Mapping[str, object]:
        """Return the config of a run that starts now.

        ``follow_s`` is how many seconds the run should continue with new records, 0 for one range.
        """
        ...


class EveryRecord:
    """Starts a run as soon as there is a record."""

    is_each_record_awaited = True

    def due_offsets(self, lag: TopicLag, snapshot: Snapshot, now_s: float) -> int:  # noqa: ARG002 - a StartRule
        """Return all pending offsets."""
        return lag.pending

    def is_upkeep_due(self, snapshot: Snapshot, now_s: float) -> bool:  # noqa: ARG002 - a StartRule
        """Return False, because there is no work without new records."""
        return False

    def run_config(
        self,
        snapshot: Snapshot,  # noqa: ARG002 - a StartRule
        now_s: float,  # noqa: ARG002 - a StartRule
        *,
        follow_s: int,
    ) -> Mapping[str, object]:
        """Return the config of a run, with the seconds for which it follows its topic."""
        return {"follow_s": follow_s} if follow_s else {}


EVERY_RECORD = EveryRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFeed:
    """Facts that a sensor needs about a table that follows a topic.

    If ``minimum_interval_s`` is None, the setting applies. ``target`` is the topic that a transform
    to a topic sends to. ``also`` names further topics that the table reads, such as the right one
    of a join.
    """

    asset_key: dg.AssetKey
    table: str
    topic: str
    minimum_interval_s: int | None
    target: str | None = None
    also: tuple[str, ...] = ()
    start: StartRule = EVERY_RECORD

    @property
    def topics(self) -> tuple[str, ...]:
        """Return all topics that the table follows."""
        return (self.topic, *self.also)


def feed_of(table: TopicTable) -> TopicFeed:
    """Return the ``TopicFeed`` of a table that follows one topic."""
    return TopicFeed(
        asset_key=table_key(table.name),
        table=table.name,
        topic=table.topic.name,
        minimum_interval_s=table.minimum_interval_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Assets and jobs that a kind adds to a project beside the table's own asset."""

    assets: Sequence[dg.AssetsDefinition] = ()
    jobs: Sequence[dg.JobDefinition] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The owner of a database's table.

    ``holder`` returns a text on the owner, None if no other asset owns the table. ``take`` makes
    the asset of this project the owner.
    """

    holder: Callable[[], str | None]
    take: Callable[[], None]


class Kind(Protocol):
    """A declared table that follows topics."""

    @property
    def name(self) -> str:
        """Return the table's name, which is also that of its lake table or ledger."""
        ...

    @property
    def feed(self) -> TopicFeed:
        """Return the table's ``TopicFeed``, for the sensor and to measure lag."""
        ...

    def replay(self, context: RunContext, request: ReplayRequest) -> Replayed:
        """Replay ``request`` without Dagster, and return the totals.

        :raises ReplayRefusedError: a check forbids a commit.
        """
        ...

    @property
    def follower(self) -> TopicTable | None:
        """Return the table if its transform can be tried on single records, else None."""
        return None

    def why_no_replay(self, *, is_everything: bool, is_of_dead_letters: bool) -> str | None:  # noqa: ARG002 - most kinds take any
        """Return why this replay is impossible, and what to do instead, or None if it is possible.

        ``is_everything`` requests all committed records. ``is_of_dead_letters`` requests only
        rejected records. With both, it suffices that one of the two replays is possible.
        """
        return None

    @property
    def is_replayable(self) -> bool:
        """Return whether any replay is possible."""
        return True

    @property
    def is_replayed_whole(self) -> bool:
        """Return whether a replay has to be of everything."""
        return False

    @property
    def has_dead_letters(self) -> bool:
        """Return whether the table rejects records."""
        return True

    @property
    def has_owner(self) -> bool:
        """Return whether the table is in a database, where exactly one asset owns it."""
        return False

    def ownership(
        self,
        database: "DatabaseResource",  # noqa: ARG002 - most kinds have no table in a database
        warehouse: "WarehouseResource",  # noqa: ARG002
        lake: Lake,  # noqa: ARG002
    ) -> AbstractContextManager[Ownership | None]:
        """Open the table, and yield its owner. Yield None if ``has_owner`` is False.

        :raises StoreError: the database refuses.
        """
        return nullcontext()

    def validate_beside(self, others: Iterable["Kind"]) -> None:  # noqa: ARG002 - most kinds stand beside any other
        """Refuse tables of the project that exclude this one. ``others`` includes this one.

        :raises ValueError: names them.
        """
        return

    def definitions(self) -> Additions:
        """Return the assets and jobs that replay into the table in Dagster."""
        return Additions()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesOfTopics:
    """A kind of table that topics declare in their ``TopicSpec``, such as archives.

    ``kind`` returns the table of a topic, None if it declares none. ``asset`` makes its asset.
    """

    kind: Callable[[TopicSpec], Kind | None]
    asset: Callable[[TopicSpec], dg.AssetsDefinition]


class KindText(str):
    """The text that Dagster's UI shows on a table's topics. It also carries the ``Kind``."""

    __slots__ = ("kind",)
    kind: Kind


_declared: dict[str, Kind] = {}
_of_topics: list[TablesOfTopics] = []


def register(kind: Kind) -> None:
    """Register ``kind`` under its name.

    A project that is loaded anew registers its tables again.
    """
    _declared[kind.name] = kind


def declare(kind: Kind, spec: dg.AssetSpec) -> dg.AssetSpec:
    """Register ``kind``, and return the spec of its asset, by which ``topic_feeds`` finds it."""
    register(kind)
    text = KindText(" and ".join(kind.feed.topics))
    text.kind = kind
    return spec.merge_attributes(metadata={FOLLOWS: text}, tags={FOLLOWS: ""})


def register_of_topics(tables: TablesOfTopics) -> None:
    """Register a kind of table that topics declare. Call it once per process."""
    _of_topics.append(tables)


def declare_of_topics() -> None:
    """Register the tables that belong to declared topics, such as their archives.

    Loading a project's Definitions does so, too. Python calls that load no Definitions need this.
    """
    for spec in map(declared_topic, declared_topics()):
        for tables in _of_topics:
            if (kind := tables.kind(spec)) is not None:
                register(kind)


def assets_of_topics(assets: Iterable[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """Return the assets of tables that topics declare, such as archives, and that ``assets`` lacks.

    :raises ValueError: two topics would share a table.
    """
    assets = list(assets)
    known = {key for asset in assets for key in asset.keys}
    found: dict[str, str] = {}
    made = []
    for spec in topic_specs(assets):
        for tables in _of_topics:
            kind = tables.kind(spec)
            if kind is None:
                continue
            other = found.setdefault(kind.name, spec.name)
            if other != spec.name:
                raise ValueError(
                    f"the topics {other} and {spec.name} cannot both have a table {kind.name}:"
                    " give one of them another name, or declare the table for one of them alone"
                )
            asset = tables.asset(spec)
            made += [] if asset.key in known else [asset]
    return made


def declared(name: str) -> Kind | None:
    """Return the table that was declared last under ``name``, None if there is none."""
    return _declared.get(name)


def all_declared() -> list[Kind]:
    """Return all declared tables, sorted by name."""
    return [_declared[name] for name in sorted(_declared)]


def replayable_names() -> list[str]:
    """Return the names of all declared tables that can be replayed, sorted."""
    return [kind.name for kind in all_declared() if kind.is_replayable]


def why_no_replay(
    name: str, *, is_everything: bool = False, is_of_dead_letters: bool = False
) -> str | None:
    """Return why ``name`` does not allow a replay, as ``Kind.why_no_replay`` does.

    It is None if the table allows it, or if no such table is declared.
    """
    kind = declared(name)
    return (
        None
        if kind is None
        else kind.why_no_replay(is_everything=is_everything, is_of_dead_letters=is_of_dead_letters)
    )


def is_replayed_whole(name: str) -> bool:
    """Return whether ``name`` is declared and can only be replayed whole."""
    kind = declared(name)
    return kind is not None and kind.is_replayed_whole


def kinds_of(assets: Iterable[dg.AssetsDefinition]) -> list[Kind]:
    """Return the tables among ``assets`` that follow topics, sorted by name.

    :raises ValueError: two of them exclude each other.
    """
    found = sorted(
        (text.kind for asset in assets for _, text in _texts(asset)), key=lambda kind: kind.name
    )
    for kind in found:
        kind.validate_beside(found)
    return found


def topic_feeds(assets: Iterable[dg.AssetsDefinition]) -> tuple[TopicFeed, ...]:
    """Return the ``TopicFeed`` of each topic's follower among ``assets``, sorted by name."""
    found = [
        replace(text.kind.feed, asset_key=key) for asset in assets for key, text in _texts(asset)
    ]
    return tuple(sorted(found, key=lambda feed: feed.table))


def _texts(asset: dg.AssetsDefinition) -> list[tuple[dg.AssetKey, KindText]]:
    found = [(key, metadata.get(FOLLOWS)) for key, metadata in asset.metadata_by_key.items()]
    return [(key, text) for key, text in found if isinstance(text, KindText)]
