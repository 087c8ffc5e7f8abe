"""The cost of a component is its own CPU and that of everything it starts.

That holds once it has ended, too.
"""

import subprocess
import sys

import psutil

from benchmarks.idle import cpu_s

COUNTED_S = 0.2
BURN = f"import time\nwhile time.process_time() < {COUNTED_S + 0.05}: pass\n"
"""The system counts in hundredths of a second, and rounds down."""
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
print("ended", flush=True)
child = subprocess.Popen([sys.executable, "-c", {BURN + "print('burnt', flush=True); input()"!r}], stdin=subprocess.PIPE)
sys.stdin.read()
child.communicate(b"\\n")
"""


def test_processes_that_a_component_starts_count_while_they_live_and_afterwards() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        found = psutil.Process(parent.pid)
        assert parent.stdout.readline() == "ended\n"
        of_the_ended = cpu_s([found])
        assert of_the_ended >= COUNTED_S
        assert parent.stdout.readline() == "burnt\n"
        assert cpu_s([found]) >= of_the_ended + COUNTED_S
        parent.communicate("")
