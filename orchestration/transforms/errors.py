"""Errors of a table's run, by the person or process that has to act on them. Knows no Dagster."""

import re

MAX_TEXT = 1_500
UNKNOWN_HEADERS = "name `_headers` cannot be resolved"
HEADERS_ADVICE = (
    ". A transform is given the headers of records where it is declared with has_headers=True"
)
MAX_WHOLE_TEXT = 20_000
_PLAN = re.compile(r"\s*\bSQLSTATE: \w+.*|;\s*\n['A-Z+].*", re.DOTALL)
"""The end of Spark's sentences: its code, the place in the statement, and the logical plan."""
_PYTHON_TRACE = "Traceback (most recent call last):"
_JAVA_TRACE = re.compile(
    r"\n+(?:JVM stacktrace:|\s+at |Caused by:|\*\*|Driver stacktrace:).*", re.DOTALL
)


class TransformError(Exception):
    """The transform raised an error, or its result cannot be used.

    Its author must act. Nothing was committed.
    """


class ExecutionError(TransformError):
    """Spark failed while computing, after it had analysed the plan.

    One of the records may be at fault.
    """


class NotReadyError(Exception):
    """A topic or an input table does not exist yet. The text says which asset to materialize."""


def described(error: BaseException) -> str:
    """Return an error's class and message, without logical plans and without stack traces.

    ``whole_text`` has the rest. Advice is added if a transform uses headers without having
    requested them.
    """
    text = plain_sentence(_JAVA_TRACE.sub("", str(error)))
    if _PYTHON_TRACE in text:
        return _shortened(text.splitlines()[-1].strip())
    advice = HEADERS_ADVICE if UNKNOWN_HEADERS in text else ""
    return f"{type(error).__name__}: {_shortened(text)}{advice}"


def plain_sentence(text: str) -> str:
    """Return the text of a Spark error without its code and its logical plan."""
    return _PLAN.sub("", text).strip()


def whole_text(error: BaseException) -> str:
    """Return the text of the innermost cause of an error, for the log of a run.

    It is empty if the error has no cause, or contains the text already.
    """
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = _JAVA_TRACE.sub("", str(cause)).strip()
    return "" if text in str(error) else text[:MAX_WHOLE_TEXT]


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
