"""Runs all flows of one process, and starts a failed flow again after a growing pause.

Flows do not affect each other. This module decides how long to wait before a flow starts again, and
when the process counts as hung. It touches the heartbeat file as long as all flows of the process
make progress. The complaint file lists the present problems, and is empty if there are none. A
supervisor reads both files.
"""

import logging
from functools import partial
from pathlib import Path

import trio

from log_service.client.connections.env import real_env
from log_service.common.env import Env
from log_service.common.errors import ConfigError, TidelogError, first_error
from log_service.common.quiet_log import QuietLogger
from log_service.mirror.complaints import Complaints
from log_service.mirror.flow import Flow, Say, is_fenced
from log_service.mirror.held_topics import HeldTopics
from log_service.mirror.reachability import watch_clusters
from log_service.mirror.settings import FlowSettings, MirrorSettings

FIRST_BACKOFF_S, LAST_BACKOFF_S = 1.0, 30.0
HEALTHY_AFTER_S = 60.0
HUNG_AFTER_MS = 300_000
"""Longer than any transaction with all its retries."""
BEAT_S = 2.0

logger = logging.getLogger(__name__)


class MirrorService:
    """Runs the flows of a settings file.

    ``heartbeat`` and ``complaint`` are the files for a supervisor. ``say`` is called with lines for
    the person at the terminal.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        say: Say,
        heartbeat: Path | None = None,
        complaint: Path | None = None,
        env: Env | None = None,
    ) -> None:
        self._settings = settings
        self._say = say
        self._heartbeat = heartbeat
        self._complaint = complaint
        self._env = env or real_env()
        now_ms = self._env.clock.monotonic_ms
        self._quiet = QuietLogger(logger, now_ms)
        self._complaints = {
            flow.name: Complaints(
                flow.name, now_ms, longest_pause_s=max(flow.refresh_topics_s, flow.sync_groups_s)
            )
            for flow in settings.flows
        }
        self._held = {
            flow.name: HeldTopics(flow.refresh_topics_s * 1_000, now_ms) for flow in settings.flows
        }
        self._beats_ms = {flow.name: now_ms() for flow in settings.flows}

    async def run(self) -> None:
        """Run all flows until cancelled.

        Raises:
            ConfigError: a flow cannot run with its settings, for example because source and target
                are the same cluster. With a complaint file, this is a complaint instead.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_to_supervisor)
            for flow in self._settings.flows:
                nursery.start_soon(self._keep_running, flow)
                nursery.start_soon(watch_clusters, flow, self._env, self._complaints[flow.name])

    async def _keep_running(self, settings: FlowSettings) -> None:
        complaints, held = self._complaints[settings.name], self._held[settings.name]
        beat = partial(self._beat, settings.name)
        backoff_s = FIRST_BACKOFF_S
        while True:
            began = trio.current_time()
            flow = Flow(
                self._settings.flows,
                settings,
                self._env,
                complaints=complaints,
                held=held,
                say=self._say,
                beat=beat,
            )
            try:
                await flow.run()
            except* ConfigError as group:
                if self._complaint is None:  # a person can fix it now; a supervisor shows the error
                    raise first_error(group) from None
                complaints.note(self._sentence(settings, first_error(group)))
            except* (TidelogError, OSError) as group:
                complaints.note(self._sentence(settings, first_error(group)))
            if trio.current_time() - began > HEALTHY_AFTER_S:
                backoff_s = FIRST_BACKOFF_S
            beat()
            await trio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, LAST_BACKOFF_S)

    def _sentence(self, settings: FlowSettings, error: BaseException) -> str:
        if is_fenced(error):
            return (
                f"another process mirrors {settings.name}, or a transaction took too long: one"
                f" process may run a flow ({error})"
            )
        return f"stopped, and begins again where it was: {error}"

    def _beat(self, flow: str) -> None:
        self._beats_ms[flow] = self._env.clock.monotonic_ms()

    async def _report_to_supervisor(self) -> None:
        """Update the heartbeat and the complaint file at intervals."""
        while True:
            try:
                self._log_once()
            except OSError as error:  # a disk that is full stops no flow
                self._quiet.warning(
                    error.errno, "the supervisor cannot be told how the mirror is: %s", error
                )
            await trio.sleep(BEAT_S)

    def _log_once(self) -> None:
        if (
            self._heartbeat is not None
            and self._env.clock.monotonic_ms() - min(self._beats_ms.values()) < HUNG_AFTER_MS
        ):
            self._heartbeat.touch()
        if self._complaint is not None:
            lines = [
                line for complaints in self._complaints.values() for line in complaints.current()
            ]
            _write_changed(
                self._complaint, "".join(f"{' '.join(line.split())}\n" for line in lines)
            )


def _write_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(errors="replace") != text:
        path.write_text(text)
