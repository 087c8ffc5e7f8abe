"""Errors of reading and writing the registry's topic, one type for each reaction of a caller."""

from log_service.common.errors import TidelogError


class SchemasLogError(TidelogError):
    """The base of all errors of the registry's topic."""


class ReadTimedOut(SchemasLogError):  # noqa: N818 - it says what happened
    """The reader did not reach an offset in time. A later attempt may succeed."""


class NotWritten(SchemasLogError):  # noqa: N818 - it says what became of the records
    """The records are certainly not in the log. The same writer may try again."""


class RecordsTooLarge(NotWritten):
    """The records are too large. They are not in the log, and no further attempt will succeed."""


class Superseded(NotWritten):
    """The records are certainly not in the log, because this instance is not the log's writer.

    Another instance took over, or this instance never did. Find out who leads before taking over
    again.
    """


class OutcomeUnknown(SchemasLogError):  # noqa: N818 - it says what is known of the records
    """The records may or may not be in the log.

    The writer gives up its producer epoch. Before its next write it takes the topic over again, and
    writes a first record in a new epoch. Reading up to that record shows whether the records are in
    the log.
    """
