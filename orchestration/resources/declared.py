"""Where the platform's resources lie is the project's to say: the config of a single run may not name another place.

Dagster lets a run's config replace the fields of any resource. A run that is sent elsewhere reads other topics, or commits to another lake
than the one that the table's sensor, its checks and its replays look at. Decides that such a run is refused when it first uses the
resource, with a sentence that says where the place is set. Resources of a project under other names are its own.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from orchestration.settings import SettingsError


def refused_config(context: dg.InitResourceContext, name: str, places: str) -> str:
    """Return why the config of the run that ``context`` is of is refused; empty where it names nothing of the resource ``name``.

    ``places`` says where a project sets it.
    """
    run_config: Mapping[str, Any] = {} if context.run is None else context.run.run_config
    configured = (run_config.get("resources") or {}).get(name) or {}
    named = sorted(field for field, value in (configured.get("config") or {}).items() if value is not None)
    if not named:
        return ""
    return (
        f"the run's config names {' and '.join(f'resources.{name}.config.{field}' for field in named)}: a run uses the {name} of its "
        f"project, which {places} says. Leave resources.{name} out of the run's config"
    )


def accept(refusal: str) -> None:
    """Raise what ``refused_config`` returned.

    :raises SettingsError: it returned a reason.
    """
    if refusal:
        raise SettingsError(refusal)
