"""Prepares and ends the Dagster instance of an installation, and writes its configuration.

``python -m orchestration instance prepare`` creates the instance before webserver and daemon race
for it, and fails every run whose process is gone. Such a run would stay STARTED for ever, and
guards against two runs of one table would wait for it. ``... cancel-runs`` cancels the running runs
and waits for their end. Both need DAGSTER_HOME. Knows nothing of topics and tables.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from dagster import DagsterInstance, DagsterRun, RunsFilter

from log_service.client import ConfigError
from log_service.common.private_files import private_directory
from orchestration.installation.postgres_url import check_postgres
from orchestration.project.home import ALIVE, UNFINISHED, dagster_home
from orchestration.project.location import ProjectError, find_project
from orchestration.project.workspace import other_locations
from orchestration.settings import (
    HOME_VARIABLE,
    SettingsError,
    instance_home,
    load_settings,
    named_in_environment,
)

PROJECT_LOCATION = "tidelog"
CANCEL_DEADLINE_S = 45.0
EARLIER_CONFIGURATIONS = frozenset(
    {
        "3f5ce9c6708d80be3e49c2b1505236e36516f200f31c29c9bdf3d286ddd65745",
        "bf4ca130adb122445a0f132b8625b3a5ef02c8c7ba2599aea6dddf0790dc9659",
        "8cc9f7d566cd93262af23bb54437a57c0ce46d1b9654806f4355a51163807f1b",
        "7cce648b2503f3726340967321c5665bd41f6680db659d3505ddf613f8d0b705",
        "35ba1331f93de161115862cf54f75e93e27a6e9b405298a240ec2a576baa019d",
    }
)
"""SHA-256 of each dagster.yaml that an earlier release wrote. An unchanged file is replaced."""
DEAD_RUN = (
    "The process of this run is gone; what it had committed stays, and the next run carries on from"
    " there."
)
POLL_S = 0.2

DAGSTER_YAML = """\
# Written by tidelog where there is none; yours to change.
telemetry:
  enabled: false
nux:
  enabled: false
# SQLite whose connections stay open: an event then waits for no disk. The setting TIDELOG_POSTGRES_URL puts PostgreSQL here.
storage:
  custom:
    module: orchestration.installation.event_storage
    class: KeptStorage
    config:
      base_dir:
        env: DAGSTER_HOME
# What a run prints goes into its own files, which the UI shows; no further processes are started for it.
compute_logs:
  module: orchestration.installation.compute_logs
  class: FileComputeLogs
  config:
    base_dir:
      env: DAGSTER_HOME
# Every event is kept; this bounds what runs write into their logs.
python_logs:
  python_log_level: INFO
# Runs start at once; the pool of a table keeps them one after another.
run_coordinator:
  module: dagster.core.run_coordinator
  class: DefaultRunCoordinator
concurrency:
  pools:
    default_limit: 1
    granularity: op
# A sensor's tick waits for records, so ticks must not wait for each other.
sensors:
  use_threads: true
  num_workers: 4
  num_submit_workers: 4
schedules:
  use_threads: true
  num_workers: 2
# After a pause a schedule makes up for its last time, not for each one.
scheduler:
  module: dagster.core.scheduler
  class: DagsterDaemonScheduler
  config:
    max_catchup_runs: 1
# A run that was killed is noticed, gives its place back, and is tried again; a run that failed is not.
run_monitoring:
  enabled: true
  poll_interval_seconds: 5
  start_timeout_seconds: 180
  free_slots_after_run_end_seconds: 1
run_retries:
  enabled: true
  max_retries: 3
  retry_on_asset_or_op_failure: false
retention:
  schedule:
    purge_after_days: 7
  sensor:
    purge_after_days:
      skipped: 1
      failure: 14
      success: 7
"""

SQLITE_STORAGE = DAGSTER_YAML[DAGSTER_YAML.index("# SQLite") : DAGSTER_YAML.index("# What a run")]
POSTGRES_STORAGE = """\
# The PostgreSQL database that the setting names.
storage:
  custom:
    module: orchestration.installation.postgres_storage
    class: PostgresStorage
    config:
      postgres_url:
        env: TIDELOG_POSTGRES_URL
"""
POSTGRES_YAML = DAGSTER_YAML.replace(SQLITE_STORAGE, POSTGRES_STORAGE)
POSTGRES_SETTING = "TIDELOG_POSTGRES_URL"
POSTGRES_PACKAGES = ("dagster_postgres", "psycopg")


def write_configuration(home: Path, *, is_postgres: bool = False) -> None:
    """Write dagster.yaml, unless there is one that Tidelog did not write.

    Also write the file that keeps the UI from asking for an e-mail address first. The directory is
    closed to other accounts. It holds the events of runs, and an account that could read its
    databases could lock them.

    :raises ConfigError: PostgreSQL is requested, and a user's own file does not read its setting.
    """
    wanted = POSTGRES_YAML if is_postgres else DAGSTER_YAML
    private_directory(home)
    for path, text in ((home / "dagster.yaml", wanted), (home / ".nux" / "nux.yaml", "seen: 1\n")):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or is_ours(path.read_text()):
            path.write_text(text)
    if is_postgres and POSTGRES_SETTING not in (home / "dagster.yaml").read_text():
        raise ConfigError(
            f"TIDELOG_POSTGRES_URL is set, and {home / 'dagster.yaml'}, which you have changed,"
            " does not read it. Put this into the file in the place of its storage, or remove the"
            f" file to have it written anew:\n{POSTGRES_STORAGE}"
        )


def is_ours(text: str) -> bool:
    """Return whether the text is a dagster.yaml of this release, or of an earlier one."""
    return (
        text in {DAGSTER_YAML, POSTGRES_YAML}
        or sha256(text.encode()).hexdigest() in EARLIER_CONFIGURATIONS
    )


def validate_postgres(is_postgres: bool) -> None:  # noqa: FBT001 - the setting itself
    """Refuse PostgreSQL if its packages are not installed.

    :raises ConfigError: names them.
    """
    missing = [name for name in POSTGRES_PACKAGES if is_postgres and find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"TIDELOG_POSTGRES_URL needs {' and '.join(missing)}: pip install"
            " 'tidelog[platform,postgres]'"
        )


@contextmanager
def open_instance(home: Path) -> Iterator[DagsterInstance]:
    """Yield the instance of a folder, in a process without DAGSTER_HOME."""
    with (
        named_in_environment(HOME_VARIABLE, str(home)),
        DagsterInstance.from_config(str(home)) as instance,
    ):
        yield instance


def write_workspace(
    data_directory: Path, project_directory: Path, code_socket: Path, *, is_postgres: bool = False
) -> Path:
    """Write the workspace file of an installation and return its path.

    It names the project's code server, and the user's other code locations. Also write the
    instance's configuration (``write_configuration``).

    :raises ConfigError: there is no project, its workspace.yaml cannot be used, or the packages
        for PostgreSQL are not installed.
    """
    validate_postgres(is_postgres)
    try:
        find_project(project_directory)
        others = other_locations(project_directory)
    except ProjectError as error:
        raise ConfigError(str(error)) from error
    home = dagster_home(data_directory)
    write_configuration(home, is_postgres=is_postgres)
    path = home / "workspace.yaml"
    server = {"grpc_server": {"socket": str(code_socket), "location_name": PROJECT_LOCATION}}
    path.write_text(
        "# Written anew by `tidelog up`.\n"
        + yaml.safe_dump({"load_from": [server, *others]}, sort_keys=False)
    )
    return path


def fail_dead_runs(instance: DagsterInstance) -> list[DagsterRun]:
    """Fail every unfinished run, free its concurrency slots, and return these runs.

    Call it while no code server runs, because no run has a process then.
    """
    dead = list(instance.get_runs(filters=RunsFilter(statuses=list(UNFINISHED))))
    for run in dead:
        instance.report_run_failed(run, DEAD_RUN)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return dead


def cancel_runs(
    instance: DagsterInstance, deadline_s: float = CANCEL_DEADLINE_S
) -> list[DagsterRun]:
    """Cancel all unfinished runs, and return those whose process still runs at the deadline.

    Wait until no run has a process, ``deadline_s`` seconds at most.
    """
    for run in instance.get_runs(filters=RunsFilter(statuses=list(UNFINISHED))):
        instance.run_launcher.terminate(run.run_id)
    deadline = time.monotonic() + deadline_s
    while alive := list(instance.get_runs(filters=RunsFilter(statuses=list(ALIVE)))):
        if time.monotonic() > deadline:
            return alive
        time.sleep(POLL_S)
    return []


def require_storage(home: Path) -> None:
    """Exit with a sentence if the instance's PostgreSQL database cannot be reached."""
    try:
        url = load_settings().postgres_url
        if url is not None and POSTGRES_SETTING in (home / "dagster.yaml").read_text():
            check_postgres(url.reveal())
    except SettingsError as error:
        sys.exit(str(error))


def main() -> None:
    """Run the command ``prepare`` or ``cancel-runs``.

    Print the runs that were failed, or that did not end in time. Exit with a sentence if
    DAGSTER_HOME names no instance.
    """
    parser = argparse.ArgumentParser(prog="python -m orchestration instance", description=__doc__)
    parser.add_argument("command", choices=["prepare", "cancel-runs"])
    command = parser.parse_args().command
    try:
        home = instance_home()
    except SettingsError as error:
        sys.exit(f"{parser.prog}: {error}")
    if command == "prepare":
        require_storage(home)
    with DagsterInstance.get() as instance:
        runs = fail_dead_runs(instance) if command == "prepare" else cancel_runs(instance)
    what = "failed, its process was gone" if command == "prepare" else "did not end in time"
    for run in runs:
        print(f"run {run.run_id} {what}", flush=True)  # noqa: T201 - goes to the component's log


if __name__ == "__main__":
    main()
