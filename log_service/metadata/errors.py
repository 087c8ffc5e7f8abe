"""The error of a metadata log that cannot be replayed."""

from log_service.common.errors import TidelogError


class MetadataError(TidelogError):
    """A metadata log whose records contradict each other: it was damaged, or written by software that is not compatible."""
