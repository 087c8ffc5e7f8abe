"""Projects import names from ``orchestration`` itself, and pay for those alone that they use."""

import subprocess
import sys

import pytest

import orchestration

PROGRAM = """
import sys
before = set(sys.modules)
import orchestration
print(sorted(set(sys.modules) - before))
"""


def test_importing_the_package_loads_no_other_module() -> None:
    """The compiler's modules, for the list of names, took longer than an empty interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.strip() == "['orchestration']"


@pytest.mark.parametrize("names", ["orchestration.__all__", "dir(orchestration)"])
def test_the_names_are_there_at_their_first_use(names: str) -> None:
    program = f"import orchestration; assert 'TopicSpec' in {names}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_public_name_is_there_and_no_other() -> None:
    public = dir(orchestration)
    assert vars(orchestration)["__all__"] == public
    # The project of the folder.
    assert all(getattr(orchestration, name) is not None for name in public if name != "defs")
    with pytest.raises(AttributeError, match="attribute Nothing"):
        _ = orchestration.Nothing  # type: ignore[attr-defined]


def test_a_function_hides_the_module_of_its_name() -> None:
    from orchestration.calls.replay import replay

    assert orchestration.replay is replay
