"""Errors of the registry client and of serializers, and the hint at missing packages.

Every error names the subject or the topic, and the address of the registry if it was asked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from log_service.common.errors import TidelogError

RETRIABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses after which the same request may succeed."""
NO_RESPONSE: Final = 0
NO_CODE: Final = -1


class SchemaRegistryError(TidelogError):
    """A registry refused a request, or no registry responded.

    ``status`` is the HTTP status, 0 without a response. ``code`` is the registry's own code, such
    as 42201, and -1 without one. ``text`` is its message. ``address`` is the registry's URL.
    ``subject`` is None if the request is about no subject.
    """

    def __init__(
        self,
        status: int,
        code: int,
        text: str,
        *,
        address: str,
        subject: str | None = None,
        request: str = "",
    ) -> None:
        about = f" about subject {subject!r}" if subject is not None else ""
        if status == NO_RESPONSE:
            message = f"no schema registry responded to {request}{about} at {address}: {text}"
        else:
            numbers = f"status {status}" if code == NO_CODE else f"status {status}, code {code}"
            message = (
                f"the schema registry at {address} refused {request}{about}: {text} ({numbers})"
            )
        super().__init__(message)
        self.status, self.code, self.text = status, code, text
        self.address, self.subject = address, subject

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == NO_RESPONSE or self.status in RETRIABLE


class SerializationError(TidelogError):
    """A value does not fit its schema, or bytes cannot be read. The text names topic and schema."""


@contextmanager
def schemas_extra() -> Iterator[None]:
    """Tell which extra of the package to install if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = (
            f"{error.name} is not installed, and serializers need it: pip install"
            " 'tidelog[schemas]'"
        )
        raise ModuleNotFoundError(text, name=error.name) from error
