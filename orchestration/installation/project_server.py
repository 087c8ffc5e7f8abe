"""The code server's servicer: Dagster's own, with reloads of the project and forked runs.

"Reload definitions" in the UI forgets the project's modules and imports them again in this process.
A new server id notifies Dagster's other processes. Runs are forked from a process that imported the
project once, at its start. A run after a reload forgets that copy first. If the project cannot be
loaded, Dagster shows a load error until the next reload. Runs that have started are not affected.

Invariants: runs never see a mixture of old and new modules. A reload holds no lock that a run needs
while it imports the project.
"""

import gc
import importlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from uuid import uuid4

from dagster._grpc.__generated__.dagster_api_pb2 import ReloadCodeReply
from dagster._grpc.server import DagsterApiServer, LoadedRepositories
from dagster._utils.error import serializable_error_info_from_exc_info

from orchestration.project.location import forget_project, root_cause, watched_files

WATCH_INTERVAL_S = 1.0


class ForkedRuns:
    """Takes the place of multiprocessing's context in the server.

    Its processes import the project anew if it was reloaded since the fork.
    """

    def __init__(self, forking: BaseContext) -> None:
        self._forking = forking
        self.reload_count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forking, name)

    def Process(self, *, target: Callable[..., object], args: Sequence[object]) -> BaseProcess:  # noqa: N802 - multiprocessing's name
        """Return a process that runs ``target`` with the current project."""
        process: BaseProcess = self._forking.Process(  # type: ignore[attr-defined]
            target=run_with_project, args=(self.reload_count, target, args)
        )
        return process


def run_with_project(
    reload_count: int, target: Callable[..., object], args: Sequence[object]
) -> None:
    """Run ``target`` with the newest code of the project, in a process that was just forked.

    The process was forked with the project's modules as they were first loaded. If the project was
    reloaded since (``reload_count``), they are dropped and imported anew.
    """
    if reload_count:
        forget_project(Path.cwd())
    target(*args)


class ProjectServer(DagsterApiServer):
    """Serves the project of the current directory.

    ``forking`` starts the processes of runs. ``events`` is the logger of normal events.
    ``on_reloaded`` is called after each reload. The other keywords are those of Dagster's server.
    """

    def __init__(
        self,
        *,
        forking: BaseContext,
        events: logging.Logger,
        location_name: str,
        on_reloaded: Callable[[str | None], None],
        **settings: Any,
    ) -> None:
        super().__init__(location_name=location_name, **settings)
        self._events = events
        self._on_reloaded = on_reloaded
        self._location_name = location_name
        self._runs = ForkedRuns(forking)
        self._mp_ctx = self._runs  # type: ignore[assignment]  # Dagster's server has no option for it

    def ReloadCode(self, _request: object, _context: object) -> ReloadCodeReply:  # noqa: N802 - gRPC's name
        """Load the project anew, for "Reload definitions"."""
        self.reload_project()
        return ReloadCodeReply()

    def reload_project(self) -> None:
        """Load the project anew.

        If it cannot be loaded, its code location shows the error until the next successful load.
        Then ``on_reloaded`` is called with the reason of a failure, or with None after a success.
        """
        fault = None
        gc.unfreeze()  # what was imported of the project before is garbage from now on
        with self._reload_lock:
            forget_project(Path.cwd())
            self._runs.reload_count += 1
            try:
                self._loaded_repositories = LoadedRepositories(
                    self._loadable_target_origin,
                    entry_point=self._entry_point,
                    container_image=self._container_image,
                    container_context=self._container_context,
                    code_location_name=self._location_name,
                )
                self._serializable_load_error = None
            except Exception as error:  # noqa: BLE001 - a project may raise anything
                self._serializable_load_error = serializable_error_info_from_exc_info(
                    sys.exc_info()
                )
                fault = root_cause(error)
                self._logger.warning("%s", fault)
            self._server_id = str(uuid4())
        self._on_reloaded(fault)

    def watch_project(self, ended: threading.Event) -> None:
        """Reload whenever a file of the project changes, until ``ended``."""
        threading.Thread(
            target=self._watch, args=(ended,), name="watch-project", daemon=True
        ).start()

    def _watch(self, ended: threading.Event) -> None:
        seen = dict(_stamps())
        while not ended.wait(WATCH_INTERVAL_S):
            now = dict(_stamps())
            if now != seen:
                self._events.info("the project changed: loading it anew")
                importlib.invalidate_caches()
                self.reload_project()
            seen = now


def _stamps() -> Iterator[tuple[Path, int]]:
    for path in watched_files(Path.cwd()):
        try:
            yield path, path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
