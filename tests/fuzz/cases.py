"""A case is one input of an engine, a finding a case that broke a promise.

Both are files that play again with one command.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("build/fuzz")
"""Where findings are written, below the current directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One input. ``target`` is a decoder's name, or what is played; ``sessions`` are connections
    with what is sent over each, in pieces.

    ``ids`` are the topic ids that the bytes name: another start has others, and they are put in
    their place.
    """

    engine: str
    target: str
    seed: int = 0
    sessions: tuple[tuple[bytes, ...], ...] = ()
    ids: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A broken promise, and the case that shows it."""

    text: str
    case: Case

    def __str__(self) -> str:
        return f"{self.case.engine} {self.case.target}: {self.text}"


@dataclass(slots=True)
class Figures:
    """The figures of an engine. ``tried`` counts inputs by what they were for, ``outcomes`` what
    came of them.
    """

    executions: int = 0
    seconds: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def count(self, what: str, outcome: str) -> None:
        """Note one input."""
        self.executions += 1
        self.tried[what] += 1
        self.outcomes.setdefault(what, Counter())[outcome] += 1


def write(finding: Finding, folder: Path = FOLDER) -> Path:
    """Write a finding and return its path; the same case has the same name."""
    case = finding.case
    told = {
        "engine": case.engine,
        "target": case.target,
        "seed": case.seed,
        "sessions": [[piece.hex() for piece in session] for session in case.sessions],
        "ids": [list(pair) for pair in case.ids],
        "found": finding.text,
    }
    text = json.dumps(told, indent=1)
    name = hashlib.sha256(json.dumps(told["sessions"]).encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.engine}-{case.target.replace(' ', '-').replace('/', '-')}-{name}.json"
    path.write_text(text + "\n")
    return path


def read(path: Path) -> Case:
    """Return the case of a file that ``write`` wrote."""
    told = json.loads(path.read_text())
    return Case(
        engine=told["engine"],
        target=told["target"],
        seed=told["seed"],
        sessions=tuple(
            tuple(bytes.fromhex(piece) for piece in session) for session in told["sessions"]
        ),
        ids=tuple((name, topic_id) for name, topic_id in told["ids"]),
    )
