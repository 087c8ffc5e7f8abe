"""A process finds the project that it stands in, and names the fault of one that cannot be loaded."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.project.location import ProjectError, find_project, import_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """An empty project; modules of other projects are put aside while it is loaded."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "__init__.py").write_text("")
    path = list(sys.path)
    aside = {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.split(".")[0] in {"assets", "sensors"}
    }
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in {"assets", "sensors"}]:
        del sys.modules[name]
    sys.modules.update(aside)
    sys.path[:] = path


def test_a_project_is_what_lies_in_the_directory(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    assert find_project(project, other) == project.resolve()
    assert find_project(other, project) == project.resolve()
    with pytest.raises(
        ProjectError, match=r"is not a project: it has no folder assets/ .* tidelog init NAME"
    ):
        find_project(other)


def test_a_folder_that_is_no_package_is_said_to_be_one_file_short(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    with pytest.raises(
        ProjectError, match=r"its folder assets/ has no __init__.py; create one, it may be empty"
    ):
        find_project(tmp_path)


def test_every_module_of_the_project_is_imported(project: Path) -> None:
    (project / "assets" / "orders.py").write_text("ORDERS = 1\n")
    (project / "sensors").mkdir()
    (project / "sensors" / "__init__.py").write_text("")
    assert [module.__name__ for module in import_project(project)] == [
        "assets",
        "assets.orders",
        "sensors",
    ]


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("x = 1\ny = nowhere\n", "orders.py, line 2,", "NameError: name 'nowhere' is not defined"),
        ("def f(:\n", "orders.py, line 1,", "SyntaxError"),
        ("import no_such_library\n", "orders.py, line 1,", "No module named 'no_such_library'"),
    ],
)
def test_a_module_that_is_broken_is_named_with_its_line(
    project: Path, text: str, place: str, why: str
) -> None:
    (project / "assets" / "orders.py").write_text(text)
    with pytest.raises(ProjectError) as raised:
        import_project(project)
    assert f"{project / 'assets' / place} cannot be loaded: " in str(raised.value)
    assert why in str(raised.value)


def test_a_bad_declaration_is_reported_where_the_project_made_it(project: Path) -> None:
    (project / "assets" / "orders.py").write_text(
        "from orchestration.topics.spec import TopicSpec\n\nORDERS = TopicSpec(name='a b')\n"
    )
    with pytest.raises(
        ProjectError,
        match=r"orders.py, line 3, cannot be loaded: ValueError: 'a b' cannot be a topic's name",
    ):
        import_project(project)


def test_a_package_of_the_same_name_from_elsewhere_is_refused(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "assets").mkdir()
    (other / "assets" / "__init__.py").write_text("")
    import_project(other)
    with pytest.raises(ProjectError, match="was taken from"):
        import_project(project)
