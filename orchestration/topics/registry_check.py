"""The asset check that the newest version of a topic's subject can be read into its columns.

The check belongs to the topic, and to each table that follows it. A run of the check reports the
verdict of that moment. The sensor of schema drift reports a verdict that changed, and each commit
of a table is followed by a recent verdict. Decides nothing about schemas.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from orchestration.formats import RegistrySchema
from orchestration.formats.compatibility import (
    UNDECIDED,
    Compatibility,
    newest_compatibility,
    recent_compatibility,
)
from orchestration.topics.spec import TopicSpec

CHECK_NAME = "compatible_with_the_registry"


def registry_schema(spec: TopicSpec) -> RegistrySchema | None:
    """Return the schema of a topic's values if it is in a schema registry, else None."""
    found = spec.value_format
    return found if isinstance(found, RegistrySchema) else None


def registry_schemas(specs: Iterable[TopicSpec]) -> list[RegistrySchema]:
    """Return the schemas of those topics whose values have a schema in a registry."""
    return [found for spec in specs if (found := registry_schema(spec)) is not None]


def registry_check(key: dg.AssetKey, specs: Sequence[TopicSpec]) -> dg.AssetChecksDefinition:
    """Return the check on the asset ``key``, a topic or a table that follows ``specs``.

    :raises ValueError: no topic has its schemas in a registry.
    """
    schemas = registry_schemas(specs)
    if not schemas:
        named = " and ".join(spec.name for spec in specs)
        raise ValueError(f"the schemas of the topic {named} are in no registry")
    subjects = " and ".join(one.declared_version.subject for one in schemas)

    @dg.asset_check(
        asset=key,
        name=CHECK_NAME,
        description=f"The newest version of {subjects} can be read as the declared columns",
    )
    def compatible_with_the_registry() -> dg.AssetCheckResult:
        try:
            verdicts = [newest_compatibility(schema) for schema in schemas]
        except UNDECIDED as error:
            warn = dg.AssetCheckSeverity.WARN
            return dg.AssetCheckResult(passed=False, description=str(error), severity=warn)
        return dg.AssetCheckResult(**_shown(verdicts))

    return compatible_with_the_registry


def evaluation(key: dg.AssetKey, verdicts: Sequence[Compatibility]) -> dg.AssetCheckEvaluation:
    """Return the event that reports ``verdicts`` on an asset without a run of its check."""
    return dg.AssetCheckEvaluation(asset_key=key, check_name=CHECK_NAME, **_shown(verdicts))


def recent_evaluation(
    key: dg.AssetKey, specs: Iterable[TopicSpec]
) -> dg.AssetCheckEvaluation | None:
    """Return the event that reports recent verdicts, or None if a schema has none."""
    found = [recent_compatibility(schema) for schema in registry_schemas(specs)]
    verdicts = [one for one in found if isinstance(one, Compatibility)]
    return evaluation(key, verdicts) if verdicts and len(verdicts) == len(found) else None


def _shown(verdicts: Sequence[Compatibility]) -> Mapping[str, Any]:
    fields = [name for one in verdicts for name in one.new_fields]
    return {
        "passed": all(one.is_compatible for one in verdicts),
        "description": "; ".join(one.text for one in verdicts),
        "severity": dg.AssetCheckSeverity.ERROR,
        "metadata": {
            "declared": " and ".join(str(one.declared) for one in verdicts),
            "newest": " and ".join(str(one.newest) for one in verdicts),
            **({"new_fields": ", ".join(fields)} if fields else {}),
        },
    }
