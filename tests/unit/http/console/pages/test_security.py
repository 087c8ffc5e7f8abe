"""Changes of users and their passwords."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.http.console.pages.security.handlers import remove_user, set_user
from log_service.http.console.previews import CONFIRMED_FIELD
from log_service.http.server.values import HttpResponse

FORM = {"name": "ann", "mechanism": "SCRAM-SHA-512", "password": "long enough"}


class Users:
    """An admin client that changes nothing, or is refused."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self._error = error

    async def set_scram_users(self, _users: object) -> None:
        if self._error is not None:
            raise self._error

    remove_scram_users = set_scram_users


def change(
    handler: Callable[[Any], Awaitable[HttpResponse]], error: KafkaError | None = None
) -> list[str]:
    """Make a change, and return the users whose sessions ended."""
    ended: list[str] = []

    async def admin() -> Users:
        return Users(error)

    form = {**FORM, "again": FORM["password"], CONFIRMED_FIELD: "yes"}
    page_request = SimpleNamespace(
        form=form,
        required=form.__getitem__,
        admin=admin,
        audited=lambda *_texts: nullcontext(),
        context=SimpleNamespace(end_sessions_of=ended.append),
    )

    async def run() -> None:
        try:
            await handler(page_request)
        except KafkaError:
            assert error is not None

    trio.run(run)
    return ended


@pytest.mark.parametrize("handler", [set_user, remove_user])
def test_a_changed_password_ends_the_sessions_of_its_user(
    handler: Callable[[Any], Awaitable[HttpResponse]],
) -> None:
    assert change(handler) == ["ann"]
    refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert change(handler, refused) == [], "or else a stranger could end them"
