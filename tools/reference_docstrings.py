"""Turns each ``:raises X: why`` into an entry of a section ``Raises:``, for the site's reference.

The client's docstrings have such sections anyway. This is an extension of griffe, and zensical.toml
names it.
"""

import re
from typing import Any

import griffe

FIELD = re.compile(r"\s*:raises (?P<names>[\w., ]+):")


def with_section(text: str) -> str:
    """Return a docstring with its ``:raises`` in a section at its end.

    >>> with_section("Open it. :raises A: x y. :raises B: z.")
    'Open it.\\n\\nRaises:\\n    A: x y.\\n    B: z.'
    """
    prose, *found = FIELD.split(text)
    if not found:
        return text
    entries = [
        f"    {name}: {' '.join(why.split())}"
        for name, why in zip(found[::2], found[1::2], strict=True)
    ]
    return "\n".join([prose.rstrip(), "", "Raises:", *entries])


class RaisesInSections(griffe.Extension):
    """Rewrites each docstring when griffe loads it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = with_section(obj.docstring.value)
