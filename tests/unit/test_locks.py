"""The locks hold a hash for each package, at the version of ``constraints.txt``, and no address."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = [*sorted((ROOT / "locks").glob("*.txt")), ROOT / ".ci/uv.txt"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OPTIONAL = PROJECT["project"]["optional-dependencies"]
LOCK_OF = {"platform": "platform", "demo": "platform", "dev": "dev", "docs": "docs"}
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}")
PINNED = re.compile(r"([\w.-]+)==(\S+)( ; .+)? \\")


def pinned(lines: list[str]) -> dict[str, str]:
    """Return the version of each package in lines such as ``name==version``."""
    parts = [line.split(" ")[0].partition("==") for line in lines if re.match(r"[\w.-]+==", line)]
    return {canonicalize_name(name): version for name, _, version in parts}


def locked(*names: str) -> dict[str, str]:
    """Return what the locks of these names install."""
    texts = [(ROOT / f"locks/{name}.txt").read_text().splitlines() for name in names]
    return pinned([*chain.from_iterable(texts)])


CONSTRAINTS = pinned((ROOT / "constraints.txt").read_text().splitlines())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_has_hashes_and_the_versions_of_the_constraints(lock: Path) -> None:
    """A package without a constraint would get another version with each new lock."""
    lines = lock.read_text().splitlines()
    wrong = [line for line in lines if not HASH.match(line) and not PINNED.fullmatch(line.rstrip())]
    assert wrong == []
    assert not {*pinned(lines).items()} - {*CONSTRAINTS.items()}


@pytest.mark.parametrize(("extra", "lock"), LOCK_OF.items())
def test_what_an_extra_needs_is_in_its_lock(extra: str, lock: str) -> None:
    """``make lock`` was forgotten where this fails."""
    found = locked("platform", lock)
    needed = [Requirement(one) for one in (*PROJECT["project"]["dependencies"], *OPTIONAL[extra])]
    missing = [
        str(one)
        for one in needed
        if one.name != "tidelog"
        and not one.specifier.contains(found.get(canonicalize_name(one.name), "0"))
    ]
    assert missing == []


def test_the_light_lock_has_the_parts_of_the_platform_that_tests_of_the_log_use() -> None:
    assert locked("light").items() <= locked("platform", "dev").items()
    assert locked("light").keys() >= {"numpy", "pyarrow", "zstandard", "trio"}
    assert "pyspark" not in locked("light", "dev")


def test_what_builds_packages_has_its_version_in_the_lock() -> None:
    found = locked("build")
    for one in map(Requirement, PROJECT["build-system"]["requires"]):
        assert one.specifier == Requirement(f"{one.name}=={found[one.name]}").specifier
    assert found.keys() >= {"editables", "setuptools"}
