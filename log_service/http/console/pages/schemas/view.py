"""Schemas as their pages show them: subjects, one version, and its difference to another one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from log_service.client.schemas.values import AVRO, JSON, PROTOBUF, RegisteredSchema

PAGE_SIZE = 50
MAX_COMPARED_LINES = 2_000
"""Longer schemas are not compared, because the time grows with the square of the lines."""
MAX_SHOWN_CHARACTERS = 200_000
LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
TYPES = (AVRO, JSON, PROTOBUF)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRow:
    """One subject. ``latest`` is 0 if its details were not read or are unknown."""

    name: str
    latest: int = 0
    schema_type: str = ""
    level: str = ""


def subject_row(name: str, latest: RegisteredSchema, level: str) -> SubjectRow:
    """Return the row of a subject with its details."""
    return SubjectRow(
        name=name,
        latest=latest.version or 0,
        schema_type=latest.schema.schema_type,
        level=level,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectList:
    """One page of the subjects."""

    rows: tuple[SubjectRow, ...]
    page: int
    page_count: int
    found_count: int
    subject_count: int


def subject_list(names: Sequence[str], *, search: str, page: int) -> SubjectList:
    """Return one page of the subjects whose names contain a text."""
    needle = search.casefold()
    found = sorted(each for each in names if needle in each.casefold())
    page_count = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, page), page_count)
    return SubjectList(
        rows=tuple(
            SubjectRow(name=each) for each in found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        ),
        page=page,
        page_count=page_count,
        found_count=len(found),
        subject_count=len(names),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """One line of a difference. ``kind`` is same, added or removed."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPage:
    """One version of a subject. ``diff`` is None if the schemas are too long to compare."""

    subject: str
    versions: tuple[int, ...]
    version: int
    schema_id: int
    schema_type: str
    text: str
    is_cut: bool
    references: tuple[tuple[str, str, int], ...]
    level: str
    compared_version: int | None
    diff: tuple[DiffLine, ...] | None


def subject_page(
    subject: str,
    versions: Sequence[int],
    shown: RegisteredSchema,
    compared: RegisteredSchema | None,
    level: str,
) -> SubjectPage:
    """Return the page of a version, and how it differs from ``compared``."""
    text = printed(shown.schema.text, shown.schema.schema_type)
    before = (
        None if compared is None else printed(compared.schema.text, compared.schema.schema_type)
    )
    return SubjectPage(
        subject=subject,
        versions=tuple(versions),
        version=shown.version or 0,
        schema_id=shown.id,
        schema_type=shown.schema.schema_type,
        text=text[:MAX_SHOWN_CHARACTERS],
        is_cut=len(text) > MAX_SHOWN_CHARACTERS,
        references=tuple(
            (each.name, each.subject, each.version) for each in shown.schema.references
        ),
        level=level,
        compared_version=None if compared is None else compared.version,
        diff=() if before is None else difference(before, text),
    )


def printed(text: str, schema_type: str) -> str:
    """Return the text of an Avro or JSON schema with line breaks and indentation.

    The text is returned unchanged if it is of another type or cannot be parsed.
    """
    if schema_type not in {AVRO, JSON}:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def difference(before: str, after: str) -> tuple[DiffLine, ...] | None:
    """Return the lines of both texts, and mark the lines that only one of them has.

    Return None if a text has too many lines.
    """
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return None
    lines: list[DiffLine] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [DiffLine(kind="same", text=each) for each in old[i1:i2]]
            continue
        lines += [DiffLine(kind="removed", text=each) for each in old[i1:i2]]
        lines += [DiffLine(kind="added", text=each) for each in new[j1:j2]]
    return tuple(lines)
