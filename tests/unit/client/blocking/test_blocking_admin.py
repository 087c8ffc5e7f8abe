"""A program with threads runs async code over an admin in the admin's own thread."""

import threading

import pytest
import trio

from log_service.client import Admin, BlockingAdmin, KafkaError


async def where(admin: Admin, number: int, *, unit: str) -> tuple[str, str, str]:
    await trio.lowlevel.checkpoint()
    return type(admin).__name__, threading.current_thread().name, f"{number} {unit}"


async def fail(_admin: Admin) -> None:
    await trio.lowlevel.checkpoint()
    raise ZeroDivisionError


def test_an_async_function_runs_in_the_admins_thread() -> None:
    """It gets the trio admin, and the caller gets its result or its exception."""
    with BlockingAdmin("127.0.0.1:1") as admin:
        assert admin.run(where, 3, unit="ms") == ("Admin", "BlockingAdmin", "3 ms")
        with pytest.raises(ZeroDivisionError):
            admin.run(fail)


def test_a_closed_admin_runs_nothing() -> None:
    """The function is not even begun."""
    admin = BlockingAdmin("127.0.0.1:1")
    with pytest.raises(KafkaError, match="the client is closed"):
        admin.run(where, 3, unit="ms")
