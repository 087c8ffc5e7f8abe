"""The cluster has an asset with checks, a sensor over its health, and jobs in Dagster.

The broker is the test's own.
"""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from log_service.client import BlockingAdmin, ConfigResource
from log_service.cluster_operations import removal, waiting
from log_service.cluster_plans.health import CHECKS
from log_service.supervisor import installation
from log_service.supervisor.control import ControlRequest
from log_service.supervisor.nodes import ClusterSpec, NodeSpec
from orchestration.infrastructure.cluster import cluster_asset, cluster_jobs, cluster_sensor, jobs
from orchestration.infrastructure.cluster.asset import DESCRIPTIONS
from orchestration.infrastructure.cluster.sensor import HealthChange
from orchestration.resources.log_service import LogServiceResource
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.stand_ins import returning
from tests.integration.confluent import create_topic
from tests.unit.cluster_plans.layouts import broker as layout_broker
from tests.unit.cluster_plans.layouts import layout, partition


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("cluster")) as running:
        create_topic(running.bootstrap, "orders", partitions=3)
        yield running


def resources(broker: BrokerProcess) -> dict[str, LogServiceResource]:
    return {"log_service": LogServiceResource(bootstrap_servers=broker.bootstrap)}


def test_a_healthy_cluster_passes_its_checks(broker: BrokerProcess) -> None:
    result = dg.materialize([cluster_asset()], resources=resources(broker))
    assert result.success
    evaluations = result.get_asset_check_evaluations()
    assert {each.check_name for each in evaluations} >= {
        "offline_partitions",
        "under_min_isr",
        "under_replicated",
        "quorum",
        "disk",
    }
    assert all(each.passed for each in evaluations), evaluations
    (materialization,) = result.asset_materializations_for_node("infrastructure__cluster")
    assert int(str(materialization.metadata["partitions"].value)) >= 3


def test_a_throttle_that_moves_left_behind_fails_its_check(broker: BrokerProcess) -> None:
    throttle = {
        ConfigResource.broker(1): {"leader.replication.throttled.rate": "1000000"},
        ConfigResource.topic("orders"): {"leader.replication.throttled.replicas": "0:1"},
    }
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.alter_configs(throttle)
        evaluations = dg.materialize(
            [cluster_asset()], resources=resources(broker)
        ).get_asset_check_evaluations()
        admin.alter_configs(
            {resource: dict.fromkeys(configs) for resource, configs in throttle.items()}
        )
    (check,) = [each for each in evaluations if each.check_name == "throttles"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "replication is throttled on broker 1 and nothing moves" in str(check.description)


def test_the_sensor_tells_that_the_cluster_is_away_and_back(broker: BrokerProcess) -> None:
    told: list[HealthChange] = []
    sensor = cluster_sensor(cluster_asset(), notify=told.append)

    def tick(cursor: str | None) -> dg.SensorResult:
        context = dg.build_sensor_context(cursor=cursor, resources=resources(broker))
        result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    first = tick(None)
    told.clear()
    broker.kill()
    away = tick(first.cursor)
    assert [change.check for change in told if not change.is_over] == ["unreachable"]
    assert not away.run_requests
    broker.start()
    back = tick(away.cursor)
    assert told[-1].is_over or "unreachable" in {change.check for change in told if change.is_over}
    assert len(back.run_requests or []) == 1


@pytest.mark.parametrize("name", ["cluster_rebalance", "cluster_add", "cluster_roll"])
def test_a_job_is_a_dry_run_unless_it_is_told_otherwise(broker: BrokerProcess, name: str) -> None:
    job = next(job for job in cluster_jobs() if job.name == name)
    assert job.execute_in_process(resources=resources(broker)).success


def test_a_rebalance_is_carried_out_where_that_is_asked_for(broker: BrokerProcess) -> None:
    job = next(job for job in cluster_jobs() if job.name == "cluster_rebalance")
    config = {"ops": {"rebalance": {"config": {"dry_run": False}}}}
    assert job.execute_in_process(resources=resources(broker), run_config=config).success


def test_the_last_broker_is_not_removed(broker: BrokerProcess) -> None:
    job = next(job for job in cluster_jobs() if job.name == "cluster_remove")
    config = {"ops": {"remove": {"config": {"broker": 1, "dry_run": False}}}}
    with pytest.raises(dg.Failure, match="broker 1 is the last one"):
        job.execute_in_process(resources=resources(broker), run_config=config)


def noting(removed: list[int]) -> Callable[[object, int], Awaitable[None]]:
    """Return a function that takes no voter out, and notes which one it was to take out."""

    async def remove_voter(_admin: object, broker_id: int) -> None:
        removed.append(broker_id)

    return remove_voter


def test_a_broker_that_no_supervisor_runs_is_refused_before_it_loses_its_vote(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The job asks the supervisor last; that it cannot stop the broker must be known first."""
    removed: list[int] = []
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    monkeypatch.setattr(
        jobs, "read_layout", returning(layout([layout_broker(1), layout_broker(2)], []))
    )
    monkeypatch.setattr(jobs, "refuse_removal", returning({1: True, 2: True}))
    monkeypatch.setattr(removal, "remove_voter", noting(removed))
    job = next(job for job in cluster_jobs() if job.name == "cluster_remove")
    config = {"ops": {"remove": {"config": {"broker": 2, "dry_run": False}}}}
    said = r"broker 2 serves, and no tidelog up on .* runs it, so this job cannot stop it: .* tidelog cluster drain 2 --execute, stop it"
    with pytest.raises(dg.Failure, match=said):
        job.execute_in_process(resources=resources(broker), run_config=config)
    assert removed == []


def test_a_restart_of_brokers_that_are_none_is_refused(broker: BrokerProcess) -> None:
    job = next(job for job in cluster_jobs() if job.name == "cluster_roll")
    config = {"ops": {"restart": {"config": {"brokers": [1, 9]}}}}
    with pytest.raises(dg.Failure, match="there is no broker 9; there are 1"):
        job.execute_in_process(resources=resources(broker), run_config=config)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ControlRequest]:
    """Return the requests to an installation's supervisor.

    Its cluster is another one, with a node of the same id.
    """
    requests: list[ControlRequest] = []
    another = ClusterSpec(
        cluster_id="another",
        nodes=(NodeSpec(node_id=1, roles="broker,controller"),),
        next_node_id=2,
    )
    monkeypatch.setattr(installation, "is_locked", lambda _data: True)
    monkeypatch.setattr(installation, "read_cluster", lambda _data: another)

    async def ask(_data: Path, request: ControlRequest, **_how: object) -> None:
        requests.append(request)

    monkeypatch.setattr(installation, "ask", ask)
    return requests


@pytest.mark.parametrize(
    ("name", "ops", "said"),
    [
        (
            "cluster_roll",
            {"restart": {}},
            r"broker 1 is not a node of a tidelog up on .*, so this job cannot restart it: .*Nothing was restarted",
        ),
        (
            "cluster_add",
            {"add": {"start": True}},
            r"no tidelog up on .* runs nodes of this cluster, so this job cannot start a broker",
        ),
    ],
)
def test_the_installation_of_another_cluster_is_left_alone(
    broker: BrokerProcess,
    asked: list[ControlRequest],
    name: str,
    ops: dict[str, dict[str, object]],
    said: str,
) -> None:
    job = next(job for job in cluster_jobs() if job.name == name)
    config = {"ops": {op: {"config": {"dry_run": False, **more}} for op, more in ops.items()}}
    with pytest.raises(dg.Failure, match=said):
        job.execute_in_process(resources=resources(broker), run_config=config)
    assert asked == []


def test_a_start_with_the_ids_of_brokers_is_refused(broker: BrokerProcess) -> None:
    job = next(job for job in cluster_jobs() if job.name == "cluster_add")
    config = {"ops": {"add": {"config": {"start": True, "brokers": [1]}}}}
    with pytest.raises(
        dg.Failure, match="start starts a broker with the next id: name no brokers with it"
    ):
        job.execute_in_process(resources=resources(broker), run_config=config)


def test_a_broker_with_the_only_replica_of_an_offline_partition_is_not_forgotten(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[int] = []
    down = layout(
        [layout_broker(1), layout_broker(2, is_fenced=True)],
        [partition("solo", 0, [2], leader=-1, isr=[])],
    )
    for module in (jobs, removal, waiting):
        monkeypatch.setattr(module, "read_layout", returning(down))
    monkeypatch.setattr(waiting, "EMPTY_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "refuse_removal", returning({}))
    monkeypatch.setattr(removal, "remove_voter", noting(removed))
    job = next(job for job in cluster_jobs() if job.name == "cluster_remove")
    config = {"ops": {"remove": {"config": {"broker": 2, "dry_run": False}}}}
    with pytest.raises(
        dg.Failure,
        match="broker 2 is not forgotten: it holds a replica of solo-0, which is offline",
    ):
        job.execute_in_process(resources=resources(broker), run_config=config)
    assert removed == []


def test_each_check_of_the_cluster_is_described() -> None:
    assert set(DESCRIPTIONS) == set(CHECKS)
