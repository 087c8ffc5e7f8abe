"""The config of a single run sends it nowhere.

Log service, lake, warehouse and database are the project's.
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.resources import LakeResource, LogServiceResource, default_resources

NAMED = [
    ("lake", {"root": "/elsewhere"}, "lake of its project, which TIDELOG_LAKE, or LakeResource"),
    (
        "log_service",
        {"bootstrap_servers": "elsewhere:9092"},
        "log_service of its project, which TIDELOG_BOOTSTRAP_SERVERS, or",
    ),
    (
        "log_service",
        {"client_config": "/elsewhere"},
        "resources.log_service.config.client_config: a run uses the log_service",
    ),
    (
        "warehouse",
        {"directory": "/elsewhere"},
        "warehouse of its project, which TIDELOG_WAREHOUSE, or",
    ),
    ("database", {"url": "sqlite://"}, "database of its project, which TIDELOG_SQL_URL, or"),
]


def job_using(name: str, resources: dict[str, Any]) -> dg.JobDefinition:
    """Return a job that opens a resource."""

    @dg.op(required_resource_keys={name})
    def use(context: dg.OpExecutionContext) -> None:
        opened = getattr(context.resources, name).open()
        if hasattr(opened, "__enter__"):
            with opened:
                pass

    @dg.job(resource_defs=resources, executor_def=dg.in_process_executor)
    def using() -> None:
        use()

    return using


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    error = failed.step_failure_data.error
    assert error is not None
    return str((error.cause or error).message)


@pytest.mark.parametrize(("name", "config", "told"), NAMED)
def test_a_run_whose_config_names_another_place_is_refused(
    name: str, config: dict[str, str], told: str
) -> None:
    run_config = {"resources": {name: {"config": config}}}
    result = job_using(name, default_resources()).execute_in_process(
        run_config, raise_on_error=False
    )
    assert not result.success
    assert told in failure_of(result)
    assert f"Leave resources.{name} out of the run's config" in failure_of(result)


@pytest.mark.parametrize(("name", "config", "_told"), NAMED)
def test_a_resource_that_is_left_to_runs_is_refused_with_what_helps_there(
    name: str, config: dict[str, str], _told: str
) -> None:
    """The advice was to leave the place out of the run's config.

    The resource has it from there alone.
    """
    declared: Any = default_resources()[name]
    job = job_using(name, {name: type(declared).configure_at_launch()})
    result = job.execute_in_process({"resources": {name: {"config": config}}}, raise_on_error=False)
    assert not result.success
    assert (
        "this project declares configure_at_launch(), which leaves the place to each run. Let TIDELOG_"
        in failure_of(result)
    )
    assert (
        f"say it instead, or give a resource that runs configure another name than {name}"
        in failure_of(result)
    )


def test_config_that_names_nothing_is_as_none() -> None:
    job = job_using("lake", {"lake": LakeResource()})
    for config in ({}, {"root": None}):
        assert job.execute_in_process({"resources": {"lake": {"config": config}}}).success


@pytest.mark.parametrize("config", [{}, {"root": None}])
def test_a_run_whose_config_leaves_out_what_the_project_names_is_refused(
    tmp_path: Path, config: dict[str, None]
) -> None:
    """Dagster takes the config of a run for all of a resource's.

    The place would be that of the settings.
    """
    job = job_using("lake", {"lake": LakeResource(root=str(tmp_path))})
    result = job.execute_in_process(
        {"resources": {"lake": {"config": config}}}, raise_on_error=False
    )
    assert not result.success
    assert (
        "the run's config leaves out resources.lake.config.root: a run uses the lake of its project"
        in failure_of(result)
    )


def test_config_that_names_the_project_s_own_place_is_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launchpad of Dagster's UI writes down all that a project gave its resources."""
    monkeypatch.setenv("SHOP_LAKE", str(tmp_path))
    for root, written in (
        (str(tmp_path), str(tmp_path)),
        (dg.EnvVar("SHOP_LAKE"), {"env": "SHOP_LAKE"}),
    ):
        job = job_using("lake", {"lake": LakeResource(root=root)})
        assert job.execute_in_process(
            {"resources": {"lake": {"config": {"root": written}}}}
        ).success
        assert job.execute_in_process({"resources": {"lake": {}}}).success
    job = job_using(
        "log_service", {"log_service": LogServiceResource(bootstrap_servers="127.0.0.1:1")}
    )
    config = {"bootstrap_servers": "127.0.0.1:1", "client_config": None}
    assert job.execute_in_process({"resources": {"log_service": {"config": config}}}).success


def test_a_resource_under_another_name_is_the_project_s_own(tmp_path: Path) -> None:
    job = job_using("other_lake", {"other_lake": LakeResource()})
    assert job.execute_in_process(
        {"resources": {"other_lake": {"config": {"root": str(tmp_path)}}}}
    ).success
