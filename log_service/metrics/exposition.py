"""Writes metrics in Prometheus's text format, version 0.0.4, in chunks of bounded size.

This module decides spelling and escaping. It knows neither the source of the values nor their
readers. Samples are made while they are written, so that a page of a million lines never lies in
memory as a whole, and the sender can let other tasks run between two chunks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LINES_PER_CHUNK = 200

Labels = str
"""The text of labels between the braces, made by ``labels``. It is empty without labels."""

Sample = tuple[str, Labels, float]
"""The suffix of the family's name (usually empty), the labels, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric with all its samples, its type and its help text."""

    name: str
    type: Literal["counter", "gauge", "summary"]
    help: str
    samples: Iterable[Sample]


def labels(values: Mapping[str, object]) -> Labels:
    """Return the text of a sample's labels in the given order, with escaped values."""
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items())


def escaped(text: str) -> str:
    """Return a label's value with backslash, quote and newline escaped."""
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def rendered(
    families: Iterable[Family | None], lines_per_chunk: int = LINES_PER_CHUNK
) -> Iterator[bytes]:
    """Yield the text of the metrics in chunks of at most ``lines_per_chunk`` lines.

    A family without samples is left out. A None among the families becomes an empty chunk, at which
    the sender may let other tasks run.
    """
    lines: list[str] = []
    for family in families:
        if family is None:
            yield b""
            continue
        is_new = True
        for suffix, text, value in family.samples:
            if is_new:
                lines.append(_heading(family))
                is_new = False
            lines.append(
                f"{family.name}{suffix}{{{text}}} {_number(value)}"
                if text
                else f"{family.name}{suffix} {_number(value)}"
            )
            if len(lines) >= lines_per_chunk:
                yield _chunk(lines)
                lines = []
    if lines:
        yield _chunk(lines)


def _heading(family: Family) -> str:
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {family.name} {text}\n# TYPE {family.name} {family.type}"


def _chunk(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - the one number that is not itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
