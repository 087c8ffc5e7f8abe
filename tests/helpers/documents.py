"""Reads the repository's documents: fenced blocks of code, links, and command lines.

    for block in blocks("python"): ...

Knows Markdown as far as these documents use it: fences of three backticks, also those that are
indented as part of a list, inline code, inline links and images.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = "```"
INLINE_CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
PROMPT = "$ "


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, its text, and its line in the document.

    The line, counted from 1, is the one on which the text begins.
    """

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Return the commands of a block: the lines behind a prompt, without remarks."""
        typed = [
            line.removeprefix(PROMPT) for line in self.text.splitlines() if line.startswith(PROMPT)
        ]
        return [command.partition("  #")[0].strip() for command in typed]


def documents() -> list[Path]:
    """Return every document that a reader may open."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("**/*.md")),
        *sorted((ROOT / "benchmarks").glob("*.md")),
    ]


def blocks(*languages: str) -> list[Block]:
    """Return the fenced blocks in one of these languages, of all documents."""
    return [
        block
        for document in documents()
        for block in blocks_of(document)
        if block.language in languages
    ]


def blocks_of(document: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a document. A fence that is not closed fails."""
    opened: tuple[int, str] | None = None
    held: list[str] = []
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if not is_fence(line):
            held.append(line)
        elif opened is None:
            opened, held = (number + 1, line.strip().removeprefix(FENCE)), []
        else:
            yield Block(
                document=document,
                line=opened[0],
                language=opened[1],
                text=textwrap.dedent("\n".join([*held, ""])),
            )
            opened = None
    assert opened is None, f"{document} leaves a block open at its end"


def is_fence(line: str) -> bool:
    """Return whether a line opens or closes a block."""
    return line.lstrip(" ").startswith(FENCE)


def prose(document: Path) -> str:
    """Return the document without its fenced blocks."""
    kept, is_kept = [], True
    for line in document.read_text().splitlines():
        if is_fence(line):
            is_kept = not is_kept
        elif is_kept:
            kept.append(line)
    return "\n".join(kept)


def links(document: Path) -> list[str]:
    """Return the targets of a document's links and images."""
    return LINK.findall(INLINE_CODE.sub("", prose(document)))


def anchors(document: Path) -> set[str]:
    """Return the anchors that a Markdown renderer gives to a document's headings."""
    return {
        NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(prose(document))
    }


def inline_code(document: Path) -> list[str]:
    """Return the texts between single backticks in a document's prose."""
    return [code.strip() for code in INLINE_CODE.findall(prose(document))]
