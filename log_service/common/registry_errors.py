"""Error codes of the schema registry's REST API, which registry and clients share."""

from typing import Final

SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
NO_OWN_CONFIG: Final = 40408
"""A subject without a config of its own."""
NOT_FOUND: Final = frozenset({SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, SCHEMA_NOT_FOUND})
"""The error codes for a missing subject, version or schema."""
