"""A benchmark's figure of a process is the process's own."""

import subprocess
import sys

from tests.helpers.broker_process import ROOT

MIB = 1 << 20


def test_the_peak_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    """A process begins as a copy of the one that starts it, and Linux counts that in ``ru_maxrss``."""
    held = b"x" * (256 * MIB)
    command = [
        sys.executable,
        "-c",
        "from benchmarks.measured import peak_memory_bytes; print(peak_memory_bytes())",
    ]
    found = int(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)
    assert 4 * MIB < found < len(held) / 2
