"""Reads the settings of a project from its file ``.env``.

Variables that the environment already has are kept. The package that reads such files comes with
the platform extra. Without it there are no projects, and the file is not read.
"""

from importlib.util import find_spec
from pathlib import Path

SETTINGS_FILE = ".env"


def read_settings_of(project: Path) -> None:
    """Put the settings of ``project`` into the environment of this process and its children.

    The command's options read them there.
    """
    if (project / SETTINGS_FILE).is_file() and find_spec("dotenv") is not None:
        from dotenv import load_dotenv  # noqa: PLC0415 - comes with the platform extra

        load_dotenv(project / SETTINGS_FILE, override=False)
