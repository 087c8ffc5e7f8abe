"""The error of a database that cannot be reached or refuses, in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa


class StoreError(RuntimeError):
    """The database could not be reached or refused. If ``is_passing``, another try may help."""

    def __init__(self, text: str, *, is_passing: bool = False) -> None:
        super().__init__(text)
        self.is_passing = is_passing


@contextmanager
def refusals_translated(place: str) -> Iterator[None]:
    """Turn errors of SQLAlchemy in the block into a ``StoreError``.

    ``place`` names the database at the beginning of the error's text.

    :raises StoreError: the database could not be reached or refused.
    """
    try:
        yield
    except sa.exc.OperationalError as error:
        raise StoreError(
            f"{place} did not take it: {_short(error)}. Nothing was committed", is_passing=True
        ) from error
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(f"{place} refuses: {_short(error)}. Nothing was committed") from error


def _short(error: sa.exc.SQLAlchemyError) -> str:
    """Return the database's error text, without the statement and its values."""
    found = getattr(error, "orig", None) or error
    return str(found).strip().partition("\n")[0]
