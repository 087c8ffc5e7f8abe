"""Makes Dagster's processes log plain lines, and errors without their stack.

Dagster colours its lines, also in a file, and writes the whole stack of each error, often twice.
Its UI keeps the stack with the tick or the run that failed, and the log is for reading. Decides
which parts a line leaves out, and which logger writes normal events. Starts no process.
"""

import logging
import re
import sys
from types import TracebackType
from typing import Any

import coloredlogs  # type: ignore[import-untyped]

STACK_LINES = re.compile(
    r"^(Stack Trace:|Traceback \(most recent call last\):|  File \".*\", line \d+.*|    .*)\n?",
    re.MULTILINE,
)
LINKS = re.compile(
    r"^\s*(The above exception (was caused by|occurred during handling of) the following exception:"
    r"|During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:)\s*$\n?",
    re.MULTILINE,
)
PROJECT_LOGGER = "tidelog.project"
ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class PlainFormatter(logging.Formatter):
    """Formats plain lines. Its arguments are those of ``coloredlogs.ColoredFormatter``."""

    def __init__(self, datefmt: str | None = None, **_: Any) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """Return the messages of the error and its causes."""
        return without_stacks(super().formatException(ei))

    def format(self, record: logging.LogRecord) -> str:
        """Return the log line. Lines that the text of an error repeats are written once."""
        lines = without_stacks(super().format(record)).splitlines()
        return "\n".join(dict.fromkeys(line.rstrip() for line in lines if line.strip()))


def without_stacks(text: str) -> str:
    """Return ``text`` without the lines of stacks in it."""
    return LINKS.sub("", STACK_LINES.sub("", text))


def project_logger() -> logging.Logger:
    """Return the logger of a served project, for normal events and for warnings.

    Dagster's own loggers write warnings only, because they log each start and each request.
    """
    logger = logging.getLogger(PROJECT_LOGGER)
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(PlainFormatter(datefmt="%Y-%m-%d %H:%M:%S %z"))
        logger.addHandler(handler)
        logger.propagate = False
    logger.setLevel(logging.INFO)
    return logger


def write_plainly() -> None:
    """Let Dagster's loggers, which are configured later, write plain lines."""
    coloredlogs.ColoredFormatter = PlainFormatter
