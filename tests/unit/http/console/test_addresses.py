"""Paths and command lines with hostile names."""

import shlex

import pytest

from log_service.http.console.addresses import command, path_to

HOSTILE = ["a b", "../..", "<script>", "'; rm -rf /", "a/b?c=d#e", "\n", "ä"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_one_word(name: str) -> None:
    assert shlex.split(command("groups", "describe", name)) == [
        "tidelog",
        "groups",
        "describe",
        name,
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_one_part_of_a_path(name: str) -> None:
    path = path_to("topics", name, "records", q=name)
    assert path.count("/") == 3
    assert path.isascii()
    assert not set(path) & set("<>\"' \n#")


def test_empty_parameters_are_left_out() -> None:
    assert path_to("a", from_="x", b=None, c="", d=0) == "/a?from=x&d=0"
