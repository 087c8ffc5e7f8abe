"""Starts a process of the platform: ``python -m orchestration NAME ARGUMENTS``.

NAME is one of ``PROCESSES``. Its module is imported without garbage collection, which makes the
start quicker (``project.importing``).
"""

import sys
from importlib import import_module

from orchestration.project.importing import kept_imports

PROCESSES = {
    "code_server": "orchestration.installation.code_server",
    "console": "orchestration.console.process.main",
    "daemon": "orchestration.installation.daemon.process",
    "declare": "orchestration.installation.declare",
    "instance": "orchestration.installation.instance",
    "webserver": "orchestration.installation.webserver",
}
"""The module of each process. Its ``main`` reads the arguments of the process."""


def main() -> None:
    """Run the process that the first argument names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in {"-h", "--help"}:
        print(  # noqa: T201
            "usage: python -m orchestration NAME ARGUMENTS...\n\nNAME is one of"
            f" {', '.join(PROCESSES)}; each tells more after --help."
        )
        return
    if name not in PROCESSES:
        sys.exit(
            f"python -m orchestration needs the name of a process, one of {', '.join(PROCESSES)},"
            f" and not {name!r}"
        )
    del sys.argv[1]
    with kept_imports():
        process = import_module(PROCESSES[name])
    process.main()


if __name__ == "__main__":
    main()
