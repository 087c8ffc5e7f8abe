"""The bill of materials has each needed package, with its licence.

Each reference leads somewhere.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.sbom import UNKNOWN, document, installed, main, table

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CORE = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}


def test_what_a_service_installs_is_told_whole() -> None:
    root, *others = installed([])
    assert root.name == "tidelog"
    assert root.needs == CORE
    assert {each.name for each in others} >= {*CORE, "attrs", "cffi"}
    assert "dagster" not in {each.name for each in others}
    assert [each.name for each in others if each.licence == UNKNOWN] == []


def test_extras_bring_what_they_need() -> None:
    names = {each.name for each in installed(["platform", "demo"])}
    assert {"dagster", "pyspark", "starlette", "click"} <= names
    assert "pytest" not in names


def test_each_reference_of_the_document_leads_to_a_component() -> None:
    told = document(installed(["platform"]))
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    references = [
        told["metadata"]["component"]["bom-ref"],
        *(each["bom-ref"] for each in told["components"]),
    ]
    assert len(references) == len(set(references))
    assert [each["ref"] for each in told["dependencies"]] == references
    assert {one for each in told["dependencies"] for one in each["dependsOn"]} == set(
        references[1:]
    )
    assert told == document(installed(["platform"])), (
        "the same installation gives the same document"
    )


def test_the_command_prints_a_document_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--extras", ""])
    assert '"purl": "pkg:pypi/trio@' in capsys.readouterr().out
    main(["--licences", "--extras", ""])
    assert capsys.readouterr().out.rstrip() == table(installed([]))


def test_the_page_on_security_names_the_licence_of_each_light_dependency() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    told = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \|$", page, re.MULTILINE))
    assert {name: licence.strip() for name, licence in told.items() if name in CORE} == {
        each.name: each.licence for each in installed([])[1:] if each.name in CORE
    }


def test_the_build_backend_and_uv_have_a_version() -> None:
    assert all("==" in text for text in PROJECT["build-system"]["requires"])
    assert re.search(
        r"pip install [^\n]* --require-hashes --requirement \.ci/uv\.txt ",
        (ROOT / ".ci" / "run").read_text(),
    )
