"""Processes of runs that die anywhere: at a place of the product's code, or after a time, both
drawn.

A place is where a function of the product begins or ends, or where it calls what is not the
product's (a rename, a commit of Delta, a statement of a database) or has that behind it. Places are
drawn, not calls: most calls of a run are made for each record, and hardly one is the commit. Half
of the places that are drawn are those of calls that change something, by their names. Which places
there are is learned from a run that lives. A place or a time that a run does not reach lets it
live.
"""

import os
import pickle
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.platform import dying
from tests.platform.dying import KILLED

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(f"{ROOT / folder}{os.sep}" for folder in ("orchestration", "log_service/client"))
SIGKILLED = -9
CHANGES = re.compile(
    r"write|commit|execute|rename|unlink|link|mkdir|rmtree|fsync|^move|_move|merge|delete|overwrite|upsert|transaction|send|flush"
)
"""The names of functions that change something that outlives the process; ``replace`` is one where
it is no text's.
"""
Place = tuple[str, str, str, str, int]
"""A file, a function, what happens there to which function, and, where that is not the product's,
the line.
"""
Job = Callable[[], None]
"""One run, which returns once nothing is left to do; a process can be given it."""


class Watch:
    """Counts the places that a process passes, and ends it at one of them."""

    def __init__(self, death: Place | None, at_pass: int) -> None:
        self._death = death
        self._at_pass = at_pass
        self.passed: Counter[Place] = Counter()

    def begin(self) -> None:
        """Watch this thread, and those that begin from now on."""
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event.startswith("c_"):
            if not frame.f_code.co_filename.startswith(PRODUCT):
                return
            name, line = str(argument.__name__), frame.f_lineno
        else:
            name, line = frame.f_code.co_name, 0
            if not frame.f_code.co_filename.startswith(PRODUCT):
                if frame.f_back is None or not frame.f_back.f_code.co_filename.startswith(PRODUCT):
                    return
                frame, event = frame.f_back, f"others_{event}"
                line = frame.f_lineno
        place = (frame.f_code.co_filename, frame.f_code.co_qualname, event, name, line)
        self.passed[place] += 1
        if place == self._death and self.passed[place] >= self._at_pass:
            os._exit(KILLED)


def is_change(place: Place) -> bool:
    """Whether something is called there that changes something, by its name."""
    _, _, event, name, _ = place
    return bool(CHANGES.search(name)) or (name == "replace" and event.startswith("others_"))


def be_watched(job: Job, death: Place | None, at_pass: int, learned: Path) -> None:
    """Be a process that does its job, or dies at a place; one that lives writes which places it
    passed.
    """
    watch = Watch(death, at_pass)
    watch.begin()
    job()
    sys.setprofile(None)
    learned.write_bytes(pickle.dumps(dict(watch.passed)))
    os._exit(0)  # without the farewell of sessions: what serves them is the tests'


@dataclass(slots=True)
class Deaths:
    """Draws how the runs of one story die, and tells it."""

    rng: random.Random
    directory: Path
    story: list[str] = field(default_factory=list)
    deaths: int = 0
    _places: dict[Place, int] = field(default_factory=dict)
    _lasts_s: float = 0.0

    def live(self, job: Job) -> None:
        """Let a run live."""
        self._live(job, self.directory / "of-the-living")

    def learn(self, job: Job) -> None:
        """Let a run live, and draw deaths from then on.

        They are of the places that it passed, and of the time that it took.
        """
        began_s, learned = time.monotonic(), self.directory / "places"
        self._live(job, learned)
        self._lasts_s = time.monotonic() - began_s
        self._places = pickle.loads(learned.read_bytes())

    def die(self, job: Job) -> bool:
        """Let a run die, at a place or after a time; False where it lived."""
        if self.rng.random() < 2 / 3:
            changes = [one for one in self._places if is_change(one)]
            place = self.rng.choice(
                sorted(changes if changes and self.rng.random() < 1 / 2 else self._places)
            )
            at_pass = self.rng.randint(1, self._places[place])
            code, said = self._start(job, self.directory / "of-the-dead", place, at_pass).finish()
            file, function, event, name, line = place
            where = f"{event} of {name} in {function}, {file.removeprefix(f'{ROOT}{os.sep}')}:{line}, pass {at_pass}"
        else:
            moment_s = self.rng.uniform(0, self._lasts_s)
            running = self._start(job, self.directory / "of-the-dead")
            running.process.join(moment_s)
            running.process.kill()
            code, said = running.finish()
            where = f"after {moment_s:.3f} s"
        self.story.append(f"{'lived' if code == 0 else 'died'}: {where}")
        assert code in {0, KILLED, SIGKILLED}, said
        self.deaths += code != 0
        return code != 0

    def _live(self, job: Job, learned: Path) -> None:
        code, said = self._start(job, learned).finish()
        self.story.append("lived")
        assert code == 0, said

    def _start(
        self, job: Job, learned: Path, death: Place | None = None, at_pass: int = 1
    ) -> dying.Running:
        return dying.start(be_watched, self.directory, job, death, at_pass, learned)
