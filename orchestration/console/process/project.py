"""The project of a process, as it is on the disk now, and the settings in force.

The project is loaded once, and anew after one of its files changed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from log_service.supervisor import state
from orchestration.cli.surroundings import found_settings, loaded_project, project_folder
from orchestration.cli.table_names import TABLE_PREFIXES, is_project_here
from orchestration.installation.services import WEB
from orchestration.project.location import forget_project, watched_files
from orchestration.settings import Settings
from orchestration.topics.spec import TOPIC_PREFIX

Method = Callable[..., Any]
"""A method of a process, which the console calls by its name."""

_loaded: dict[str, tuple[float, int]] = {}
"""The newest change and the number of the files of the loaded project, by its folder."""


def current_settings() -> Settings:
    """Return the settings in force, and put the project's folder first on Python's path.

    :raises ClickException: a setting cannot be used.
    """
    project_folder()
    return found_settings()


def assets_now() -> Sequence[dg.AssetsDefinition]:
    """Return the assets of the project, none if the folder has no project.

    :raises ClickException: the project cannot be loaded.
    """
    if not is_project_here():
        return ()
    forget_changed_project()
    return tuple(loaded_project().get_repository_def().assets_defs_by_key.values())


def forget_changed_project() -> None:
    """Forget a project whose files have changed since this was last called."""
    folder = Path.cwd()
    times = [path.stat().st_mtime for path in watched_files(folder)]
    now = max(times, default=0.0), len(times)
    if _loaded.get(str(folder), now) != now:
        forget_project(folder)
    _loaded[str(folder)] = now


def dagster_url(settings: Settings) -> str:
    """Return the address of the installation's Dagster UI, empty if none runs."""
    running = (one for one in state.read(settings.data_directory) if one.name == WEB)
    return next((one.address for one in running), "")


def inputs_of(assets: Sequence[dg.AssetsDefinition]) -> dict[dg.AssetKey, set[dg.AssetKey]]:
    """Return the assets that each asset is made of."""
    return {key: set(asset.asset_deps[key]) for asset in assets for key in asset.keys}


def source_topics(
    key: dg.AssetKey, inputs: Mapping[dg.AssetKey, Collection[dg.AssetKey]]
) -> tuple[str, ...]:
    """Return the topics that an asset's rows come from, also through other tables."""
    found, seen, waiting = set[str](), set[dg.AssetKey](), [key]
    while waiting:
        for each in inputs.get(waiting.pop(), ()):
            if each.path[0] == TOPIC_PREFIX:
                found.add(each.path[-1])
            elif each not in seen:
                seen.add(each)
                waiting.append(each)
    return tuple(sorted(found))


def input_tables(keys: Collection[dg.AssetKey]) -> tuple[str, ...]:
    """Return the keys among ``keys`` that are tables or marts, as texts."""
    return tuple(sorted(key.to_user_string() for key in keys if key.path[0] in TABLE_PREFIXES))
