"""Passwords, keys and tokens as values whose content is not shown by accident.

A secret is shown by no ``repr``, no ``str``, no f-string and no error text. Code that needs the
content calls ``reveal``, so that a search for this name finds each place where a secret is used. A
secret can be neither pickled nor copied into JSON by accident.
"""

from typing import Generic, NoReturn, Self, TypeVar

T = TypeVar("T")


class _Secret(Generic[T]):
    __slots__ = ("_content",)

    def __init__(self, content: T) -> None:
        self._content = content

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden)"

    def __eq__(self, other: object) -> bool:
        return (
            self._content == other._content
            if isinstance(other, _Secret) and type(other) is type(self)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._content)

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is not written anywhere; reveal it where it is used"
        )

    def reveal(self) -> T:
        """Return the content itself."""
        return self._content


class SecretText(_Secret[str]):
    """Text that is never shown: a password, a PEM key."""

    __slots__ = ()


class SecretBytes(_Secret[bytes]):
    """Bytes that are never shown: a salt, a stored key, an HMAC."""

    __slots__ = ()
