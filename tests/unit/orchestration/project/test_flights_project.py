"""The example project's declarations fit together.

They load without a log service, a lake or Spark.
"""

import dagster as dg
import pytest

from orchestration.definitions import defs
from orchestration.demo.freshness import Pipeline
from orchestration.sensing import standard_sensors


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline.of(list(defs.get_repository_def().assets_defs_by_key.values()))


def test_each_topic_has_one_table(pipeline: Pipeline) -> None:
    assert {feed.topic: feed.table for feed in pipeline.feeds} == {
        "flights": "clean_flights",
        "weather": "weather",
        "planes": "planes",
        "airports": "airports",
        "airlines": "airlines",
    }
    assert {spec.name for spec in pipeline.topics} == {feed.topic for feed in pipeline.feeds}


def test_everything_downstream_comes_from_tables_that_exist(pipeline: Pipeline) -> None:
    tables = {feed.table for feed in pipeline.feeds} | {
        asset.name for asset in pipeline.downstream if asset.key.path[0] == "lake"
    }
    assert all(set(asset.inputs) <= tables and asset.inputs for asset in pipeline.downstream)


def test_everything_runs_in_one_process_and_everything_is_on_from_the_start() -> None:
    repository = defs.get_repository_def()
    assert {job.executor_def.name for job in repository.get_all_jobs()} == {
        dg.in_process_executor.name
    }
    assert {sensor.default_status for sensor in repository.sensor_defs} == {
        dg.DefaultSensorStatus.RUNNING
    }
    assert {schedule.default_status for schedule in repository.schedule_defs} == {
        dg.DefaultScheduleStatus.RUNNING
    }


def test_tables_from_topics_are_started_by_the_sensor_alone(pipeline: Pipeline) -> None:
    graph = defs.resolve_asset_graph()
    assert all(graph.get(feed.asset_key).automation_condition is None for feed in pipeline.feeds)
    assert all(
        graph.get(asset.key).automation_condition is not None for asset in pipeline.downstream
    )


def test_every_lake_table_is_checked(pipeline: Pipeline) -> None:
    checked = {key.asset_key for key in defs.resolve_asset_graph().asset_check_keys}
    assert {feed.asset_key for feed in pipeline.feeds} <= checked


def test_a_project_without_sensors_gets_the_standard_ones() -> None:
    declared = {sensor.name for sensor in defs.get_repository_def().sensor_defs}
    assert {sensor.name for sensor in standard_sensors()} == declared - {"cluster_health"}, (
        "the example also watches its cluster"
    )
