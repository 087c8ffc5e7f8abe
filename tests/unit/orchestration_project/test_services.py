"""What the platform's processes are told through their environment."""

import os
import subprocess
import sys

from orchestration.services import memory_environment


def test_runs_give_memory_back_unless_somebody_decided_otherwise() -> None:
    told = memory_environment({})
    question = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    ran = subprocess.run([sys.executable, "-c", question], env={**os.environ, **told}, capture_output=True, text=True, check=True)
    assert ran.stdout == "system\n"
    assert told["MALLOC_ARENA_MAX"] == "2"
    assert memory_environment({"MALLOC_ARENA_MAX": "8", "PATH": "/bin"}) == {**told, "MALLOC_ARENA_MAX": "8"}
