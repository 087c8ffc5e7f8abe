"""Components start behind what they wait for, and a plan that cannot work is refused."""

import pytest

from log_service.supervisor.spec import Component, UptimeReadiness, start_order


def component(name: str, *after: str) -> Component:
    return Component(name=name, argv=("true",), readiness=UptimeReadiness(), after=after)


def names(components: list[Component]) -> list[str]:
    return [found.name for found in components]


def test_each_component_comes_behind_what_it_waits_for() -> None:
    ordered = start_order(
        [component("daemon", "broker", "spark"), component("spark"), component("broker")]
    )
    assert names(ordered) == ["spark", "broker", "daemon"]


def test_components_that_wait_for_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="wait for each other: a, b"):
        start_order([component("a", "b"), component("b", "a")])


def test_waiting_for_an_unknown_component_is_refused() -> None:
    with pytest.raises(ValueError, match="ghost, which are not among them"):
        start_order([component("a", "ghost")])


def test_two_components_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        start_order([component("a"), component("a")])
