"""The error of a metadata log that cannot be replayed."""

from log_service.common.errors import TidelogError


class MetadataError(TidelogError):
    """Records of the metadata log contradict each other.

    The log is damaged, or incompatible software wrote it.
    """
