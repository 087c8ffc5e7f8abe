"""The settings of a project, which lie in its file ``.env``.

Decides that what is set in the environment already stays as it is. The package that reads such files comes with the platform extra; without
it there are no projects, and the file is not looked at.
"""

from importlib.util import find_spec
from pathlib import Path

SETTINGS_FILE = ".env"


def read_settings_of(project: Path) -> None:
    """Take the settings of the ``project`` into this process, for its options and for all that it starts."""
    if (project / SETTINGS_FILE).is_file() and find_spec("dotenv") is not None:
        from dotenv import load_dotenv  # noqa: PLC0415 - comes with the platform extra

        load_dotenv(project / SETTINGS_FILE, override=False)
