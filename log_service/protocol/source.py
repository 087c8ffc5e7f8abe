"""Builds the source text of one compiled codec function: lines, indentation, names, constants.

This module knows nothing of messages. The source is safe to execute, because it is made only of our
own schemas and never of bytes from a peer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


class SourceWriter:
    """Collects the lines of one function and the constants it refers to."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self._constant_names: dict[Any, str] = {}
        self.constants = dict(constants)

    def line(self, text: str) -> None:
        """Add one line with the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Add a line that opens a block, and indent the lines that are added inside."""
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, prefix: str) -> str:
        """Return a local name that was not used before."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, key: Any, value: Any) -> str:
        """Return the name of a global variable for ``value``. An equal key gives the same name."""
        name = self._constant_names.get((prefix, key))
        if name is None:
            name = self._constant_names[prefix, key] = f"{prefix}{len(self._constant_names)}"
            self.constants[name] = value
        return name

    def function(self, name: str, title: str) -> Any:
        """Compile the added lines, and return the function called ``name``.

        Tracebacks show ``title`` as the file name.
        """
        exec(compile(self.text(), f"<{title}>", "exec"), self.constants)  # noqa: S102  our own schemas, never a peer's bytes
        return self.constants[name]

    def text(self) -> str:
        """Return the source so far."""
        return "\n".join(self._lines) + "\n"
