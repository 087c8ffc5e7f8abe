"""The project's code server: Dagster's own, with forked run processes.

``python -m orchestration code_server --socket PATH`` runs in the project's folder. Every process
that can connect to it can make it run code. So it listens on a Unix socket that only its owner can
reach (``code_socket``).

Dagster's server spawns an interpreter per run, which imports Dagster, Spark, Delta and the project
anew. That takes seconds before each run. Here runs are forked from a process that has imported
everything already (``orchestration.installation.preload``). A run process is a child of the fork
server, which is a child of this process. All are in one session, so that they end together. The
first process that is forked warms Spark up (``transforms.rehearsal``).
"""

import argparse
import logging
import multiprocessing
import sys
import threading
import traceback
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from dagster._core.errors import DagsterUserCodeLoadError
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import FuturesAwareThreadPoolExecutor
from dagster._grpc.server import DagsterGrpcServer
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers

from orchestration.installation.code_watch import announce_reload
from orchestration.installation.event_storage import shared_connections
from orchestration.installation.instance import PROJECT_LOCATION
from orchestration.installation.plain_log import project_logger, write_plainly
from orchestration.installation.project_server import ProjectServer
from orchestration.installation.served_project import ServedProject
from orchestration.project.importing import kept_imports
from orchestration.project.location import DEFINITIONS, root_cause
from orchestration.project.mistakes import Complaints
from orchestration.settings import HOME_VARIABLE, process_environment

PRELOADED = "orchestration.installation.preload"
MAX_WORKERS = 16


def serve(socket_path: Path, *, is_watching: bool, complaint: Path | None = None) -> None:
    """Serve the project of the current directory on a Unix socket until SIGTERM or SIGINT.

    ``is_watching`` loads the project anew when one of its files changes. ``complaint`` is the file
    with the project's mistakes. The file is empty while there are none.
    """
    setup_interrupt_handlers()
    write_plainly()
    configure_loggers(log_level="WARNING")
    logger = logging.getLogger("dagster.code_server")
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([PRELOADED])
    forkserver.ensure_running()  # it imports while we load, so that the first run need not wait
    ended = threading.Event()
    home = process_environment().get(HOME_VARIABLE)
    events = project_logger()
    project = ServedProject(events, Complaints(complaint), Path(home) if home else None)

    def on_reloaded(fault: str | None) -> None:
        announce_reload(socket_path)
        project.settle(fault)

    executor = FuturesAwareThreadPoolExecutor(max_workers=MAX_WORKERS)
    with kept_imports():
        servicer = ProjectServer(
            forking=forking,
            events=events,
            server_termination_event=ended,
            logger=logger,
            loadable_target_origin=LoadableTargetOrigin(
                executable_path=sys.executable,
                working_directory=str(Path.cwd()),
                module_name=DEFINITIONS,
            ),
            location_name=PROJECT_LOCATION,
            server_threadpool_executor=executor,
            on_reloaded=on_reloaded,
        )
    if is_watching:
        servicer.watch_project(ended)
    server = DagsterGrpcServer(
        server_termination_event=ended,
        dagster_api_servicer=servicer,
        socket=str(socket_path),
        logger=logger,
        threadpool_executor=executor,
    )
    project.settle(None)
    threading.Thread(
        target=project.look_after, args=(ended,), name="look-after", daemon=True
    ).start()
    threading.Thread(target=start_rehearsal, args=(forking,), name="rehearsal", daemon=True).start()
    wait_without_looking(server.server, ended)
    try:
        with shared_connections():
            server.serve()  # type: ignore[no-untyped-call]
    except KeyboardInterrupt:
        logger.info("interrupted")


def wait_without_looking(server: Any, ended: threading.Event) -> None:
    """Make the server wait for its end without polling, and end waiting ticks first.

    gRPC polls ten times a second. Here the wait is for ``ended``, and gRPC's own wait begins only
    after that. In between the definitions are removed from ``sys.modules``. This ends ticks that
    wait for records, because the server cannot end before them.
    """
    wait_for_termination = server.wait_for_termination

    def wait(timeout: float | None = None) -> bool:
        is_ended = True
        try:
            is_ended = ended.wait(timeout)
        finally:
            if is_ended:
                sys.modules.pop(DEFINITIONS, None)
        return is_ended and bool(wait_for_termination(timeout))

    server.wait_for_termination = wait


def start_rehearsal(forking: BaseContext) -> None:
    """Warm Spark up in a forked process of its own.

    The process starts when the fork server has imported everything.
    """
    forking.Process(target=rehearse_once, daemon=True).start()  # type: ignore[attr-defined]  # of every context, says typeshed of none


def rehearse_once() -> None:
    """Run the rehearsal that warms Spark up, in a forked process that has all imports already."""
    from orchestration.transforms.rehearsal import (  # noqa: PLC0415 - seconds of import that this process does without
        rehearse,
    )

    rehearse()


def main() -> None:
    """Parse the command line, and serve."""
    parser = argparse.ArgumentParser(prog="python -m orchestration code_server")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--complaint", type=Path)
    arguments = parser.parse_args()
    try:
        serve(arguments.socket, is_watching=arguments.watch, complaint=arguments.complaint)
    except DagsterUserCodeLoadError as error:
        traceback.print_exception(error)
        sys.exit(root_cause(error))


if __name__ == "__main__":
    main()
