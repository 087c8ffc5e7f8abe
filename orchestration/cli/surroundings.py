"""Finds the surroundings of a command: project, settings, Dagster instance, running processes.

The project is that of the current folder. A command uses the broker and the warm Spark server of a
``tidelog up`` that runs on the same data, unless the settings name others. Errors that a user can
act on are shown as one sentence, without a traceback.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from log_service.common.installation_names import SERVERS_SETTING, SPARK_REMOTE_SETTING
from log_service.common.private_files import private_directory
from orchestration.project.importing import NEEDED, kept_imports
from orchestration.settings import (
    REGISTRY_URL,
    Settings,
    SettingsError,
    export_environment,
    load_settings,
    process_environment,
)

if TYPE_CHECKING:
    import dagster as dg

FOUND_BY = {
    "broker": SERVERS_SETTING,
    "spark": SPARK_REMOTE_SETTING,
    "registry": REGISTRY_URL,
}
READY = "ready"
ERROR_OUTPUT = 2
"""The descriptor of the error output, which a JVM inherits."""
SPARK_LOG = "command.log"
"""The file in Spark's folder with the log of the Spark that the last command started."""
QUIET_LOGGERS = {"console": {"config": {"log_level": "CRITICAL"}}}


def found_settings() -> Settings:
    """Return the settings that apply here.

    If the settings name no broker, registry or Spark, those of a running ``tidelog up`` are used.

    :raises ClickException: a setting cannot be used, or the platform is not installed.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"this needs {', '.join(missing)}: pip install 'tidelog[platform]'"
        )
    from log_service.supervisor import state  # noqa: PLC0415 - with the command, not with its help
    from orchestration.spark.session import CONNECT_MODE  # noqa: PLC0415

    try:
        settings = load_settings()
        running = {
            one.name: one.address
            for one in state.read(settings.data_directory)
            if one.state == READY
        }
        given = process_environment()
        found = {
            setting: running[name]
            for name, setting in FOUND_BY.items()
            if name in running and not given.get(setting)
        }
        export_environment(found)
        settings = load_settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error
    export_environment({CONNECT_MODE: "1"} if settings.spark_remote else {})
    return settings


def loaded_project() -> "dg.Definitions":
    """Import the project of the current folder.

    :raises ClickException: there is none, or it cannot be loaded.
    """
    from orchestration.project.location import (  # noqa: PLC0415 - with the command, not with its help
        DEFINITIONS,
        root_cause,
    )

    try:
        with kept_imports():
            definitions: dg.Definitions = import_module(DEFINITIONS).defs
    except Exception as error:  # a project's modules may raise anything
        raise click.ClickException(root_cause(error)) from error
    return definitions


@contextmanager
def explained() -> Iterator[None]:
    """Turn the platform's errors in the block into a sentence at the terminal."""
    from orchestration.transforms.dagster_views.failures import (  # noqa: PLC0415 - with the command, not with its help
        FINAL,
        PASSING,
    )

    try:
        yield
    except (*FINAL, *PASSING) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def quiet_spark(settings: Settings) -> Iterator[None]:
    """Keep the log lines of a Spark that starts in this process away from the terminal.

    They go into a file of the data directory. Python's own error output still goes to the terminal.
    A warm server writes into the logs of its installation anyway.
    """
    if settings.spark_remote:
        yield
        return
    scratch = private_directory(settings.spark_scratch_directory)
    sys.stderr.flush()
    with (
        (scratch / SPARK_LOG).open("wb") as log,
        os.fdopen(os.dup(ERROR_OUTPUT), "w") as terminal,
        redirect_stderr(terminal),
    ):
        os.dup2(log.fileno(), ERROR_OUTPUT)
        try:
            yield
        finally:
            terminal.flush()
            os.dup2(terminal.fileno(), ERROR_OUTPUT)


def run_replay(
    definitions: "dg.Definitions", table: str, config: Mapping[str, Any], settings: Settings
) -> dict[str, Any]:
    """Replay into ``table`` by the project's job, and return the metadata of its one output.

    The offsets are planned first, outside of the installation's Dagster. So neither a dry run nor a
    refused replay appears among the runs in its UI. The replay itself appears there, if there is an
    installation.

    :raises ClickException: the replay is refused, or fails.
    """
    import dagster as dg  # noqa: PLC0415 - with the command, not with its help

    from orchestration.installation.instance import open_instance  # noqa: PLC0415
    from orchestration.project.home import dagster_home  # noqa: PLC0415

    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    with dg.DagsterInstance.ephemeral() as beside:
        planned = _ran(definitions, table, {**config, "dry_run": True}, beside)
    if config.get("dry_run"):
        return planned
    home = dagster_home(settings.data_directory)
    has_instance = (home / "dagster.yaml").exists()
    with (
        quiet_spark(settings),
        open_instance(home) if has_instance else dg.DagsterInstance.ephemeral() as instance,
    ):
        return _ran(definitions, table, config, instance)


def _ran(
    definitions: "dg.Definitions",
    table: str,
    config: Mapping[str, Any],
    instance: "dg.DagsterInstance",
) -> dict[str, Any]:
    from orchestration.transforms.dagster_views.replays import (  # noqa: PLC0415 - with the command
        JOB_PREFIX,
        NODE,
    )

    run_config = {"ops": {NODE: {"config": dict(config)}}, "loggers": QUIET_LOGGERS}
    job = definitions.resolve_job_def(JOB_PREFIX + table)
    result = job.execute_in_process(run_config, instance=instance, raise_on_error=False)
    if not result.success:
        raise click.ClickException(why_failed(result))
    outputs = [
        event.step_output_data.metadata
        for event in result.all_events
        if event.event_type_value == "STEP_OUTPUT"
    ]
    return {label: one.value for label, one in outputs[-1].items()} if outputs else {}


def why_failed(result: "dg.ExecuteInProcessResult") -> str:
    """Return the error message of the first step that failed."""
    for event in result.all_events:
        if event.event_type_value == "STEP_FAILURE":
            data = event.step_failure_data
            described = data.user_failure_data.description if data.user_failure_data else None
            return str(described or (data.error.message if data.error else "the run failed"))
    return f"the run {result.run_id} failed; the Dagster UI says why"


def project_folder() -> Path:
    """Return the current folder, and put it first on Python's path.

    The project is then imported from there.
    """
    folder = Path.cwd()
    if sys.path[0] != str(folder):
        sys.path.insert(0, str(folder))
    return folder
