"""Files that crash before a chosen operation."""

from pathlib import Path

from tests.sim.files import MemoryFiles


class CrashingFiles(MemoryFiles):
    """A mount that dies before its ``countdown``-th operation."""

    countdown = 0

    def check(self, operation: str, path: Path) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            self.disk.crash(self.rng)
        super().check(operation, path)
