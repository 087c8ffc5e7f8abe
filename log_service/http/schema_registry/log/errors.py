"""Errors of reading and writing the registry's topic, one type for each next step of a caller."""

from log_service.common.errors import TidelogError


class SchemasLogError(TidelogError):
    """The base of all errors of the registry's topic."""


class ReadTimedOut(SchemasLogError):  # noqa: N818 - it says what happened
    """The reader did not reach an offset in time. A later attempt may succeed."""


class NotWritten(SchemasLogError):  # noqa: N818 - it says what became of the records
    """The records are surely not in the log. The same writer may try again."""


class RecordsTooLarge(NotWritten):
    """The records are surely not in the log, and no attempt with the same records will succeed."""


class Superseded(NotWritten):
    """The records are surely not in the log, because this instance is not its writer.

    Another instance took over, or this one never did. Find out who leads before taking over again.
    """


class OutcomeUnknown(SchemasLogError):  # noqa: N818 - it says what is known of the records
    """The records may or may not be in the log.

    The writer takes over anew before its next write. Reading up to the writer's first record then
    shows it.
    """
