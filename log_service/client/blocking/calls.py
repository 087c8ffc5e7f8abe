"""The base class of the blocking clients, and functions that remove ``await`` from client methods.

A client runs in a thread of its own, which ``portal`` runs. ``with`` opens and closes it. This
module knows no client.
"""

from collections.abc import Awaitable, Callable
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from log_service.client.portal import Portal

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Generic[C]):
    """Opens and closes a blocking client, and passes calls to its thread."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._portal: Portal[C] = Portal(client, type(self).__name__)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self._portal.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal.close(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        """Whether the client accepts calls."""
        return self._portal.is_open

    def close(self) -> None:
        """Close the client and its thread. Idempotent."""
        self._portal.close()


def blocking(
    method: Callable[Concatenate[C, P], Awaitable[T]],
) -> Callable[Concatenate[Blocking[Any], P], T]:
    """Return a blocking method that runs an async method of the client.

    The client's method runs in the client's thread, while the caller waits.
    """

    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def blocking_sync(
    method: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[Blocking[Any], P], T]:
    """Return a method that runs a plain method in the client's thread.

    So only the client's thread uses the state of the client.
    """

    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call_sync(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call
