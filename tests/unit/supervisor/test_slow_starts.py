"""Components that are slow, broken or away at their first start are tried again.

The others go on, and the waits are told.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from log_service.cli.status import status
from log_service.common.errors import ConfigError
from log_service.supervisor import readiness, state
from log_service.supervisor import supervisor as supervisor_module
from log_service.supervisor.spec import Component, HttpReadiness, InstallationSpec, UptimeReadiness
from log_service.supervisor.supervisor import Supervisor
from tests.helpers.ports import free_port
from tests.unit.supervisor.installations import eventually, installation, left_behind, listener, run


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "FIRST_BACKOFF_S", 0.05)
    monkeypatch.setattr(supervisor_module, "LAST_BACKOFF_S", 0.1)


def slow(tmp_path: Path, *after: str) -> Component:
    """Return a component that is ready once the file ``go`` is there, and not before."""
    base = listener("slow", tmp_path, *after)
    assert isinstance(base.readiness, HttpReadiness)
    program = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n{base.argv[2]}"
    return replace(
        base,
        argv=(*base.argv[:2], program, *base.argv[3:]),
        is_essential=False,
        start_deadline_s=0.3,
    )


def states(directory: Path) -> dict[str, str]:
    return {one.name: one.state for one in state.read(directory)}


def shown(directory: Path) -> str:
    return CliRunner().invoke(status, ["--data", str(directory)]).output


def test_a_slow_start_takes_nothing_down_and_what_waits_for_it_is_told(tmp_path: Path) -> None:
    told: list[str] = []

    def look_and_go_on(_supervisor: Supervisor) -> None:
        assert eventually(
            lambda: any("was not ready after 0 s; starts again" in line for line in told)
        )
        first = {one.name: one.pid for one in state.read(tmp_path)}["broker"]
        assert eventually(lambda: "waiting for slow" in shown(tmp_path))
        assert eventually(lambda: "slow: was not ready after" in shown(tmp_path))
        assert states(tmp_path)["broker"] == "ready"
        assert [one.waits_for for one in state.read(tmp_path) if one.name == "code"] == [("slow",)]
        (tmp_path / "go").touch()
        assert eventually(lambda: set(states(tmp_path).values()) == {"ready"})
        assert states(tmp_path) == {"broker": "ready", "slow": "ready", "code": "ready"}
        assert {one.name: one.pid for one in state.read(tmp_path)}["broker"] == first
        assert "was not ready" not in shown(tmp_path)

    code = replace(listener("code", tmp_path, "broker", "slow"), is_essential=False)
    run(
        installation(tmp_path, listener("broker", tmp_path), slow(tmp_path), code),
        told,
        look_and_go_on,
    )
    assert eventually(lambda: not left_behind(tmp_path))


def test_everything_is_ready_only_when_the_slow_one_is(tmp_path: Path) -> None:
    async def main() -> None:
        supervisor = Supervisor(
            installation(tmp_path, listener("broker", tmp_path), slow(tmp_path)), lambda _: None
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            with trio.move_on_after(0.5) as waited:
                await supervisor.wait_until_all_are_ready()
            assert waited.cancelled_caught
            (tmp_path / "go").touch()
            with trio.fail_after(20):
                await supervisor.wait_until_all_are_ready()
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_patience_grows_with_each_start_that_took_too_long(tmp_path: Path) -> None:
    told: list[str] = []
    never = replace(slow(tmp_path), start_deadline_s=0.51)
    run(
        installation(tmp_path, listener("broker", tmp_path), never),
        told,
        lambda _: eventually(lambda: sum("was not ready" in line for line in told) >= 3),
    )
    waits = [line.split("after ")[1].split(" s")[0] for line in told if "was not ready" in line]
    assert waits[:3] == ["1", "1", "2"], "0.51, 1.02 and 2.04 seconds"


def test_what_breaks_at_its_first_start_is_tried_again_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    broken = Component(
        name="broken",
        argv=(sys.executable, "-c", "raise SystemExit('no such luck')"),
        readiness=UptimeReadiness(),
        is_essential=False,
    )
    spec = installation(tmp_path, listener("broker", tmp_path), broken)
    run(
        spec,
        told,
        lambda _: eventually(
            lambda: sum("exit code 1; starts again" in line for line in told) >= 2
        ),
    )
    assert [line.split(maxsplit=1)[1] for line in told if "log:\n" in line] == [
        "the end of its log:\n  no such luck"
    ]
    assert states(tmp_path) == {}


def test_what_is_the_user_s_own_and_away_is_waited_for(tmp_path: Path) -> None:
    told: list[str] = []
    port = free_port()
    page = replace(
        listener("page", tmp_path),
        argv=(),
        readiness=HttpReadiness(url=f"http://127.0.0.1:{port}/"),
        address=f"127.0.0.1:{port}",
        external_setting="MY_PAGE",
        start_deadline_s=0.1,
        is_essential=False,
    )
    run(
        installation(tmp_path, listener("broker", tmp_path), page),
        told,
        lambda _: eventually(lambda: "MY_PAGE names, did" in "".join(told)),
    )
    assert (
        f"page    127.0.0.1:{port}, which MY_PAGE names, did not respond within 0 s: start it, or unset MY_PAGE"
        in "\n".join(told)
    )
    assert any(line.startswith("broker  stopped") for line in told), "it ran until the end"


def test_what_cannot_be_asked_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    was_ready: Callable[..., object] = readiness.is_ready

    async def is_ready(one: object) -> bool:
        asked.append(1)
        if len(asked) < 3:
            raise ConfigError("there is no key")
        return bool(await was_ready(one))  # type: ignore[misc]

    monkeypatch.setattr(readiness, "is_ready", is_ready)
    told: list[str] = []
    page = replace(listener("page", tmp_path), is_essential=False, health_interval_s=0.05)
    spec: InstallationSpec = installation(tmp_path, page)
    run(
        spec,
        told,
        lambda _: eventually(lambda: any(line.startswith("page  ready") for line in told)),
    )
    assert told[:1] == ["page  cannot be asked: there is no key"]
