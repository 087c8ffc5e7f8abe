"""``tidelog init`` writes a new project.

Without the platform extra it says how to install it.
"""

import os
import sys
from importlib.util import find_spec

import click

from log_service.common.errors import ConfigError


@click.command()
@click.argument("directory", metavar="NAME")
def init(directory: str) -> None:
    """Write a new project, ready for `tidelog up`.

    It has a topic, a transform, a mart, a test and settings. NAME is the directory, which must be
    new or empty.
    """
    if find_spec("dagster") is None:
        raise ConfigError("a project needs the platform: pip install 'tidelog[platform]'")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "orchestration.project.new", directory])  # noqa: S606
