"""The table of slow tests names modules that are there.

It leaves something of each kind in the quick run.
"""

from pathlib import Path

from tests.helpers.slow_tests import SLOW, is_needed, slow_of

TESTS = Path(__file__).parents[1]


def test_each_pattern_names_a_module() -> None:
    for group in SLOW:
        assert group.why
        for pattern in group.modules:
            assert list(TESTS.glob(pattern)), pattern


def test_one_case_of_each_test_of_a_rule_stays_quick() -> None:
    ids = [f"tests/unit/protocol/test_codec_round_trip.py::test_a[{case}]" for case in range(9)]
    assert len(slow_of(ids)) == 8


def test_kept_tests_and_other_modules_stay_quick() -> None:
    quick = [
        "tests/sim/test_cluster_seeds.py::test_every_promise_is_kept[3 nodes, general, 1]",
        "tests/unit/raft/test_roles.py::test_a",
    ]
    slow = [
        "tests/sim/test_cluster_seeds.py::test_every_promise_is_kept[3 nodes, general, 18]",
        "tests/platform/test_pages.py::test_a[b]",
    ]
    assert slow_of([*quick, *slow]) == set(slow)


def test_a_run_needs_each_module_of_which_it_may_choose_a_test() -> None:
    quick, slow, both = (
        "tests/unit/raft/test_roles.py",
        "tests/platform/test_pages.py",
        "tests/sim/test_cluster_seeds.py",
    )
    assert [is_needed(each, "slow") for each in (quick, slow, both)] == [False, True, True]
    assert [is_needed(each, "not slow") for each in (quick, slow, both)] == [True, False, True]
    assert all(
        is_needed(each, expression) for each in (quick, slow, both) for expression in ("", "x")
    )


def test_the_table_alone_says_which_tests_are_slow() -> None:
    mark = "mark." + "slow"
    assert not [each.name for each in TESTS.rglob("*.py") if mark in each.read_text()]
