"""The project's code server: Dagster's own, with run processes that are forked from one that has imported everything already.

``python -m orchestration.code_server --host HOST --port PORT``, in the project's folder. Dagster's server spawns an interpreter per run,
which imports Dagster, Spark, Delta and the project anew: seconds of work before each run. Here it forks them (``orchestration.preload``).
A run process is a child of the fork server, which is a child of this process, all in one session, so that they end together. The first such
process warms Spark up (``transforms.rehearsal``).
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

from dagster._core.errors import DagsterUserCodeLoadError
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import FuturesAwareThreadPoolExecutor
from dagster._grpc.server import DagsterApiServer, DagsterGrpcServer
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers

from orchestration.instance import PROJECT_LOCATION
from orchestration.projects import ProjectError

MODULE = "orchestration.definitions"
PRELOADED = "orchestration.preload"
MAX_WORKERS = 16


def serve(host: str, port: int) -> None:
    """Serve the project of the current directory until SIGTERM or SIGINT."""
    setup_interrupt_handlers()
    configure_loggers(log_level="WARNING")
    logger = logging.getLogger("dagster.code_server")
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([PRELOADED])
    forkserver.ensure_running()  # it imports while we load, so that the first run need not wait
    ended = threading.Event()
    executor = FuturesAwareThreadPoolExecutor(max_workers=MAX_WORKERS)
    servicer = DagsterApiServer(
        server_termination_event=ended,
        logger=logger,
        loadable_target_origin=LoadableTargetOrigin(executable_path=sys.executable, working_directory=str(Path.cwd()), module_name=MODULE),
        location_name=PROJECT_LOCATION,
        server_threadpool_executor=executor,
    )
    servicer._mp_ctx = forking  # type: ignore[assignment]  # noqa: SLF001 - the one thing that Dagster's server has no option for
    server = DagsterGrpcServer(
        server_termination_event=ended, dagster_api_servicer=servicer, host=host, port=port, logger=logger, threadpool_executor=executor
    )
    threading.Thread(target=start_rehearsal, args=(forking,), name="rehearsal", daemon=True).start()
    try:
        server.serve()  # type: ignore[no-untyped-call]
    except KeyboardInterrupt:
        logger.info("interrupted")


def start_rehearsal(forking: BaseContext) -> None:
    """Warm Spark up in a process of its own, which starts when the fork server has imported everything."""
    forking.Process(target=rehearse_once, daemon=True).start()  # type: ignore[attr-defined]  # of every context, says typeshed of none


def rehearse_once() -> None:
    """What the process does; imported there, where it is at hand already."""
    from orchestration.transforms.rehearsal import rehearse  # noqa: PLC0415 - seconds of import that this process does without

    rehearse()


def root_cause(error: BaseException) -> str:
    """Return what went wrong in the project itself: its own sentence where there is one, else the innermost error."""
    while not isinstance(error, ProjectError) and error.__cause__ is not None:
        error = error.__cause__
    own = isinstance(error, ProjectError)
    return str(error) if own else f"The project in {Path.cwd()} cannot be loaded: {type(error).__name__}: {error}"


def main() -> None:
    """Read the address and serve."""
    parser = argparse.ArgumentParser(prog="python -m orchestration.code_server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    try:
        serve(arguments.host, arguments.port)
    except DagsterUserCodeLoadError as error:
        traceback.print_exception(error)
        sys.exit(root_cause(error))


if __name__ == "__main__":
    main()
