"""Values of a cluster are text on every page, whatever they hold."""

from pathlib import Path

import pytest

from log_service.http.console.pages.areas import own_areas
from log_service.http.console.rendering import HERE, Pages, shown_time, sized

TEMPLATES = sorted(HERE.rglob("*.html"))


def test_all_templates_compile() -> None:
    Pages({each.name: each.templates for each in own_areas()}).compile_all()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_turns_escaping_off(path: Path) -> None:
    content = path.read_text()
    assert "safe" not in content
    assert "autoescape" not in content
    assert "<script>" not in content
    assert "style=" not in content
    assert "javascript:" not in content


@pytest.mark.parametrize("path", sorted((HERE / "static").iterdir()), ids=lambda path: path.name)
def test_static_files_ask_no_other_host(path: Path) -> None:
    content = path.read_text()
    known = content.replace("http://www.w3.org/", "").replace("https://htmx.org", "")
    known = known.replace("https://github.com/leeoniya/uPlot", "")  # a comment with its name
    if path.suffix in {".css", ".js", ".svg"} and path.name != "htmx.min.js":
        assert "://" not in known


@pytest.mark.parametrize("name", ["htmx", "uplot"])
def test_a_library_comes_with_its_licence(name: str) -> None:
    static = HERE / "static"
    assert (static / f"{name}.min.js").is_file()
    licence = (static / f"{name}.LICENSE.txt").read_text()
    assert "Permission" in licence
    assert "WITHOUT WARRANTY" in licence or "DISCLAIMS ALL" in licence


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(None, "\N{EN DASH}"), (0, "0 B"), (1_536, "1.5 KiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_are_for_people(size_bytes: int | None, shown: str) -> None:
    assert sized(size_bytes) == shown


def test_any_timestamp_of_a_record_is_shown() -> None:
    assert shown_time(1_796_008_919_643) == "2026-11-30 03:21:59.643"
    assert shown_time(-1) == "\N{EN DASH}"
    assert shown_time(2**62) == f"{2**62} ms"
