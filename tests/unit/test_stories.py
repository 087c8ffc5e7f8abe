"""A recording of Apache Kafka's responses counts while the questions of a test are the recorded
ones.
"""

from pathlib import Path

import pytest

from tests.integration import stories

HERE = stories.HERE
RECORDED = sorted(HERE / f"{file.stem}.py" for file in (HERE / "recorded").glob("*.story"))


def test_a_module_that_changes_is_another_story(tmp_path: Path) -> None:
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text("ask(1)\n")
    after.write_text("ask(2)\n")
    assert stories.story(before) != stories.story(after)


def test_a_module_has_one_story_however_its_path_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "module.py"
    module.write_text("from tests.integration import group_cast\n")
    monkeypatch.chdir(tmp_path)
    assert stories.story(Path("module.py")) == stories.story(module)


def test_what_a_module_imports_is_part_of_its_story(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "from tests.integration import group_cast\nfrom tests.integration.record_requests import (\n    batch,\n)\n"
    )
    assert stories.reached(module) >= {
        module,
        HERE / "group_cast.py",
        HERE / "record_requests.py",
        HERE / "wire.py",
    }


def test_what_runs_tidelogs_side_is_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("from tests.helpers.broker_process import BrokerThread\n")
    assert stories.reached(module) == {module}


@pytest.mark.parametrize("module", RECORDED, ids=lambda module: module.stem)
def test_each_story_is_of_a_module_that_is_there(module: Path) -> None:
    assert module.is_file()
