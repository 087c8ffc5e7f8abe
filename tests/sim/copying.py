"""Runs the transactional part with a cluster.

It casts the clients, waits until all is copied, and has it judged.

Decides when the copying counts as complete, and how long that may take once all is calm: what
clients left open has its timeout, and a coordinator looks for that at intervals.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

import trio

from log_service.common.errors import KafkaError
from tests.sim.copy_checker import CopyChecker
from tests.sim.copy_clients import LOOK_SECONDS, CopyClients
from tests.sim.node_checker import Violation
from tests.sim.node_history import Entry, Operation

MARGIN_SECONDS = 25.0
"""Beyond the timeout of transactions: a look for what timed out, a member's session, back-offs, and
what is left to copy.
"""
COPIED_TOPICS = ("rows", "__transaction_state", "__consumer_offsets")
"""What a run with copiers keeps besides its own topics."""

Begin = Callable[[Callable[[str], Awaitable[None]], str], None]


class Copying:
    """The transactions of one run. ``violations`` is what is wrong with them."""

    def __init__(self, cast: CopyClients, report: Callable[[str, str], None]) -> None:
        self.cast = cast
        self.plan = cast.plan
        skews = self.plan.skews_ms
        self.checker = CopyChecker(report, slack_seconds=(max(skews) - min(skews)) / 1_000)

    def note(self, entry: Entry) -> None:
        """Take an entry of the history."""
        self.checker.note(entry)

    def note_ended(self, operation: Operation) -> None:
        """Take an operation that has ended."""
        self.checker.note_ended(operation)

    def begin(self, begin: Begin, begin_reader: Begin) -> None:
        """Cast the clients: those who write end when it is over, all others when everything is
        copied.
        """
        for number in range(self.plan.writer_count):
            begin(self.cast.write, f"writer-{number}")
        for number in range(self.plan.usurper_count):
            begin(self.cast.usurp, f"usurper-{number}")
        for number in range(self.plan.copier_count):
            begin_reader(self.cast.copy, f"copier-{number}")
        for number in range(self.plan.committed_reader_count):
            begin_reader(self.cast.read, f"committed-{number}")
        begin_reader(self.cast.watch, "copy-watcher")

    async def drain(self) -> Violation | None:
        """Wait until all is copied and nothing is open, as long as there is progress."""
        limit_seconds = self.plan.transaction_timeout_seconds + MARGIN_SECONDS
        since, known = trio.current_time(), None
        while trio.current_time() < since + limit_seconds:
            try:
                missing = await self.cast.what_is_missing()
            except KafkaError as error:
                missing = str(error)
            if missing is None:
                return None
            if missing != known:
                since, known = trio.current_time(), missing
            await trio.sleep(LOOK_SECONDS)
        return Violation("no hanging transaction", f"after {limit_seconds:.0f} s of calm {known}")

    @property
    def counts(self) -> Counter[str]:
        """How many transactions ended in which way, as their clients know it."""
        counts = Counter(transact.outcome.value for transact in self.checker.transactions)
        counts["fenced"] = sum(transact.is_fenced for transact in self.checker.transactions)
        return counts
