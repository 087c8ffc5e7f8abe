"""What admin clients are told of transactional ids: one described, or those listed that pass their filters (KIP-664, KIP-994, KIP-1152).

Decides which ids pass, and how a state is called. Patterns are those of RE2, as with Apache Kafka, and match whole ids. Ids are matched a
bounded piece of work at a time, because any client may list them, and one that matches many of them would hold up all others.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.regexes import is_match, program_size, validate_regex
from log_service.coordinator.transaction.transaction import Transaction, TransactionState
from log_service.protocol.messages.describe_transactions import TopicData
from log_service.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from log_service.protocol.messages.list_transactions import ListTransactionsRequest
from log_service.protocol.messages.list_transactions import TransactionState as ListedTransaction

MAX_PATTERN_SIZE = 2_000
"""Instructions of a pattern: an id may have 32,767 characters, and the match of one is not interrupted."""
WORK_PER_STEP = 40_000
"""Instructions of the pattern, for each id of a usual length."""
USUAL_LENGTH = 32
_STATES = {state.told: state for state in TransactionState}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which ids are asked for. Empty sets and an empty pattern let all pass, as a duration below 0 does."""

    states: frozenset[TransactionState]
    has_states: bool
    producer_ids: frozenset[int]
    longer_than_ms: int
    pattern: str

    def passes(self, transaction: Transaction, now_ms: int) -> bool:
        """Whether an id is told if it matches the pattern (``Search``). One without a transaction runs since time began, as with Kafka."""
        if self.has_states and transaction.state not in self.states:
            return False
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        return self.longer_than_ms < 0 or now_ms - transaction.start_ms > self.longer_than_ms


def filters_of(request: ListTransactionsRequest) -> Filters:
    """Return the filters of a request.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION, the pattern is none, or too large.
    """
    pattern = request.transactional_id_pattern or ""
    if pattern:
        validate_regex(pattern)
        if program_size(pattern) > MAX_PATTERN_SIZE:
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, "the pattern is too large: list fewer ids by one")
    return Filters(
        states=frozenset(_STATES[name] for name in request.state_filters if name in _STATES),
        has_states=bool(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        pattern=pattern,
    )


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Return the names in a request that no state has, each once."""
    return list(dict.fromkeys(name for name in request.state_filters if name not in _STATES))


def listed(transactions: Iterable[Transaction], filters: Filters, now_ms: int) -> Iterator[ListedTransaction]:
    """Yield the ids that pass, whether they match the pattern or not."""
    for each in transactions:
        if filters.passes(each, now_ms):
            yield ListedTransaction(transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state.told)


class Search:
    """Finds the ids that match a pattern; all of them where it is empty."""

    def __init__(self, pattern: str, ids: Iterable[ListedTransaction]) -> None:
        self._pattern = pattern
        self._left = deque(ids if pattern else ())
        self.found: list[ListedTransaction] = [] if pattern else list(ids)

    def take_step(self) -> bool:
        """Look at as many ids as one step may; whether these were the last ones."""
        work, size = WORK_PER_STEP, program_size(self._pattern) if self._left else 0
        while self._left and work > 0:
            each = self._left.popleft()
            if is_match(self._pattern, each.transactional_id):
                self.found.append(each)
            work -= size * (1 + len(each.transactional_id) // USUAL_LENGTH)
        return not self._left


def described(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    """Return one id with the partitions of its transaction; TRANSACTIONAL_ID_NOT_FOUND where it is not known."""
    if transaction is None:
        return DescribedTransaction(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics = groupby(sorted(transaction.partitions), attrgetter("topic"))
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.told,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=[each.partition for each in group]) for topic, group in topics],
    )
