"""How a session is configured, without starting one."""

import socket
import stat
import sys
from pathlib import Path

import pytest

from orchestration.settings import SettingsError, load_settings
from orchestration.spark import session
from orchestration.spark.server import SparkServer
from orchestration.spark.session import (
    SparkGoneError,
    is_server_gone,
    open_session,
    refuse_strangers,
    session_configuration,
    shared_scratch,
    spark_environment,
    wait_until_reachable,
)
from orchestration.spark.token import TOKEN_VARIABLE, dialled, kept_token, token_for, token_path


def test_nothing_binds_beyond_loopback_and_there_is_no_ui(tmp_path: Path) -> None:
    server = SparkServer(settings=load_settings({"TIDELOG_DATA": str(tmp_path)}), port=15_123)
    command = server.argv()
    for setting in (
        "spark.driver.bindAddress=127.0.0.1",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.connect.grpc.binding.port=15123",
        "spark.ui.enabled=false",
        f"spark.local.dir={tmp_path}/spark/local",
    ):
        assert setting in command
    assert server.url == "sc://127.0.0.1:15123"
    assert command[-1] == "spark-internal"


def test_a_session_computes_the_same_wherever_it_runs() -> None:
    shared = session_configuration(load_settings({}))
    assert shared["spark.sql.session.timeZone"] == "UTC"
    options = SparkServer(settings=load_settings({})).argv()
    assert all(f"{key}={value}" in options for key, value in shared.items())


def test_workers_get_this_python_and_find_this_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Of this repository, which other tests import.
    monkeypatch.delitem(sys.modules, "assets", raising=False)
    settings = load_settings({"TIDELOG_DATA": str(tmp_path / "data")})
    given = spark_environment(settings, {"PATH": "", "PYTHONPATH": "/mine:/other"})
    assert given["PYSPARK_PYTHON"] == sys.executable
    root = str(Path(__file__).resolve().parents[4])
    assert given["PYTHONPATH"].split(":") == ["/mine", "/other", str(tmp_path), root]
    assert given["JAVA_HOME"] == str(tmp_path / "data" / "java")
    assert (
        spark_environment(settings, {"PATH": "", "PYSPARK_PYTHON": "/my/python"})["PYSPARK_PYTHON"]
        == "/my/python"
    )


def test_the_server_does_not_become_a_client_of_itself(tmp_path: Path) -> None:
    server = SparkServer(settings=load_settings({"TIDELOG_DATA": str(tmp_path)}))
    environment = server.environment(
        {"PATH": "", "TIDELOG_SPARK_REMOTE": "sc://127.0.0.1:1", "HOME": "/root"}
    )
    assert "TIDELOG_SPARK_REMOTE" not in environment
    assert environment["HOME"] == "/root"


@pytest.mark.parametrize(
    ("remote", "is_shared"),
    [
        (None, True),
        ("sc://127.0.0.1:15002", True),
        ("sc://localhost:15002/;token=x", True),
        ("sc://spark.example:15002", False),
    ],
)
def test_files_are_shared_only_with_a_server_on_this_machine(
    remote: str | None, is_shared: bool
) -> None:
    settings = load_settings({"TIDELOG_SPARK_REMOTE": remote} if remote else {})
    assert (shared_scratch(settings) is not None) is is_shared


def test_a_server_that_is_not_there_is_named_soon(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert not SparkServer(
            settings=load_settings({"TIDELOG_DATA": str(tmp_path)}), port=port
        ).is_ready()
        with pytest.raises(
            SparkGoneError, match=f"the Spark server at 127.0.0.1:{port} does not answer"
        ) as raised:
            wait_until_reachable(f"sc://127.0.0.1:{port}/;token=precious", within_s=0)
        assert "precious" not in str(raised.value)
        bound.listen()
        wait_until_reachable(f"sc://127.0.0.1:{port}", within_s=5)
        assert SparkServer(
            settings=load_settings({"TIDELOG_DATA": str(tmp_path)}), port=port
        ).is_ready()


def test_the_token_is_not_shown_where_another_account_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        session, "strangers_at", lambda _host, port: frozenset({65534} if port == 15_002 else ())
    )
    with pytest.raises(
        SparkGoneError, match=r"user id 65534\) listens on port 15002, .*--spark-port"
    ):
        refuse_strangers("sc://127.0.0.1")
    refuse_strangers("sc://127.0.0.1:15003")
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr(session, "wait_until_reachable", lambda _remote, _within_s: None)
    settings = load_settings(
        {"TIDELOG_DATA": str(tmp_path), "TIDELOG_SPARK_REMOTE": "sc://127.0.0.1:15002"}
    )
    kept_token(settings)
    with pytest.raises(SparkGoneError, match="the server's token is not sent there"):
        open_session(settings)


@pytest.mark.parametrize("remote", [{}, {"TIDELOG_SPARK_REMOTE": "sc://127.0.0.1:15002"}])
def test_no_key_of_a_session_sends_the_token_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: dict[str, str]
) -> None:
    monkeypatch.setattr(
        session,
        "wait_until_reachable",
        lambda _remote, _within_s: pytest.fail("nothing is dialled"),
    )
    with pytest.raises(
        SettingsError, match=r"spark\.remote cannot be a key of spark_config.*TIDELOG_SPARK_REMOTE"
    ):
        open_session(
            load_settings({"TIDELOG_DATA": str(tmp_path), **remote}),
            {"spark.remote": "sc://localhost:7777"},
        )


def test_only_errors_of_the_wire_mean_that_the_server_is_gone() -> None:
    from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException

    assert is_server_gone(
        SparkConnectGrpcException("<_InactiveRpcError ... StatusCode.UNAVAILABLE failed to connect")
    )
    assert not is_server_gone(AnalysisException("[UNRESOLVED_COLUMN] x"))
    assert not is_server_gone(ValueError("UNAVAILABLE"))


def test_the_token_of_the_server_is_kept_in_a_file_of_its_owner_and_stands_in_no_argument(
    tmp_path: Path,
) -> None:
    settings = load_settings(
        {"TIDELOG_DATA": str(tmp_path), "TIDELOG_SPARK_REMOTE": "sc://127.0.0.1:15002"}
    )
    server = SparkServer(settings=settings)
    token = server.environment({"PATH": ""})["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert len(token) >= 32
    assert server.environment({"PATH": ""})["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == token, (
        "a restart keeps it"
    )
    assert stat.S_IMODE(token_path(settings).stat().st_mode) == 0o600
    assert not any(token in part for part in server.argv())
    assert token not in repr(server)
    assert token_for(settings, {}) == token
    assert token_for(settings, {TOKEN_VARIABLE: "mine"}) == "mine"


def test_no_other_account_can_enter_the_directory_where_spark_keeps_records_and_its_token(
    tmp_path: Path,
) -> None:
    settings = load_settings({"TIDELOG_DATA": str(tmp_path)})
    settings.spark_scratch_directory.mkdir(mode=0o755)
    kept_token(settings)
    assert stat.S_IMODE(settings.spark_scratch_directory.stat().st_mode) == 0o700
    settings.spark_scratch_directory.chmod(0o777)
    SparkServer(settings=settings).environment({"PATH": "", TOKEN_VARIABLE: "mine"})
    assert stat.S_IMODE(settings.spark_scratch_directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o622])
def test_a_token_that_others_may_have_read_or_chosen_is_not_used_again(
    tmp_path: Path, mode: int
) -> None:
    settings = load_settings({"TIDELOG_DATA": str(tmp_path)})
    kept = kept_token(settings)
    token_path(settings).chmod(mode)
    made = kept_token(settings)
    assert made != kept
    assert token_path(settings).read_text() == made
    assert stat.S_IMODE(token_path(settings).stat().st_mode) == 0o600


def test_a_server_elsewhere_is_not_shown_the_token_of_the_one_here(tmp_path: Path) -> None:
    SparkServer(settings=load_settings({"TIDELOG_DATA": str(tmp_path)})).environment({"PATH": ""})
    settings = load_settings(
        {"TIDELOG_DATA": str(tmp_path), "TIDELOG_SPARK_REMOTE": "sc://spark.example:15002"}
    )
    assert token_for(settings, {}) is None


def test_a_token_is_sent_to_localhost_by_name() -> None:
    assert dialled("sc://127.0.0.1:15002/;user_id=me") == "sc://localhost:15002/;user_id=me"
    assert dialled("sc://spark.example:15002") == "sc://spark.example:15002"
