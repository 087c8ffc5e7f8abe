"""Runs an installation: starts components in order, restarts those that die, and stops all.

The supervisor decides when a component may start (all in its ``after`` are ready), when it counts
as hung (three probes in a row got no response), how long to wait before a restart (doubling from
one second to thirty, from one second again after a minute of health), and in which order everything
ends: opposite to the start. Components of the user's own are only waited for and watched. Problems
that a component reports are printed on the terminal. The supervisor does not know the purpose of
components. If a component that is not essential does not start, the others continue. Its start is
tried again until it succeeds. After each start that took too long, its deadline doubles, up to
eight times the first one, because a slow machine may stay slow.

Invariants: at most one process per component. After ``run`` has returned, none is left.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from math import inf
from pathlib import Path
from typing import NoReturn

import trio

from log_service.common.errors import ConfigError, TidelogError, first_error
from log_service.supervisor import process, state
from log_service.supervisor.complaints import complaints_of, joined, lasting
from log_service.supervisor.process import ComponentProcess
from log_service.supervisor.readiness import is_ready, wait_until_ready
from log_service.supervisor.spec import Argv, Component, InstallationSpec, start_order
from log_service.supervisor.state import ComponentState

FIRST_BACKOFF_S = 1.0
LAST_BACKOFF_S = 30.0
HEALTHY_AFTER_S = 60.0
FAILED_PROBES = 3
TOLD_TO_WAIT_AFTER_S = 1.0
COMPLAINT_POLL_S = 0.5
STATE_POLL_S = 0.05
MOST_PATIENCE = 8
"""The largest multiple of its start deadline that a component gets after starts that took too long.
"""

Say = Callable[[str], None]


class StartFailed(TidelogError):  # noqa: N818 - it names what happened
    """A component did not become ready at the installation's start."""


class Supervisor:
    """One installation. ``say`` is called with a line for each event that a person should see.

    ``is_data_held`` says that the caller already holds the lock of the data directory, because it
    prepared the directory.
    """

    def __init__(self, spec: InstallationSpec, say: Say, *, is_data_held: bool = False) -> None:
        self._spec = spec
        self._say = say
        self._is_data_held = is_data_held
        self._ordered = start_order(spec.components)
        self._log_directory = spec.context.data_directory / "logs"
        self._ready = {component.name: trio.Event() for component in self._ordered}
        self._processes: dict[str, ComponentProcess] = {}
        self._failures: dict[str, str] = {}
        self._states = {
            component.name: self._state(component, "waiting") for component in self._ordered
        }
        self._said_complaints: dict[str, tuple[str, ...]] = {}
        self._held: set[str] = set()
        self._stopping = trio.CancelScope(shield=True)
        self._width = max((len(component.name) for component in self._ordered), default=0)
        self._nursery: trio.Nursery | None = None
        self._watches: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    @property
    def processes(self) -> Mapping[str, ComponentProcess]:
        """The processes of the components that were started, by name."""
        return self._processes

    @property
    def data_directory(self) -> Path:
        """The directory of the installation's state."""
        return self._spec.context.data_directory

    def _state(
        self,
        component: Component,
        name: str,
        *,
        running: ComponentProcess | None = None,
        restart_count: int = 0,
    ) -> ComponentState:
        return ComponentState(
            name=component.name,
            state=name,
            address=component.address,
            pid=None if running is None else running.component_pid,
            guard_pid=None if running is None else running.pid,
            external_setting=component.external_setting,
            restart_count=restart_count,
            log_path=str(self._log_directory / f"{component.name}.log"),
            metrics_url=component.metrics_url,
            complaint=joined(complaints_of(component)),
            waits_for=self._waits_for(component) if name == "waiting" else (),
            failure="" if name == "ready" else self._failures.get(component.name, ""),
        )

    def _waits_for(self, component: Component) -> tuple[str, ...]:
        return tuple(name for name in component.after if not self._ready[name].is_set())

    def _note(
        self,
        component: Component,
        name: str,
        *,
        running: ComponentProcess | None = None,
        restart_count: int = 0,
    ) -> None:
        if name == "ready":
            self._failures.pop(component.name, None)
            self._ready[component.name].set()
        self._states[component.name] = self._state(
            component, name, running=running, restart_count=restart_count
        )
        for other in self._ordered:
            if self._states[other.name].state == "waiting":
                self._states[other.name] = self._state(other, "waiting")
        state.write(self._spec.context.data_directory, self._states)

    def _say_of(self, component: Component, text: str) -> None:
        self._say(f"{component.name:<{self._width}}  {text}")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the components until cancelled, then stop them all.

        ``task_status`` is started once the essential components are ready.

        Raises:
            StorageError: another supervisor runs on this data directory.
            StartFailed: an essential component ended or hung before it was ready for the first
                time.
            ConfigError: an essential component cannot be probed before it was ready for the first
                time.
        """
        with (
            nullcontext()
            if self._is_data_held
            else state.held_lock(self._spec.context.data_directory)
        ):
            try:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    for component in self._ordered:
                        nursery.start_soon(self._watch_until_taken_away, component)
                        if component.complaint_path is not None:
                            nursery.start_soon(self._pass_complaints_on, component)
                    for component in self._ordered:
                        if component.is_essential:
                            await self._ready[component.name].wait()
                    task_status.started()
            except BaseExceptionGroup as group:
                failed = group.subgroup((StartFailed, ConfigError))
                if failed is None:
                    raise
                raise first_error(failed) from None
            finally:
                with self._stopping:
                    await self._stop_all()
                for running in self._processes.values():
                    await running.stop()

    async def wait_until_all_are_ready(self) -> None:
        """Wait until every component has been ready once."""
        for ready in list(self._ready.values()):
            await ready.wait()

    def kill(self) -> None:
        """Kill all components at once instead of stopping them gracefully.

        A graceful stop in ``run`` ends at once, whether it is under way or begins later.
        """
        self._stopping.cancel()
        for running in self._processes.values():
            running.kill()

    # While it runs

    async def add(self, component: Component) -> None:
        """Start one more component, and wait until it is ready.

        It starts after all others and stops before them.

        Raises:
            StartFailed: the component was not ready in time, and was removed again.
        """
        assert self._nursery is not None, "it runs"
        self._ordered.append(component)
        ready = self._ready[component.name] = trio.Event()
        ready.set()  # so that it is started again, as any other, if its first start fails
        self._states[component.name] = self._state(component, "waiting")
        self._nursery.start_soon(self._watch_until_taken_away, component)
        if not await self._is_ready_in_time(component):
            failure = self._first_start_failed(component, not_ready(component))
            await self.take_away(component.name)
            raise StartFailed(failure)

    async def take_away(self, name: str) -> None:
        """Stop a component, and remove it from the installation."""
        component = self._component(name)
        await self._stop_one(component)
        self._held.discard(name)
        self._ordered.remove(component)
        del self._states[name], self._ready[name]
        self._processes.pop(name, None)
        state.write(self._spec.context.data_directory, self._states)

    async def restart(self, name: str) -> None:
        """Stop a component gracefully, start it again, and wait until it is ready.

        Raises:
            StartFailed: the component is not ready in time. Its start continues.
        """
        component = self._component(name)
        await self._stop_one(component)
        await self._start_again(component)

    async def hold(self, name: str) -> None:
        """Stop a component gracefully, and leave it down until ``release`` or ``restart``.

        It stays down for as long as this supervisor runs.

        Raises:
            ConfigError: the component is held already.
        """
        if name in self._held:
            raise ConfigError(f"{name} is stopped already")
        self._held.add(name)
        await self._stop_one(
            self._component(name), "stopped, and stays down until it is asked to start"
        )

    async def release(self, name: str) -> None:
        """Start a component that ``hold`` has stopped, and wait until it is ready.

        Raises:
            ConfigError: the component is not held.
            StartFailed: the component is not ready in time. Its start continues.
        """
        if name not in self._held:
            raise ConfigError(f"{name} was not stopped: it runs, or starts again by itself")
        await self._start_again(self._component(name))

    async def _start_again(self, component: Component) -> None:
        assert self._nursery is not None, "it runs"
        self._held.discard(component.name)
        self._note(component, "starting")
        self._nursery.start_soon(self._watch_until_taken_away, component)
        if not await self._is_ready_in_time(component):
            raise StartFailed(self._first_start_failed(component, not_ready(component)))

    def _component(self, name: str) -> Component:
        return next(each for each in self._ordered if each.name == name)

    async def _stop_one(self, component: Component, text: str = "stopped") -> None:
        scope, has_ended = self._watches[component.name]
        with trio.CancelScope(shield=True):
            scope.cancel()
            await has_ended.wait()  # a process that was being started exists only then
            running = self._processes.get(component.name)
            if running is not None:
                await running.stop()
            self._note(component, "stopped")
            self._say_of(component, text)

    async def _is_ready_in_time(self, component: Component) -> bool:
        with trio.move_on_after(component.start_deadline_s):
            while self._states[component.name].state != "ready":  # noqa: ASYNC110 - a state, which several tasks write
                await trio.sleep(STATE_POLL_S)
        return self._states[component.name].state == "ready"

    async def _watch_until_taken_away(self, component: Component) -> None:
        has_ended = trio.Event()
        try:
            with trio.CancelScope() as scope:
                self._watches[component.name] = scope, has_ended
                await self._watch(component)
        finally:
            has_ended.set()

    async def _watch(self, component: Component) -> None:
        """Start a component after all in its ``after``, and start it again whenever it ends.

        Raises:
            StartFailed: the first start of an essential component failed.
        """
        for name in component.after:
            await self._ready[name].wait()
        if component.is_external:
            await self._watch_external(component)
        backoff_s, restart_count, patience = FIRST_BACKOFF_S, 0, 1
        while True:
            started = trio.current_time()
            patient = replace(component, start_deadline_s=component.start_deadline_s * patience)
            why = await self._run_once(patient, restart_count)
            is_first = not self._ready[component.name].is_set()
            if is_first and component.is_essential:
                raise StartFailed(self._first_start_failed(component, why))
            if trio.current_time() - started > HEALTHY_AFTER_S:
                backoff_s = FIRST_BACKOFF_S
            patience = min(patience * 2, MOST_PATIENCE) if why == not_ready(patient) else 1
            restart_count += 1
            self._failures[component.name] = why
            self._note(component, "restarting", restart_count=restart_count)
            self._say_of(
                component,
                f"{why}; starts again in {backoff_s:.0f} s (log:"
                f" {self._states[component.name].log_path})",
            )
            if is_first and restart_count == 1:
                self._say_of(
                    component,
                    "\n".join(
                        [
                            "the end of its log:",
                            *(f"  {line}" for line in self._end_of_log(component)),
                        ]
                    ),
                )
            await trio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)

    async def _watch_external(self, component: Component) -> NoReturn:
        """Wait for a component of the user's own. Report when it stops responding or resumes."""
        setting = component.external_setting
        self._note(component, "starting")
        while not await self._is_there_in_time(component):
            why = f"did not respond within {component.start_deadline_s:.0f} s"
            what_to_do = f"start it, or unset {setting} to have one started here"
            if component.is_essential:
                raise StartFailed(
                    f"{component.name} at {component.address}, which {setting} names, {why}:"
                    f" {what_to_do}"
                )
            self._failures[component.name] = f"{why}: {what_to_do}"
            self._note(component, "not responding")
            self._say_of(
                component,
                f"{component.address}, which {setting} names, {why}: {what_to_do}; it is"
                " waited for",
            )
        self._note(component, "ready")
        self._say_of(component, f"ready  {component.address}  (yours: {setting})")
        was_ready = True
        while True:
            await trio.sleep(component.health_interval_s)
            is_there, why = False, f"does not respond at {component.address}"
            try:
                is_there = await is_ready(component.readiness)
            # files that it is asked with, as certificates, end or are exchanged at any time
            except ConfigError as error:
                why = f"cannot be asked at {component.address}: {error}"
            if is_there != was_ready:
                self._note(component, "ready" if is_there else "not responding")
                self._say_of(component, "ready again" if is_there else why)
            was_ready = is_there

    async def _is_there_in_time(self, component: Component) -> bool:
        """Wait for a component of the user's own until its deadline. Return whether it is ready.

        Print a line if the wait is long enough to be noticed.
        """
        deadline = trio.current_time() + component.start_deadline_s
        for until in (min(trio.current_time() + TOLD_TO_WAIT_AFTER_S, deadline), deadline):
            with trio.move_on_at(until):
                await wait_until_ready(component.readiness)
                return True
            if until < deadline:
                within = f"for up to {component.start_deadline_s:.0f} s"
                self._say_of(
                    component,
                    f"waiting {within} for {component.address}, which {component.external_setting}"
                    " names",
                )
        return False

    async def _pass_complaints_on(self, component: Component) -> None:
        """Print each problem of a component once while it lasts, and a line when none is left.

        The state file gets the problems whenever they change.
        """
        while True:
            await trio.sleep(COMPLAINT_POLL_S)
            lines, known = complaints_of(component), self._states[component.name]
            if (new_complaint := joined(lines)) != known.complaint:
                self._states[component.name] = replace(known, complaint=new_complaint)
                state.write(self._spec.context.data_directory, self._states)
            said_before = self._said_complaints.get(component.name, ())
            self._said_complaints[component.name] = complaints = tuple(map(lasting, lines))
            for one in complaints:
                if one not in said_before:
                    self._say_of(component, one)
            if said_before and not lines:
                self._say_of(component, "all is well again")

    async def _run_once(self, component: Component, restart_count: int) -> str:
        """Run a component until it ends, and return the reason why it ended."""
        for argv in component.prepare:
            self._note(component, "starting", restart_count=restart_count)
            if code := await process.run_to_end(component, argv, self._log_directory):
                return f"failed in its preparation, with exit code {code}"
        running = await process.start(component, self._log_directory)
        self._processes[component.name] = running
        self._note(component, "starting", running=running, restart_count=restart_count)
        if await self._becomes_ready(component, running):
            self._note(component, "ready", running=running, restart_count=restart_count)
            metrics = f"  metrics {component.metrics_url}" if component.metrics_url else ""
            self._say_of(component, f"ready  {component.address}{metrics}".rstrip())
            if await self._stays_healthy_until_its_end(component, running, restart_count):
                return f"ended with exit code {await running.wait()}"
            await running.kill_and_wait()
            return (
                f"did not respond for {FAILED_PROBES * component.health_interval_s:.0f} s, and was"
                " killed"
            )
        if running.guard.poll() is None:
            await running.stop()
            return not_ready(component)
        return f"ended with exit code {await running.wait()}"

    async def _becomes_ready(self, component: Component, running: ComponentProcess) -> bool:
        is_ready = False
        with trio.move_on_after(component.start_deadline_s) as patience:
            async with trio.open_nursery() as nursery:

                async def give_up_at_its_end() -> None:
                    await running.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(give_up_at_its_end)
                await self._wait_until_ready(component, patience)
                is_ready = running.guard.poll() is None
                nursery.cancel_scope.cancel()
        return is_ready

    async def _wait_until_ready(self, component: Component, patience: trio.CancelScope) -> None:
        """Wait until the component is ready.

        If a probe cannot be made, it is repeated, unless an essential component was never ready.
        ``patience`` bounds the wait. Its time begins again once a probe can be made, because before
        that nothing is known about the component.

        Raises:
            ConfigError: a probe of an essential component that was never ready cannot be made.
        """
        said_before = ""
        while True:
            try:
                return await wait_until_ready(component.readiness)
            except ConfigError as error:
                if component.is_essential and not self._ready[component.name].is_set():
                    raise
                why = f"cannot be asked: {error}"
            if why != said_before:
                self._say_of(component, why)
            said_before = why
            patience.deadline = inf
            await trio.sleep(component.health_interval_s)
            patience.deadline = trio.current_time() + component.start_deadline_s

    async def _stays_healthy_until_its_end(
        self, component: Component, running: ComponentProcess, restart_count: int
    ) -> bool:
        """Watch a process. Return True once it has ended, False once it counts as hung.

        It is hung if several probes in a row got no response. A probe that cannot be made says
        nothing about the process, because its files, such as certificates, may be replaced at any
        time.
        """
        failed_count, said_before = 0, ""
        while True:
            with trio.move_on_after(component.health_interval_s):
                await running.wait()
                return True
            was_failing = failed_count > 0
            try:
                failed_count, why = (
                    (0, "") if await is_ready(component.readiness) else (failed_count + 1, "")
                )
            except ConfigError as error:
                why = f"cannot be asked: {error}"
            if why != said_before:
                self._say_of(component, why or "can be asked again")
            said_before = why
            if failed_count >= FAILED_PROBES:
                return running.guard.poll() is not None
            if was_failing != (failed_count > 0):
                self._note(
                    component,
                    "not responding" if failed_count else "ready",
                    running=running,
                    restart_count=restart_count,
                )

    def _first_start_failed(self, component: Component, why: str) -> str:
        log_path = self._states[component.name].log_path
        lines = (f"  {line}" for line in self._end_of_log(component))
        return "\n".join(
            [f"{component.name} could not be started: it {why}. The end of {log_path}:", *lines]
        )

    def _end_of_log(self, component: Component) -> list[str]:
        log_path = Path(self._states[component.name].log_path)
        return process.last_lines(log_path) if log_path.exists() else []

    async def _stop_all(self) -> None:
        """Stop all components in the opposite order of the start.

        Adjacent components of one ``stop_group`` stop together.
        """
        for _, group in groupby(
            reversed(self._ordered), key=lambda component: component.stop_group or component.name
        ):
            async with trio.open_nursery() as nursery:
                for component in group:
                    nursery.start_soon(self._stop_in_order, component)

    async def _stop_in_order(self, component: Component) -> None:
        running = self._processes.get(component.name)
        if running is None:
            return
        if running.guard.poll() is None:
            await self._run_before_stop(component, component.before_stop)
        await running.stop()
        self._note(component, "stopped")
        self._say_of(component, "stopped")

    async def _run_before_stop(self, component: Component, commands: Sequence[Argv]) -> None:
        for argv in commands:
            self._note(component, "stopping", running=self._processes[component.name])
            with trio.move_on_after(component.stop_deadline_s) as deadline:
                await process.run_to_end(component, argv, self._log_directory)
            if deadline.cancelled_caught:
                self._say_of(
                    component,
                    f"did not finish what it was doing within {component.stop_deadline_s:.0f} s",
                )


def not_ready(component: Component) -> str:
    """Return the reason for the failure of a start that exceeded its deadline."""
    return f"was not ready after {component.start_deadline_s:.0f} s"
