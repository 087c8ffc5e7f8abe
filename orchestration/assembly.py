"""Assembles Definitions: a project's assets, sensors and schedules, the platform's resources.

``orchestration.definitions`` does it for a project of ``tidelog up``. Other Definitions merge it:

    defs = dg.Definitions.merge(assemble([my_pipelines]), my_other_definitions)

Runs execute in one process. If a run is killed, no step process is left that continues to write.
A project without sensors of its own gets the standard ones, and one without upkeep (retention,
compaction, care of lake and history) gets the standard upkeep. Each table from a topic gets the job
that replays it. One asset shows the dead letters of all tables. A topic that declares a table, such
as an archive, gets the table's asset. A topic is downstream of the transforms and sources that send
to it. An object of Dagster that a module in ``assets`` or ``sensors`` holds under a top-level name
belongs to the project. Opens no connection and reads no environment while it loads.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from orchestration.maintenance import is_maintenance, standard_maintenance
from orchestration.marts.mart import validate_inputs
from orchestration.marts.questions import validate_questions
from orchestration.project.location import SENSORS
from orchestration.resources import default_resources
from orchestration.sensing import standard_sensors
from orchestration.sources.assets import SourceFeed, source_feeds
from orchestration.topics.registry_check import registry_check, registry_schemas
from orchestration.topics.spec import TOPIC_PREFIX, topic_specs
from orchestration.transforms.dagster_views.dead_letters import DEAD_LETTERS_KEY, dead_letters_asset
from orchestration.transforms.kinds import TopicFeed, assets_of_topics, kinds_of, topic_feeds

ASSET_TYPES = (dg.AssetsDefinition, dg.AssetSpec)
JOB_TYPES = (dg.JobDefinition, UnresolvedAssetJobDefinition)


def assemble(
    modules: Sequence[ModuleType] = (),
    *,
    definitions: Sequence[dg.Definitions] = (),
    has_sensors: bool | None = None,
) -> dg.Definitions:
    """Return the Definitions of modules and of ``definitions``, with the platform's additions.

    ``definitions`` are made by components (``dg.load_from_defs_folder``). They are treated as if a
    module declared their contents.

    The standard sensors are added unless the modules declare sensors of their own. The sensor of
    sources is among them only if there is a source. ``has_sensors`` says whether the modules
    declare sensors. If it is None, they do if a module lies in a package ``sensors``. The standard
    upkeep is added unless the modules declare an asset of upkeep. Also added are archives, the jobs
    that replay tables, the asset of the dead letters, and the resources ``log_service``, ``spark``,
    ``lake``, ``warehouse`` and ``database``.

    :raises ValueError: declarations do not fit together. The text names them.
    """
    found = [*declared(modules), *(one for given in definitions for one in contents(given))]
    if has_sensors is None:
        has_sensors = any(module.__name__.partition(".")[0] == SENSORS for module in modules)
    assets = [
        one
        for one in found
        if isinstance(one, ASSET_TYPES) and not isinstance(one, dg.AssetChecksDefinition)
    ]
    has_upkeep = any(isinstance(one, dg.AssetsDefinition) and is_maintenance(one) for one in assets)
    upkeep, upkeep_schedules = ([], []) if has_upkeep else standard_maintenance()
    defined = [one for one in assets if isinstance(one, dg.AssetsDefinition)]
    of_topics = assets_of_topics(defined)
    kinds = kinds_of([*defined, *of_topics])
    added = [kind.definitions() for kind in kinds]
    feeds = topic_feeds(defined)
    followed = [kind.name for kind in kinds if kind.has_dead_letters]
    sources = source_feeds(defined)
    assets = fed(assets, feeds, sources)
    letters = [dead_letters_asset(followed)] if followed else []
    of_kinds = [asset for one in added for asset in one.assets]
    made = [*assets, *of_topics, *upkeep, *of_kinds, *letters]
    known = {DEAD_LETTERS_KEY, *(key for one in made for key in _keys(one))}
    validate_inputs(defined, known)
    validate_questions(defined, known)
    own = dg.Definitions(
        assets=made,
        asset_checks=[
            *(one for one in found if isinstance(one, dg.AssetChecksDefinition)),
            *registry_checks(defined, followed),
        ],
        sensors=[
            *(one for one in found if isinstance(one, dg.SensorDefinition)),
            *([] if has_sensors else standard_sensors(has_sources=bool(sources))),
        ],
        schedules=[
            *(one for one in found if isinstance(one, dg.ScheduleDefinition)),
            *upkeep_schedules,
        ],
        jobs=[
            *(one for one in found if isinstance(one, JOB_TYPES)),
            *(job for one in added for job in one.jobs),
        ],
        resources=default_resources(),
        executor=dg.in_process_executor,
    )
    given = [
        *(one for one in found if isinstance(one, dg.Definitions)),
        *map(surroundings, definitions),
    ]
    return dg.Definitions.merge(own, *given) if given else own


def registry_checks(
    assets: Sequence[dg.AssetsDefinition], followed: Collection[str]
) -> list[dg.AssetChecksDefinition]:
    """Return the checks that compare topics, and tables that read them, with a schema registry.

    A topic is checked if its schemas are in a registry. ``followed`` names the tables that read the
    values of their topics.
    """
    specs = {spec.name: spec for spec in topic_specs(assets) if registry_schemas([spec])}
    on_topics = [registry_check(spec.asset_key, [spec]) for spec in specs.values()]
    on_tables = [
        registry_check(feed.asset_key, known)
        for feed in topic_feeds(assets)
        if feed.table in followed
        and (known := [specs[topic] for topic in feed.topics if topic in specs])
    ]
    return [*on_topics, *on_tables]


def contents(definitions: dg.Definitions) -> Iterator[Any]:
    """Yield the assets, checks, sensors, schedules and jobs of ``definitions``, one by one."""
    parts = (
        definitions.assets,
        definitions.asset_checks,
        definitions.sensors,
        definitions.schedules,
        definitions.jobs,
    )
    for part in parts:
        yield from part or ()


def surroundings(definitions: dg.Definitions) -> dg.Definitions:
    """Return ``definitions`` without their assets, checks, sensors, schedules and jobs.

    Resources, executor, loggers and metadata are kept.
    """
    return dg.Definitions(
        resources=definitions.resources,
        executor=definitions.executor,
        loggers=definitions.loggers,
        metadata=definitions.metadata,
    )


def fed(
    assets: Sequence[Any], feeds: Sequence[TopicFeed], sources: Sequence[SourceFeed]
) -> list[Any]:
    """Return ``assets``, with each topic downstream of the transforms and sources that fill it."""
    senders: dict[dg.AssetKey, list[dg.AssetKey]] = {}
    for source in sources:
        senders.setdefault(dg.AssetKey([TOPIC_PREFIX, source.topic]), []).append(source.asset_key)
    for feed in feeds:
        if feed.target is not None:
            senders.setdefault(dg.AssetKey([TOPIC_PREFIX, feed.target]), []).append(feed.asset_key)
    return [
        dg.map_asset_specs(_upstream(senders), [one])[0] if _keys(one) & senders.keys() else one
        for one in assets
    ]


def _upstream(
    senders: Mapping[dg.AssetKey, Sequence[dg.AssetKey]],
) -> Callable[[dg.AssetSpec], dg.AssetSpec]:
    return lambda spec: (
        spec.merge_attributes(deps=senders[spec.key]) if spec.key in senders else spec
    )


def _keys(asset: Any) -> set[dg.AssetKey]:
    return {asset.key} if isinstance(asset, dg.AssetSpec) else set(asset.keys)


def declared(modules: Sequence[ModuleType]) -> Iterator[Any]:
    """Yield each object once that a module, or a list in it, holds under a top-level name."""
    seen: set[int] = set()
    for module in modules:
        for value in vars(module).values():
            for one in (
                value
                if isinstance(value, list | tuple) and not isinstance(value, ASSET_TYPES)
                else [value]
            ):
                if id(one) not in seen:
                    seen.add(id(one))
                    yield one
