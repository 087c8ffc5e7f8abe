"""What can go wrong in a table's run, by who must act. Knows no Dagster."""

import re

MAX_TEXT = 1_500
_JAVA_TRACE = re.compile(r"\n+(?:JVM stacktrace:|\s+at |Caused by:|\*\*|Driver stacktrace:).*", re.DOTALL)


class TransformError(Exception):
    """The author of the transform must act: it threw, or its result cannot be committed. Nothing was."""


class NotReadyError(Exception):
    """Something that the table needs does not exist yet: a topic or an input table. The text says which asset to materialize."""


def described(error: BaseException) -> str:
    """Return an error's class and its text without Java's stack trace."""
    text = _JAVA_TRACE.sub("", str(error)).strip()
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}..."
    return f"{type(error).__name__}: {text}"
