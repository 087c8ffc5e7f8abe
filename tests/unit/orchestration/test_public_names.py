"""Projects import names from ``orchestration`` itself, and pay for those alone that they use."""

import subprocess
import sys

import pytest

import orchestration

HEAVY = {
    "dagster",
    "deltalake",
    "duckdb",
    "great_expectations",
    "pandas",
    "pyarrow",
    "pyspark",
    "sqlalchemy",
}
PROGRAM = f"import sys, orchestration; print(sorted({HEAVY} & sys.modules.keys()))"


def test_importing_the_package_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_no_other() -> None:
    public = vars(orchestration)["__all__"]
    assert dir(orchestration) == public
    assert all(
        getattr(orchestration, name) is not None for name in public if name != "defs"
    )  # the project of the folder
    with pytest.raises(AttributeError, match="attribute Nothing"):
        _ = orchestration.Nothing  # type: ignore[attr-defined]


def test_a_function_hides_the_module_of_its_name() -> None:
    from orchestration.calls.replay import replay

    assert orchestration.replay is replay
