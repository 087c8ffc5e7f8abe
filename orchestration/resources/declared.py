"""Refuses runs whose config moves a platform resource to another place than the project sets.

Dagster lets a run's config replace the fields of any resource. Such a run would read other topics,
or commit to another lake, than the table's sensor, checks and replays use. Decides that the run is
refused when it first uses the resource, with a sentence that says where the place is set. Resources
of a project under other names are not checked.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._config.pythonic_config.resource import PartialResource

from orchestration.settings import SettingsError


def refused_config(context: dg.InitResourceContext, name: str, places: str) -> str:
    """Return why the config of a run is refused, an empty text if it is accepted.

    It is accepted if it leaves the resource ``name`` as the project has it. ``places`` names the
    settings by which a project sets it. A run's config replaces all fields that the project gave
    the resource, so a field that it leaves out is replaced, too. Dagster's launchpad fills in the
    project's own fields. They are accepted, because they name the same place.
    """
    run_config: Mapping[str, Any] = {} if context.run is None else context.run.run_config
    configured = (run_config.get("resources") or {}).get(name) or {}
    if "config" not in configured:
        return ""
    given, declared = configured["config"] or {}, declared_config(context.resource_def)
    other = {
        field: given.get(field)
        for field in sorted({*given, *declared})
        if given.get(field) != declared.get(field)
    }
    if not other:
        return ""
    refused = "the run's config " + " and ".join(
        f"{'leaves out' if value is None else 'names'} resources.{name}.config.{field}"
        for field, value in other.items()
    )
    if is_left_to_runs(context.resource_def):
        return (
            f"{refused}: a run uses the {name} of its project, and this project declares"
            f" configure_at_launch(), which leaves the place to each run. Let {places} say it"
            f" instead, or give a resource that runs configure another name than {name}"
        )
    return (
        f"{refused}: a run uses the {name} of its project, which {places} says. Leave"
        f" resources.{name} out of the run's config"
    )


def is_left_to_runs(resource: dg.ResourceDefinition | None) -> bool:
    """Return whether a project declares a resource with ``configure_at_launch()``.

    Only the name of the resource's function shows this in Dagster's definitions.
    """
    return resource is not None and resource.resource_fn.__qualname__.startswith(
        f"{PartialResource.__name__}."
    )


def declared_config(resource: dg.ResourceDefinition | None) -> Mapping[str, Any]:
    """Return a resource's fields as its project gave them.

    Values that come from environment variables appear as the variables' names.
    """
    field = None if resource is None else resource.config_schema.as_field()
    return field.default_value or {} if field is not None and field.default_provided else {}


def accept(refusal: str) -> None:
    """Refuse the run if ``refused_config`` returned a reason.

    :raises SettingsError: ``refusal`` is not empty.
    """
    if refusal:
        raise SettingsError(refusal)
