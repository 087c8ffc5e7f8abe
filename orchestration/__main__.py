"""A process of the platform: ``python -m orchestration NAME ARGUMENTS`` is ``python -m orchestration.NAME ARGUMENTS``, started sooner.

NAME is one of ``PROCESSES``. Decides nothing but how its module is imported (``orchestration.importing``).
"""

import sys
from importlib import import_module

from orchestration.importing import kept_imports

PROCESSES = ("code_server", "daemon", "declare", "instance", "webserver")
"""Modules of this package; each has a ``main`` that reads the arguments of the process."""


def main() -> None:
    """Run the process that the first argument names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in {"-h", "--help"}:
        print(f"usage: python -m orchestration NAME ARGUMENTS...\n\nNAME is one of {', '.join(PROCESSES)}; each tells more after --help.")  # noqa: T201
        return
    if name not in PROCESSES:
        sys.exit(f"python -m orchestration needs the name of a process, one of {', '.join(PROCESSES)}, and not {name!r}")
    del sys.argv[1]
    with kept_imports():
        process = import_module(f"orchestration.{name}")
    process.main()


if __name__ == "__main__":
    main()
