"""One case of each test stays, and every test has one."""

from tests.helpers.one_case import one_case


def test_every_test_keeps_one_case_and_those_without_parameters_stay() -> None:
    cases = {
        f"m.py::test_{name}": [f"m.py::test_{name}[{case}-[x]]" for case in range(5)]
        for name in "abcdefgh"
    }
    kept = one_case(["m.py::test_alone", *(case for of_test in cases.values() for case in of_test)])
    assert "m.py::test_alone" in kept
    assert [len(kept & set(of_test)) for of_test in cases.values()] == [1] * len(cases)


def test_which_case_stays_repeats_and_is_not_always_the_first() -> None:
    nodeids = [f"m.py::test_{name}[{case}]" for name in "abcdefgh" for case in range(5)]
    assert one_case(nodeids) == one_case(iter(nodeids))
    assert len({nodeid.rpartition("[")[2] for nodeid in one_case(nodeids)}) > 1
