"""Where the platform's resources lie is the project's to say: the config of a single run may not name another place.

Dagster lets a run's config replace the fields of any resource. A run that is sent elsewhere reads other topics, or commits to another lake
than the one that the table's sensor, its checks and its replays look at. Decides that such a run is refused when it first uses the
resource, with a sentence that says where the place is set. Resources of a project under other names are its own.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._config.pythonic_config.resource import PartialResource

from orchestration.settings import SettingsError


def refused_config(context: dg.InitResourceContext, name: str, places: str) -> str:
    """Return why the config of the run that ``context`` is of is refused; empty where the resource ``name`` is as the project has it.

    ``places`` says where a project sets it. A run's config stands for all that the project gave the resource, so that a field that it
    leaves out is one that it replaces. Dagster's launchpad writes down what the project gave: that is the same place.
    """
    run_config: Mapping[str, Any] = {} if context.run is None else context.run.run_config
    configured = (run_config.get("resources") or {}).get(name) or {}
    if "config" not in configured:
        return ""
    given, declared = configured["config"] or {}, declared_config(context.resource_def)
    other = {field: given.get(field) for field in sorted({*given, *declared}) if given.get(field) != declared.get(field)}
    if not other:
        return ""
    refused = "the run's config " + " and ".join(
        f"{'leaves out' if value is None else 'names'} resources.{name}.config.{field}" for field, value in other.items()
    )
    if is_left_to_runs(context.resource_def):
        return (
            f"{refused}: a run uses the {name} of its project, and this project declares configure_at_launch(), which leaves the place to "
            f"each run. Let {places} say it instead, or give a resource that runs configure another name than {name}"
        )
    return f"{refused}: a run uses the {name} of its project, which {places} says. Leave resources.{name} out of the run's config"


def is_left_to_runs(resource: dg.ResourceDefinition | None) -> bool:
    """Whether a project declares a resource with ``configure_at_launch()``. Of Dagster's definitions, the function alone tells."""
    return resource is not None and resource.resource_fn.__qualname__.startswith(f"{PartialResource.__name__}.")


def declared_config(resource: dg.ResourceDefinition | None) -> Mapping[str, Any]:
    """Return the fields of a resource as its project gave them, a variable of the environment by its name."""
    field = None if resource is None else resource.config_schema.as_field()
    return field.default_value or {} if field is not None and field.default_provided else {}


def accept(refusal: str) -> None:
    """Raise what ``refused_config`` returned.

    :raises SettingsError: it returned a reason.
    """
    if refusal:
        raise SettingsError(refusal)
