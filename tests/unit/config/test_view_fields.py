"""A view's field has the value of a key that declares it. It has no default of its own."""

import ast
import types
import typing
from dataclasses import fields
from pathlib import Path

import pytest

from log_service.config import views
from log_service.config.definition import ConfigKey, ConfigType, to
from log_service.config.resolve import LOG_KEYS
from log_service.config.view_fields import KEY, KEYS_OF_VIEWS, field_defaults, keys_of_views

BASES = {"HeartbeatTimes"}
"""Views that are never built. Their fields have the keys of the views that inherit them."""


def marked_fields() -> dict[str, set[str]]:
    """Return the fields that are marked with KEY in the text of the views, by view."""
    tree = ast.parse(Path(views.__file__).read_text())
    return {
        view.name: {
            ast.unparse(field.target)
            for field in view.body
            if isinstance(field, ast.AnnAssign)
            and field.value is not None
            and ast.unparse(field.value) == "KEY"
        }
        for view in tree.body
        if isinstance(view, ast.ClassDef)
    }


@pytest.mark.parametrize("view", sorted(KEYS_OF_VIEWS))
def test_each_field_of_a_key_is_marked_and_has_no_default_of_its_own(view: str) -> None:
    marked, kind = marked_fields(), getattr(views, view)
    inherited = {name for base in kind.__bases__ for name in marked.get(base.__name__, ())}
    assert marked[view] <= KEYS_OF_VIEWS[view].keys()
    assert marked[view] | inherited == KEYS_OF_VIEWS[view].keys()


def test_only_views_with_keys_have_marked_fields() -> None:
    assert {
        view for view, marked in marked_fields().items() if marked
    } - BASES <= KEYS_OF_VIEWS.keys()
    assert not [
        view
        for view in KEYS_OF_VIEWS
        if any(field.default is KEY for field in fields(getattr(views, view)))
    ]


@pytest.mark.parametrize("view", sorted(KEYS_OF_VIEWS))
def test_a_key_gives_its_field_a_value_of_the_fields_type(view: str) -> None:
    hints = typing.get_type_hints(getattr(views, view))
    for name, value in field_defaults(view).items():
        hint = hints[name]
        kind = hint if isinstance(hint, types.UnionType) else typing.get_origin(hint) or hint
        assert isinstance(value, kind), f"{view}.{name} is {value!r}, not {hint}"
        assert isinstance(value, bool) == (hint is bool), f"{view}.{name} is {value!r}, not {hint}"


def test_every_field_of_a_log_is_that_of_a_topic_key() -> None:
    assert {field.name for key in LOG_KEYS for field in key.fields} == set(views.LOG_FIELDS)


def test_two_keys_of_one_field_are_our_own_bug() -> None:
    one, other = (
        ConfigKey(
            name=name,
            type=ConfigType.INT,
            default="1",
            documentation="It.",
            reason="why",
            fields=to("View.field"),
        )
        for name in ("one", "other")
    )
    with pytest.raises(AssertionError, match=r"one and other both declare View\.field"):
        keys_of_views((one, other))
