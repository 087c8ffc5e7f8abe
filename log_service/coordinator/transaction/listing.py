"""Views of transactional ids for admin clients (KIP-664, KIP-994, KIP-1152).

One id can be described, and ids can be listed by filters. This file decides which ids pass the
filters, and how states are named. As in Apache Kafka, patterns use the syntax of RE2 and match
whole ids. Ids are matched in bounded steps. Any client may list ids, and a match of many ids at
once would delay all other requests.
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
from log_service.protocol.messages.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from log_service.protocol.messages.list_transactions import ListTransactionsRequest
from log_service.protocol.messages.list_transactions import TransactionState as ListedTransaction

MAX_PATTERN_SIZE = 2_000
"""The largest number of instructions of a pattern.

The size is bounded, because an id may have 32,767 characters and one match is not interrupted.
"""
WORK_PER_STEP = 40_000
"""The bound of one step's work: instructions of the pattern, for each id of usual length."""
USUAL_LENGTH = 32
_STATES = {state.label: state for state in TransactionState}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a request.

    An empty set, an empty pattern and a negative duration let all ids pass.
    """

    states: frozenset[TransactionState]
    has_states: bool
    producer_ids: frozenset[int]
    longer_than_ms: int
    pattern: str

    def passes(self, transaction: Transaction, now_ms: int) -> bool:
        """Return whether an id passes all filters except the pattern.

        ``Search`` matches the pattern.

        As in Kafka, the duration of an id without a transaction counts from 1970. So such an id
        passes any usual filter of durations.
        """
        if self.has_states and transaction.state not in self.states:
            return False
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        return self.longer_than_ms < 0 or now_ms - transaction.start_ms > self.longer_than_ms


def filters_of(request: ListTransactionsRequest) -> Filters:
    """Return the filters of a request.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION, the pattern is invalid or too large.
    """
    pattern = request.transactional_id_pattern or ""
    if pattern:
        validate_regex(pattern)
        if program_size(pattern) > MAX_PATTERN_SIZE:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                "the pattern is too large: list fewer ids by one",
            )
    return Filters(
        states=frozenset(_STATES[name] for name in request.state_filters if name in _STATES),
        has_states=bool(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        pattern=pattern,
    )


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Return the state names in a request that do not exist, without duplicates."""
    return list(dict.fromkeys(name for name in request.state_filters if name not in _STATES))


def listed(
    transactions: Iterable[Transaction], filters: Filters, now_ms: int
) -> Iterator[ListedTransaction]:
    """Yield the transactional ids that pass all filters except the pattern."""
    for each in transactions:
        if filters.passes(each, now_ms):
            yield ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.label,
            )


class Search:
    """Collects the transactional ids that match a pattern, step by step.

    ``found`` holds them. An empty pattern matches all ids.
    """

    def __init__(self, pattern: str, ids: Iterable[ListedTransaction]) -> None:
        self._pattern = pattern
        self._left = deque(ids if pattern else ())
        self.found: list[ListedTransaction] = [] if pattern else list(ids)

    def take_step(self) -> bool:
        """Check a bounded number of ids. Return whether all ids have been checked."""
        work, size = WORK_PER_STEP, program_size(self._pattern) if self._left else 0
        while self._left and work > 0:
            each = self._left.popleft()
            if is_match(self._pattern, each.transactional_id):
                self.found.append(each)
            work -= size * (1 + len(each.transactional_id) // USUAL_LENGTH)
        return not self._left


def described(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    """Return the description of one id with the partitions of its transaction.

    If ``transaction`` is None, the description holds TRANSACTIONAL_ID_NOT_FOUND.
    """
    if transaction is None:
        return DescribedTransaction(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    topics = groupby(sorted(transaction.partitions), attrgetter("topic"))
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=[each.partition for each in group])
            for topic, group in topics
        ],
    )
