"""Looks after a served project: creates its topics, and reports problems with it.

The problems appear at the terminal and in ``tidelog status``. They are declarations that were
ignored because of a mistake, topics that differ from their declarations, and assets whose last run
failed. Decides how often each is checked. Topics are created, and brought up to their declarations,
when the project is loaded. A later difference was made by a person, so it is reported and not
undone. A check does not stop the service, and a failed check is logged.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import dagster as dg

from log_service.supervisor.components import DECLARED_TOPICS_FILE
from orchestration.installation.declare import write_declared
from orchestration.installation.instance import open_instance
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogServiceError
from orchestration.project.location import DEFINITIONS
from orchestration.project.mistakes import Complaints, mistakes
from orchestration.sensing.failing_assets import FailingAssets
from orchestration.sensing.retries import NO_RETRIES, retries_of
from orchestration.settings import SettingsError, load_settings
from orchestration.topics.spec import differences, reconcile_all, topic_specs

RECONCILE_TIMEOUT_MS = 10_000
LOOK_INTERVAL_S = 5.0
LOOKS_PER_RECONCILE = 6
PROJECT, TOPICS, ASSETS = "project", "topics", "assets"
"""The parts of the complaints, by their subject."""


class ServedProject:
    """The project of a code server.

    ``home`` is the folder of its Dagster instance, None if it has none.
    """

    def __init__(self, logger: logging.Logger, complaints: Complaints, home: Path | None) -> None:
        self._logger = logger
        self._complaints = complaints
        self._home = home
        self._assets: tuple[dg.AssetsDefinition, ...] = ()
        self._retries = NO_RETRIES
        self._are_topics_settled = True

    def settle(self, fault: str | None) -> None:
        """Handle a load of the project: report its failure, or ``take`` its assets.

        ``fault`` is the reason why the project could not be loaded, and is reported. If it is None,
        report the project's mistakes and create its topics.
        """
        if fault is not None:
            self._complaints.replace(PROJECT, [fault])
            return
        self.take(import_module(DEFINITIONS).defs.get_repository_def().assets_defs_by_key.values())

    def take(self, assets: Iterable[dg.AssetsDefinition]) -> None:
        """Make ``assets`` the project's assets, and check them at once.

        Declarations that were ignored because of a mistake are reported. The declared topics are
        created or altered, and written to a file for the brokers.
        """
        self._assets = tuple(assets)
        self._retries = retries_of(self._assets)
        self._declare()
        found = mistakes(self._assets)
        for mistake in found:
            self._logger.warning("%s", mistake)
        self._complaints.replace(PROJECT, found)
        self.reconcile_topics()

    def _declare(self) -> None:
        """Write the declared topics into a file for the brokers of an installation.

        If a client asks for such a topic first, the broker creates it as declared.
        """
        if self._home is None:
            return
        try:
            write_declared(
                load_settings().data_directory / DECLARED_TOPICS_FILE,
                Path.cwd().resolve(),
                topic_specs(self._assets),
            )
        except (OSError, SettingsError) as error:
            self._logger.warning(
                "the declared topics could not be written for the brokers: %s", error
            )

    def look_at_topics(self) -> None:
        """Report the differences of topics from their declarations.

        A person has changed, deleted or created these topics meanwhile. If the log service does not
        respond, that is reported instead.
        """
        try:
            with connect(
                load_settings().bootstrap_servers, timeout_ms=RECONCILE_TIMEOUT_MS
            ) as client:
                found = differences(client, topic_specs(self._assets))
        except (LogServiceError, SettingsError) as error:
            self._complain_of_topics([f"the declared topics were not looked at: {error}"])
            return
        self._complain_of_topics([one for each in found.values() for one in each])

    def reconcile_topics(self) -> None:
        """Create the declared topics before a producer does, and alter existing ones to match.

        A broker would create a topic with its own defaults. If the log service does not respond,
        the server runs on, and a later check tries again.
        """
        try:
            with connect(
                load_settings().bootstrap_servers, timeout_ms=RECONCILE_TIMEOUT_MS
            ) as client:
                changes = reconcile_all(client, topic_specs(self._assets))
        except (LogServiceError, SettingsError) as error:
            self._are_topics_settled = False
            self._complain_of_topics([f"the declared topics were not looked at: {error}"])
            return
        for topic, change in changes.items():
            if change.is_change:
                self._logger.info("topic %s: %s", topic, change.summary)
        notes = [note for change in changes.values() for note in change.notes]
        self._are_topics_settled = not notes
        self._complain_of_topics(notes)

    def _complain_of_topics(self, sentences: Sequence[str]) -> None:
        if self._complaints.replace(TOPICS, sentences):
            for sentence in sentences:
                self._logger.warning("%s", sentence)

    def look_after(self, ended: threading.Event) -> None:
        """Check topics and assets every few seconds, until ``ended`` is set."""
        with ExitStack() as opened:
            failing: FailingAssets | None = None
            count = 0
            while not ended.wait(LOOK_INTERVAL_S):
                count += 1
                try:
                    if failing is None and self._home is not None:
                        failing = FailingAssets(opened.enter_context(open_instance(self._home)))
                    self.look(failing, is_turn_of_topics=count % LOOKS_PER_RECONCILE == 0)
                except Exception:
                    # What Dagster's storage raises is of many kinds, and the next look may do.
                    self._logger.exception("what is wrong with the project cannot be looked at")

    def look(self, failing: FailingAssets | None, *, is_turn_of_topics: bool) -> None:
        """Check assets once, and topics if ``is_turn_of_topics``.

        If topics could not be created or altered before, try that again.
        """
        if is_turn_of_topics:
            self.look_at_topics() if self._are_topics_settled else self.reconcile_topics()
        if failing is not None:
            self._complaints.replace(
                ASSETS,
                failing.look({key for asset in self._assets for key in asset.keys}, self._retries),
            )
