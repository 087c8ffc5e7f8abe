"""A command is the main task of a trio run: how it ends, and what Ctrl-C does to it."""

import signal
import threading
from collections.abc import Iterator

import click
import pytest
import trio
import trio.testing

from log_service.cli.running import in_thread, on_trio, run


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, as in a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_command_is_called_with_its_arguments_and_keeps_its_name() -> None:
    """click reads the name and the help."""

    @on_trio
    async def add(*, first: int, second: int) -> int:
        """Add two numbers."""
        await trio.lowlevel.checkpoint()
        return first + second

    assert add(first=1, second=2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")


def test_the_error_in_a_group_is_raised_alone() -> None:
    """The command line knows errors and not groups of them."""

    async def fail() -> None:
        async with trio.open_nursery():
            raise click.ClickException("refused")

    with pytest.raises(click.ClickException, match="refused"):
        run(fail)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_interrupts_the_command_and_not_a_task_of_its_clients() -> None:
    """The interrupted command may still ask the cluster, because its clients go on."""
    told: list[str] = []

    async def client(task_status: trio.TaskStatus[trio.MemorySendChannel[str]]) -> None:
        requests, received = trio.open_memory_channel[str](1)
        task_status.started(requests)
        signal.raise_signal(signal.SIGINT)  # in the midst of this task
        told.append(await received.receive())

    async def command() -> None:
        async with trio.open_nursery() as nursery:
            requests = await nursery.start(client)
            try:
                await trio.sleep_forever()
            except KeyboardInterrupt:
                await requests.send("take it back")
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
                raise

    with pytest.raises(KeyboardInterrupt):
        run(command)
    assert told == ["take it back"]


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_leaves_a_thread_that_blocks_behind() -> None:
    """A server that does not respond must not hold up a person."""
    begun, is_over = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        is_over.wait(20)

    def press() -> None:
        begun.wait(20)
        signal.raise_signal(signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        run(in_thread, block)
    assert not is_over.is_set()
    is_over.set()
    presser.join()
