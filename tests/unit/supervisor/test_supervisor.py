"""A supervisor over real processes starts in order, restarts dead ones, and leaves nothing behind.

That holds however it ends.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import trio
from click.testing import CliRunner

from log_service.cli.status import status
from log_service.common.errors import ConfigError, StorageError
from log_service.supervisor import readiness, state
from log_service.supervisor import supervisor as supervisor_module
from log_service.supervisor.spec import Component, HttpReadiness, Readiness, UptimeReadiness
from log_service.supervisor.supervisor import StartFailed, Supervisor
from tests.helpers.ports import free_port
from tests.unit.supervisor.installations import eventually, installation, left_behind, listener, run

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"


def pause(component: state.ComponentState) -> None:
    """Stop a component's process as SIGSTOP does."""
    assert component.pid is not None, "signals to process 0 go to all processes of the test"
    os.kill(component.pid, signal.SIGSTOP)


def test_components_start_in_order_and_stop_in_the_opposite_one(tmp_path: Path) -> None:
    told: list[str] = []
    run(
        installation(tmp_path, listener("second", tmp_path, "first"), listener("first", tmp_path)),
        told,
        lambda _: None,
    )
    assert [line.split()[:2] for line in told] == [
        ["first", "ready"],
        ["second", "ready"],
        ["second", "stopped"],
        ["first", "stopped"],
    ]
    assert eventually(lambda: not left_behind(tmp_path))


def test_components_of_one_stop_group_stop_together(tmp_path: Path) -> None:
    """Nodes of one cluster that stopped one after the other would leave the last ones without a
    quorum.

    It could not let them go.
    """
    slow = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), sys.exit(0))); time.sleep(600)"
    nodes = [
        Component(
            name=name,
            argv=(sys.executable, "-c", slow),
            readiness=UptimeReadiness(seconds=1.0),
            stop_group="broker",
            stop_deadline_s=30.0,
        )
        for name in ("one", "two", "three")
    ]
    stopping: list[float] = []
    run(installation(tmp_path, *nodes), [], lambda _: stopping.append(time.monotonic()))
    assert 2.0 <= time.monotonic() - stopping[0] < 4.0, (
        "three times two seconds, one after the other, are six"
    )


def test_state_tells_what_runs_while_it_runs(tmp_path: Path) -> None:
    seen: list[str] = []
    run(
        installation(tmp_path, listener("one", tmp_path)),
        [],
        lambda _: seen.extend(c.state for c in state.read(tmp_path)),
    )
    assert seen == ["ready"]
    assert state.read(tmp_path) == []


def test_component_that_dies_is_started_again(tmp_path: Path) -> None:
    told: list[str] = []

    def kill_it_and_wait(_supervisor: Supervisor) -> None:
        (component,) = state.read(tmp_path)
        assert component.pid != component.guard_pid
        psutil.Process(component.pid).kill()
        assert eventually(lambda: sum("ready" in line for line in told) == 2)

    run(installation(tmp_path, listener("one", tmp_path)), told, kill_it_and_wait)
    assert any("ended with exit code 137; starts again in 1 s" in line for line in told)
    assert eventually(lambda: not left_behind(tmp_path))


def test_component_that_cannot_start_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    broken = Component(
        name="broken",
        argv=(sys.executable, "-c", "raise SystemExit('no such luck')"),
        readiness=UptimeReadiness(seconds=30),
    )
    with pytest.raises(StartFailed, match=r"(?s)broken could not be started.*no such luck"):
        run(installation(tmp_path, broken, listener("fine", tmp_path)), [], lambda _: None)
    assert eventually(lambda: not left_behind(tmp_path))


def test_failed_preparation_keeps_a_component_from_starting(tmp_path: Path) -> None:
    base = listener("one", tmp_path)
    component = Component(
        name="one",
        argv=base.argv,
        readiness=base.readiness,
        prepare=((sys.executable, "-c", "print('not prepared'); raise SystemExit(3)"),),
    )
    with pytest.raises(
        StartFailed, match=r"(?s): it failed in its preparation, with exit code 3\..*not prepared"
    ):
        run(installation(tmp_path, component), [], lambda _: None)


def test_second_supervisor_on_the_same_data_is_refused(tmp_path: Path) -> None:
    def start_another(_supervisor: Supervisor) -> None:
        with pytest.raises(StorageError, match=r"already runs on .*--data"):
            run(installation(tmp_path, listener("two", tmp_path)), [], lambda _: None)

    run(installation(tmp_path, listener("one", tmp_path)), [], start_another)


def test_what_is_to_be_done_before_stopping_is_done_while_the_component_is_alive(
    tmp_path: Path,
) -> None:
    port = free_port()
    base = listener("one", tmp_path, port=port)
    ask = f"import socket; socket.create_connection(('127.0.0.1', {port})); open({str(tmp_path / 'asked')!r}, 'w')"
    component = Component(
        name="one",
        argv=base.argv,
        readiness=base.readiness,
        before_stop=((sys.executable, "-c", ask),),
    )
    run(installation(tmp_path, component), [], lambda _: None)
    assert (tmp_path / "asked").exists()


def test_component_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    stubborn = Component(
        name="stubborn",
        argv=(sys.executable, "-c", STUBBORN, str(tmp_path)),
        readiness=UptimeReadiness(seconds=0.5),
        stop_deadline_s=0.5,
    )
    run(installation(tmp_path, stubborn), [], lambda _: None)
    assert eventually(lambda: not left_behind(tmp_path))


SUPERVISOR_PROCESS = """
import sys, trio
from pathlib import Path
from tests.unit.supervisor.installations import eventually, installation, left_behind, listener, run
from log_service.supervisor.supervisor import Supervisor
directory = Path(sys.argv[1])
trio.run(Supervisor(installation(directory, listener("one", directory)), lambda line: print(line, flush=True)).run)
"""


def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR_PROCESS, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert b"ready" in child.stdout.readline()
    assert len(left_behind(tmp_path)) > 2
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert eventually(lambda: not left_behind(tmp_path))


WEB_PAGE = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


def web_page(directory: Path, port: int) -> Component:
    return Component(
        name="page",
        argv=(sys.executable, "-c", WEB_PAGE, str(port), str(directory)),
        readiness=HttpReadiness(url=f"http://127.0.0.1:{port}/"),
        health_interval_s=0.1,
        stop_deadline_s=60,
    )


def test_a_component_that_hangs_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "PROBE_DEADLINE_S", 0.5)
    told: list[str] = []

    def stop_it_and_wait(_supervisor: Supervisor) -> None:
        (component,) = state.read(tmp_path)
        pause(component)
        assert eventually(lambda: "not responding" in {one.state for one in state.read(tmp_path)})
        assert eventually(lambda: sum("ready" in line for line in told) == 2)

    run(installation(tmp_path, web_page(tmp_path, free_port())), told, stop_it_and_wait)
    assert any(
        "page  did not respond for 0 s, and was killed; starts again in 1 s" in line
        for line in told
    )
    assert eventually(lambda: not left_behind(tmp_path))


def test_a_component_of_the_user_s_own_is_looked_at_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "PROBE_DEADLINE_S", 0.5)
    port = free_port()
    told: list[str] = []
    own = subprocess.Popen([sys.executable, "-c", WEB_PAGE, str(port), str(tmp_path)])
    page = replace(
        web_page(tmp_path, port), argv=(), address=f"127.0.0.1:{port}", external_setting="MY_PAGE"
    )

    def own_page() -> state.ComponentState:
        return next(one for one in state.read(tmp_path) if one.name == "page")

    def stop_and_continue(_supervisor: Supervisor) -> None:
        assert own_page().pid is None
        assert (own_page().state, own_page().external_setting) == ("ready", "MY_PAGE")
        own.send_signal(signal.SIGSTOP)
        assert eventually(lambda: any("does not respond" in line for line in told))
        assert own_page().state == "not responding"
        own.send_signal(signal.SIGCONT)
        assert eventually(lambda: any("ready again" in line for line in told))

    try:
        run(
            installation(tmp_path, page, listener("after", tmp_path, "page")),
            told,
            stop_and_continue,
        )
        assert told[0] == f"page   ready  127.0.0.1:{port}  (yours: MY_PAGE)"
        assert own.poll() is None
    finally:
        own.kill()
        own.wait()


def test_settings_that_cannot_be_used_for_a_moment_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key and its certificates are two files: one that asks between the two changes finds them
    unlike.
    """
    told: list[str] = []
    page = replace(web_page(tmp_path, free_port()), argv=(), external_setting="MY_PAGE")
    fault: list[str] = []

    async def asked(_readiness: object) -> bool:
        if fault:
            raise ConfigError(fault[0])
        return True

    monkeypatch.setattr(supervisor_module, "is_ready", asked)
    monkeypatch.setattr(readiness, "is_ready", asked)

    def break_and_mend(_supervisor: Supervisor) -> None:
        fault.append("the key is not that of the certificate")
        assert eventually(
            lambda: any("cannot be asked" in line and "the key is not" in line for line in told)
        )
        fault.clear()
        assert eventually(lambda: any("ready again" in line for line in told))

    run(installation(tmp_path, page), told, break_and_mend)


def test_a_component_that_cannot_be_asked_for_a_moment_goes_on_and_one_that_hangs_then_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor ended, and all components with it.

    It had looked in the moment in which a certificate was exchanged.
    """
    monkeypatch.setattr(readiness, "PROBE_DEADLINE_S", 0.5)
    told: list[str] = []
    fault: list[str] = []
    ask = readiness.is_ready

    async def asked(one: Readiness) -> bool:
        if fault:
            raise ConfigError(fault[0])
        return await ask(one)

    monkeypatch.setattr(supervisor_module, "is_ready", asked)
    monkeypatch.setattr(readiness, "is_ready", asked)

    def times(text: str) -> int:
        return sum(text in line for line in told)

    def break_and_mend(_supervisor: Supervisor) -> None:
        (before,) = state.read(tmp_path)
        fault.append("the key is not that of the certificate")
        assert eventually(
            lambda: times("page  cannot be asked: the key is not that of the certificate") == 1
        )
        fault.clear()
        assert eventually(lambda: times("page  can be asked again") == 1)
        assert state.read(tmp_path)[0].pid == before.pid, "it was not started again"

        fault.append("there is no key")
        assert eventually(lambda: times("there is no key") == 1)
        psutil.Process(before.pid).kill()
        assert eventually(lambda: times("there is no key") == 2), (
            "what is started again is asked again"
        )
        fault.clear()
        assert eventually(lambda: times("ready") == 2)
        pause(state.read(tmp_path)[0])
        assert eventually(lambda: times("did not respond") == 1)
        assert eventually(lambda: times("ready") == 3)

    run(installation(tmp_path, web_page(tmp_path, free_port())), told, break_and_mend)
    assert eventually(lambda: not left_behind(tmp_path))


def test_a_component_that_was_started_again_and_cannot_be_asked_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The component serves, and was killed at the deadline of each start.

    That went on for as long as the certificate was not there.
    """
    told: list[str] = []
    fault: list[str] = []
    failed: list[str] = []

    async def asked(_readiness: object) -> bool:
        if fault:
            failed.append(fault[0])
            raise ConfigError(fault[0])
        return True

    monkeypatch.setattr(supervisor_module, "is_ready", asked)
    monkeypatch.setattr(readiness, "is_ready", asked)

    def break_and_mend(supervisor: Supervisor) -> None:
        process = supervisor.processes["page"]
        assert eventually(lambda: process.component_pid is not None)
        process.kill()
        fault.append("there is no key")
        assert eventually(lambda: any("starts again in 1 s" in line for line in told))
        told.clear()
        failed.clear()
        assert eventually(lambda: len(failed) > 10), "ten intervals are longer than the deadline"
        assert told == ["page  cannot be asked: there is no key"]
        fault.clear()
        assert eventually(lambda: any("page  ready" in line for line in told))

    page = replace(web_page(tmp_path, free_port()), start_deadline_s=0.5)
    run(installation(tmp_path, page), told, break_and_mend)
    assert eventually(lambda: not left_behind(tmp_path))


def test_what_cannot_be_asked_at_its_first_start_is_told_and_ends_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(_readiness: object) -> bool:
        raise ConfigError("there is no key")

    monkeypatch.setattr(readiness, "is_ready", asked)
    with pytest.raises(ConfigError, match="there is no key"):
        trio.run(
            Supervisor(installation(tmp_path, web_page(tmp_path, free_port())), lambda _: None).run
        )
    assert eventually(lambda: not left_behind(tmp_path))


def test_what_is_the_user_s_own_and_not_there_is_named_with_its_setting(tmp_path: Path) -> None:
    page = replace(
        web_page(tmp_path, free_port()),
        argv=(),
        address="127.0.0.1:1",
        external_setting="MY_PAGE",
        start_deadline_s=0.5,
    )
    with pytest.raises(
        StartFailed,
        match=r"page at 127.0.0.1:1, which MY_PAGE names, did not respond .* unset MY_PAGE",
    ):
        run(installation(tmp_path, page), [], lambda _: None)


def test_a_long_wait_for_what_is_the_user_s_own_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "TOLD_TO_WAIT_AFTER_S", 0.1)
    page = replace(
        web_page(tmp_path, free_port()),
        argv=(),
        address="127.0.0.1:1",
        external_setting="MY_PAGE",
        start_deadline_s=1,
    )
    told: list[str] = []
    with pytest.raises(StartFailed):
        run(installation(tmp_path, page), told, lambda _: None)
    assert told == ["page  waiting for up to 1 s for 127.0.0.1:1, which MY_PAGE names"]


def test_what_a_component_says_to_be_wrong_is_told_and_in_the_state_until_it_is_mended(
    tmp_path: Path,
) -> None:
    complaint = tmp_path / "complaint.txt"
    told: list[str] = []

    def complain_and_mend(_supervisor: Supervisor) -> None:
        complaint.write_text("assets/orders.py, line 3, cannot be loaded: NameError: orders\n")
        assert eventually(
            lambda: "page  assets/orders.py, line 3, cannot be loaded: NameError: orders" in told
        )
        assert [(one.state, one.complaint[:16]) for one in state.read(tmp_path)] == [
            ("ready", "assets/orders.py")
        ]
        told_by_status = CliRunner().invoke(status, ["--data", str(tmp_path)])
        assert told_by_status.exit_code == 1
        assert "at fault" in told_by_status.output
        assert (
            "page: assets/orders.py, line 3, cannot be loaded: NameError: orders"
            in told_by_status.output
        )
        complaint.write_text(
            "assets/orders.py, line 3, cannot be loaded: NameError: orders\nlake/clean_orders failed in its last run\n"
        )
        assert eventually(lambda: "page  lake/clean_orders failed in its last run" in told)
        assert len([line for line in told if "NameError" in line]) == 1, (
            "what was told is not told again"
        )
        assert (
            "\npage: lake/clean_orders failed in its last run"
            in CliRunner().invoke(status, ["--data", str(tmp_path)]).output
        )
        complaint.write_text(
            "lake/clean_orders failed in its last run\ttried again at 12:00:05 UTC\n"
        )
        again = "page: lake/clean_orders failed in its last run; tried again at 12:00:05 UTC\n"
        assert eventually(
            lambda: again in CliRunner().invoke(status, ["--data", str(tmp_path)]).output
        )
        complaint.write_text("lake/clean_orders failed in its last run\n")
        assert eventually(
            lambda: state.read(tmp_path)[0].complaint == "lake/clean_orders failed in its last run"
        )
        complaint.write_text("")
        assert eventually(lambda: "page  all is well again" in told)
        assert len([line for line in told if line.startswith("page  lake/clean_orders")]) == 1
        assert CliRunner().invoke(status, ["--data", str(tmp_path)]).exit_code == 0

    run(
        installation(tmp_path, replace(web_page(tmp_path, free_port()), complaint_path=complaint)),
        told,
        complain_and_mend,
    )
