"""Programs of the platform import without Python's search for garbage.

They search again afterwards.
"""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from orchestration import __main__ as started
from orchestration.project.importing import kept_imports


@pytest.fixture(autouse=True)
def _own_garbage() -> Iterator[None]:
    """Objects that one test froze are garbage for the others."""
    yield
    gc.unfreeze()
    assert gc.isenabled()


def test_what_is_made_meanwhile_is_never_looked_through() -> None:
    gc.unfreeze()
    with kept_imports():
        assert not gc.isenabled()
        made = [[number] for number in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(made)
    assert not any(one is made for one in gc.get_objects())


def test_an_import_within_another_leaves_the_end_to_that_one() -> None:
    with kept_imports():
        with kept_imports():
            pass
        assert not gc.isenabled()


def test_an_import_that_fails_ends_it_too() -> None:
    with pytest.raises(ModuleNotFoundError), kept_imports():
        raise ModuleNotFoundError("no module named assets")
    assert gc.isenabled()


def test_a_process_is_started_by_its_name_with_its_own_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    class Process(ModuleType):
        """Stands for the webserver's module."""

        def main(self) -> None:
            seen.extend([*sys.argv[1:], gc.isenabled()])

    monkeypatch.setitem(
        sys.modules,
        "orchestration.installation.webserver",
        Process("orchestration.installation.webserver"),
    )
    monkeypatch.setattr(sys, "argv", ["python -m orchestration", "webserver", "--port", "1"])
    started.main()
    assert seen == ["--port", "1", True]


@pytest.mark.parametrize("given", ["-h", "--help"])
def test_help_names_the_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m orchestration", given])
    started.main()
    assert (
        "NAME is one of code_server, console, daemon, declare, instance, webserver"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("given", [[], ["definitions"]])
def test_another_name_is_refused(monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m orchestration", *given])
    with pytest.raises(
        SystemExit, match="one of code_server, console, daemon, declare, instance, webserver"
    ):
        started.main()
