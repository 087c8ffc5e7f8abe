"""We use some names of Dagster that are not public.

Each has its reason, and is as we know it. A newer Dagster that renames or changes one of them fails
here first, with the reason beside it.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import pytest

from orchestration.installation.daemon.pace import ASSET, EVENTS, RUN_STATUS, SENSOR, STEPPING

ROOT = Path(__file__).resolve().parents[2]
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "dagster._config.pythonic_config.resource.PartialResource": "a resource that is left to runs is refused with what helps there",
        "dagster._core.definitions.asset_checks.asset_check_evaluation.AssetCheckEvaluationTargetMaterializationData": (
            "a check of a later commit names the materialization that it looked at"
        ),
        "dagster._core.definitions.unresolved_asset_job_definition.UnresolvedAssetJobDefinition": "what define_asset_job returns",
        "dagster._core.errors.DagsterUserCodeLoadError": "a project that cannot be loaded ends the code server with one sentence",
        "dagster._core.execution.compute_logs.redirect_to_file": "what a run prints goes into its files, also what C code prints",
        "dagster._core.instance.utils.RUNLESS_RUN_ID": "events without a run lie in a file of this name",
        "dagster._core.scheduler.instigation.InstigatorState": "what a sensor is called and where it is, for the watchdog",
        "dagster._core.scheduler.instigation.InstigatorTick": "what a sensor's ticks are, for the watchdog",
        "dagster._core.scheduler.instigation.InstigatorType": "the watchdog looks at sensors alone",
        "dagster._core.scheduler.instigation.TickStatus": "the watchdog tells a tick that failed from one that goes on",
        "dagster._core.storage.compute_log_manager.CapturedLogContext": "what a log manager yields while a run prints",
        "dagster._core.storage.event_log.SqlEventLogStorage": "maintenance deletes events that belong to no run",
        "dagster._core.storage.event_log.SqliteEventLogStorage": "maintenance deletes the file of a run",
        "dagster._core.storage.event_log.schema.DynamicPartitionsTable": "the daemon sees partitions that come from outside",
        "dagster._core.storage.event_log.schema.SqlEventLogStorageTable": "the table that maintenance deletes from",
        "dagster._core.storage.event_log.sqlite.sqlite_event_log.INDEX_SHARD_NAME": "the file that is no run's",
        "dagster._core.storage.event_log.sqlite.sqlite_event_log.SqliteEventLogStorage": "kept connections",
        "dagster._core.storage.local_compute_log_manager.LocalComputeLogManager": "run logs without the processes that mirror them",
        "dagster._core.storage.runs.sqlite.sqlite_run_storage.SqliteRunStorage": "kept connections",
        "dagster._core.storage.schedules.sqlite.sqlite_schedule_storage.SqliteScheduleStorage": "kept connections",
        "dagster._core.storage.schedules.schema.InstigatorsTable": "the daemon sees which sensors a person turned on",
        "dagster._core.storage.sqlite.SQLITE_BUSY_TIMEOUT_SECONDS": "our connections wait for the lock as Dagster's do",
        "dagster._core.storage.sqlite.create_db_conn_string": "the address of a file",
        "dagster._core.storage.sqlite_storage.DagsterSqliteStorage": "kept connections",
        "dagster._core.storage.tags.RUN_FAILURE_REASON_TAG": "a sensor tells a failed run from one that was killed",
        "dagster._core.storage.tags.WILL_RETRY_TAG": "a sensor waits for the retry",
        "dagster._core.types.loadable_target_origin.LoadableTargetOrigin": "names the module that the code server loads",
        "dagster._core.utils.FuturesAwareThreadPoolExecutor": "the executor that the code server takes",
        "dagster._core.workspace.context.WorkspaceRequestContext": "pages of users who may only read show their buttons as off",
        "dagster._daemon.cli.main": "the daemon, with other pauses between looks",
        "dagster._daemon.daemon.DagsterDaemon": "each step of its loop is watched, and each pause is as long as is of use",
        "dagster._grpc.__generated__.dagster_api_pb2.ReloadCodeReply": "what a reload is answered with",
        "dagster._grpc.client.DagsterGrpcClient": "a code server is asked for its id where that may have changed",
        "dagster._grpc.server.DagsterApiServer": "the code server, with runs that are forked and reloads that reload",
        "dagster._grpc.server.LoadedRepositories": "what the code server holds of the project",
        "dagster._utils.error.serializable_error_info_from_exc_info": "a project that cannot be loaded anew is the location's error",
        "dagster._grpc.server.DagsterGrpcServer": "the code server, with runs that are forked",
        "dagster._serdes.ConfigurableClassData": "what dagster.yaml says of a class of ours",
        "dagster._utils.interrupts.setup_interrupt_handlers": "the code server ends as Dagster's does",
        "dagster._utils.log.configure_loggers": "the code server logs as Dagster's does",
        "dagster._core.execution.api": "imported early for forked runs",
        "dagster._grpc.impl": "imported early for forked runs",
    }
)


def names_in_use() -> Iterator[str]:
    """Yield every private name of Dagster's that the product imports, or names in a text."""
    for path in sorted(
        path
        for folder in ("orchestration", "assets", "sensors")
        for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster._"):
                yield from (f"{node.module}.{name.name}" for name in node.names)
            elif isinstance(node, ast.Import):
                yield from (name.name for name in node.names if name.name.startswith("dagster._"))
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith("dagster._")
            ):
                yield node.value


def found(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return getattr(import_module(module), attribute)


def test_each_private_name_has_a_reason_and_none_is_left_over() -> None:
    assert set(names_in_use()) == set(REASONS)


@pytest.mark.parametrize("name", REASONS)
def test_the_name_is_there(name: str) -> None:
    assert found(name) is not None, REASONS[name]


def parameters(function: object) -> set[str]:
    assert callable(function)
    return set(inspect.signature(function).parameters)


def test_what_we_call_and_override_is_as_we_know_it() -> None:
    def named(last: str) -> object:
        return found(next(name for name in REASONS if name.endswith(last)))

    served = {
        "server_termination_event",
        "logger",
        "loadable_target_origin",
        "location_name",
        "server_threadpool_executor",
    }
    assert served <= parameters(named("DagsterApiServer"))
    assert {
        "server_termination_event",
        "dagster_api_servicer",
        "host",
        "port",
        "logger",
    } <= parameters(named("DagsterGrpcServer"))
    server = inspect.getsource(named("DagsterApiServer"))  # type: ignore[arg-type]
    for attribute in (
        "_mp_ctx.Process",
        "_reload_lock",
        "_loaded_repositories",
        "_serializable_load_error",
        "_server_id",
        "def ReloadCode",
    ):
        assert attribute in server, attribute
    assert {
        "entry_point",
        "container_image",
        "container_context",
        "code_location_name",
    } <= parameters(named("LoadedRepositories"))
    events = named("sqlite_event_log.SqliteEventLogStorage")
    for method in ("_connect", "_initdb", "conn_string_for_shard", "path_for_shard", "dispose"):
        assert hasattr(events, method), method
    source = inspect.getsource(events)  # type: ignore[arg-type]
    assert "self._db_lock" in source
    assert "self._initialized_dbs" in source
    for method in (
        "capture_logs",
        "get_log_metadata",
        "complete_artifact_path",
        "from_config_value",
    ):
        assert hasattr(named("LocalComputeLogManager"), method), method
    for storage in ("SqliteRunStorage", "SqliteScheduleStorage"):
        assert hasattr(named(storage), "connect")
        assert parameters(named(storage)) == {"conn_string", "inst_data"}
    for method in ("_has_instigators_table", "has_instigators_table", "has_built_index"):
        assert callable(getattr(named("SqliteScheduleStorage"), method)), method
    for attribute in ("_run_storage", "_event_log_storage", "_schedule_storage", "_inst_data"):
        assert attribute in inspect.getsource(named("DagsterSqliteStorage")), attribute  # type: ignore[arg-type]
    daemon = named("DagsterDaemon")
    assert callable(vars(daemon)["run_daemon_loop"])
    assert hasattr(daemon, "daemon_type")
    assert "self._last_heartbeat_time" in inspect.getsource(daemon)  # type: ignore[arg-type]
    assert list(inspect.signature(daemon.run_daemon_loop).parameters)[1:4] == [  # type: ignore[attr-defined]
        "workspace_process_context",
        "daemon_uuid",
        "daemon_shutdown_event",
    ]


def test_loops_pause_and_make_ticks_as_we_know_it() -> None:
    """``installation.daemon.pace`` hands the loops their pause.

    It hands a loop of sensors the maker of its ticks. It names nothing of them.
    """
    loops = import_module("dagster._daemon.daemon")
    sensors = inspect.getsource(import_module("dagster._daemon.sensor"))
    kinds = {one.daemon_type() for one in (loops.SensorDaemon, loops.MonitoringDaemon)}
    kinds.add(import_module("dagster._daemon.asset_daemon").AssetDaemon.daemon_type())
    kinds.add(import_module("dagster._daemon.freshness").FreshnessDaemon.daemon_type())
    kinds.add(
        import_module(
            "dagster._daemon.auto_run_reexecution.event_log_consumer"
        ).EventLogConsumerDaemon.daemon_type()
    )
    assert kinds == {SENSOR, ASSET, EVENTS, *STEPPING}
    loop = inspect.getsource(loops.SensorDaemon.core_loop)
    assert "threadpool_executor=self._threadpool_executor" in loop
    assert "instrument_elapsed=self.instrument_elapsed" in loop
    assert "instrument_elapsed(sensor, elapsed, sensor.min_interval_seconds)" in sensors
    submitted = sensors[sensors.index("threadpool_executor.submit(") :].partition(")")[0].split()
    assert submitted[1:6] == [
        "_process_tick,",
        "workspace_process_context,",
        "logger,",
        "sensor,",
        "sensor_state,",
    ]
    assert (
        import_module("dagster._core.definitions.sensor_definition").SensorType.RUN_STATUS.value
        == RUN_STATUS
    )
    assert "shutdown_event.wait(sleep_time)" in sensors
    assert "shutdown_event.wait(sleep_time)" in inspect.getsource(
        import_module("dagster._daemon.asset_daemon").AssetDaemon.core_loop
    )
    assert "shutdown_event.wait(0.5)" in inspect.getsource(loops.IntervalDaemon.core_loop)


def test_a_code_server_s_id_is_asked_and_known_as_we_know_it() -> None:
    client = import_module("dagster._grpc.client").DagsterGrpcClient
    assert "self.socket =" in inspect.getsource(client.__init__)
    assert set(inspect.signature(client.get_server_id).parameters) == {"self", "timeout"}
    assert "client.get_server_id(" in inspect.getsource(
        import_module("dagster._grpc.server_watcher")
    )
    context = inspect.getsource(
        import_module("dagster._core.workspace.context").WorkspaceProcessContext
    )
    assert "version_key = json.dumps([location.server_id" in context
    assert "self.server.wait_for_termination()" in inspect.getsource(
        import_module("dagster._grpc.server").DagsterGrpcServer.serve
    )
