"""Errors of a table's run, by who must act. Knows no Dagster."""

import re

MAX_TEXT = 1_500
UNKNOWN_HEADERS = "name `_headers` cannot be resolved"
HEADERS_ADVICE = ". A transform is given the headers of records where it is declared with has_headers=True"
_JAVA_TRACE = re.compile(r"\n+(?:JVM stacktrace:|\s+at |Caused by:|\*\*|Driver stacktrace:).*", re.DOTALL)


class TransformError(Exception):
    """The author of the transform must act.

    It threw, or its result is unfit. Nothing was committed.
    """


class ExecutionError(TransformError):
    """Spark failed while computing, after it had analysed the plan.

    One of the records may be at fault.
    """


class NotReadyError(Exception):
    """A topic or an input table does not exist yet. The text says which asset to materialize."""


def described(error: BaseException) -> str:
    """Return an error's class and its text without Java's stack trace.

    Advice is added where a transform uses headers that it did not ask for.
    """
    text = _JAVA_TRACE.sub("", str(error)).strip()
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}..."
    advice = HEADERS_ADVICE if UNKNOWN_HEADERS in text else ""
    return f"{type(error).__name__}: {text}{advice}"
