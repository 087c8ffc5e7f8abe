"""Bounds on the cost of checking batches, per request and per turn of the event loop.

The module knows nothing of the checks.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.records.compression import Codec, open_compressed

MAX_OPENED_BYTES = 256 << 20
"""Maximum decompressed size of the batches of one request."""
MAX_ITEMS = 4 << 20
"""Maximum number of records and headers in the batches of one request."""
MAX_BATCH_BYTES = 64 << 20
"""Maximum decompressed size of one batch.

Clients fill batches up to ``max.message.bytes``, which is 1 MiB by default.
"""
MAX_BATCH_RECORDS = 1 << 20
"""Maximum number of records in a batch. No client reaches it; librdkafka's limit is a million."""
MIN_COUNT_AT_ONCE = 112
"""For fewer records steps of numpy cost more than a loop."""
MIN_COUNT_AT_ONCE_WITH_SCHEMAS = 100
"""The same for a log that validates schemas, because there a loop takes two rounds."""

UNITS_PER_TURN = 5 << 18  # a megabyte of records of 100 bytes; a unit is some 3.5 ns
UNITS_PER_ITEM = 20
UNITS_PER_ITEM_ALONE = 160  # in a loop
UNITS_PER_NUMBER_BYTE = 3  # of a record's numbers and lengths, which may be longer than they need
UNITS_PER_CHECK_AT_ONCE = 20_000  # the steps of numpy, however few records they are for
FEW_NUMBER_BYTES = 4_000
UNITS_PER_FEW_NUMBER_BYTES = 9  # more for the first ones: steps of numpy for a few long numbers
UNITS_PER_ROUND = 10_000  # a few steps of numpy, however few records they are for
_UNITS_PER_PART = 500  # a member of gzip or a block of snappy, however short
_UNITS_PER_BYTE_OF_BLOCKS = 16  # blocks may be tiny, and each takes a step of a loop


class Allowance:
    """Bounds on the decompressed size and the number of records of one request's batches."""

    __slots__ = ("item_count", "opened_bytes")

    def __init__(self, opened_bytes: int = MAX_OPENED_BYTES, item_count: int = MAX_ITEMS) -> None:
        self.opened_bytes = opened_bytes
        self.item_count = item_count

    def open(self, codec: int, compressed: Buffer) -> Buffer:
        """Return the decompressed bytes, and count them.

        Raises:
            KafkaError: as ``compression.open_compressed``; MESSAGE_TOO_LARGE, the batches of the
                request decompress to too many bytes.
        """
        plain = open_compressed(
            codec, compressed, min(self.opened_bytes, MAX_BATCH_BYTES), take_parts=self.take_parts
        )
        self.opened_bytes -= len(plain)
        return plain

    def take_items(self, count: int) -> None:
        """Count records or headers that are about to be checked.

        Raises:
            KafkaError: MESSAGE_TOO_LARGE, the request has too many of them.
        """
        self.item_count -= count
        if self.item_count < 0:
            text = (
                f"the request has more than {MAX_ITEMS} records and headers: send smaller requests"
            )
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def take_items_alone(self, count: int) -> None:
        """Count records or headers that are read one by one. Raises as ``take_items``."""
        self.take_items(count)

    def take_parts(self, count: int) -> None:
        """Count gzip members or snappy blocks, which take time even if they are empty.

        Raises as ``take_items``.
        """
        self.take_items(count)

    def for_repetition(self) -> "Allowance":
        """Return the allowance for repeating a check whose records are already counted."""
        return Allowance()

    def take_work(self, cost: int) -> None:
        """Accept other work. Only a ``TurnRoom`` counts it."""


class NoRoomError(Exception):
    """The check of a batch takes longer than one turn of the event loop may.

    Nothing was changed. Check the batch in steps outside the event loop.
    """


class TurnRoom(Allowance):
    """Work that may be done in one turn of the event loop: about 3 ms, and 20 ms at most.

    The maximum is reached if varints of the records are longer than necessary. A unit is 3 ns, the
    time to decompress a byte with gzip.
    """

    __slots__ = ("left",)

    def __init__(self, left: int = UNITS_PER_TURN) -> None:
        super().__init__()
        self.left = left

    def take_work(self, cost: int) -> None:
        """Use up ``cost`` units of the remaining work.

        Raises:
            NoRoomError: fewer units remain. Any later call raises, too.
        """
        self.left -= cost
        if self.left < 0:
            raise NoRoomError

    def take_items(self, count: int) -> None:
        """Use up the work of checking ``count`` items at once. Raises as ``take_work``.

        Items are records or headers.
        """
        self.take_work(count * UNITS_PER_ITEM)

    def take_items_alone(self, count: int) -> None:
        """Use up the work of reading ``count`` items one by one. Raises as ``take_work``.

        Items are records or headers.
        """
        self.take_work(count * UNITS_PER_ITEM_ALONE)

    def take_parts(self, count: int) -> None:
        """Use up the work of opening ``count`` gzip members or blocks. Raises as ``take_work``."""
        self.take_work(count * _UNITS_PER_PART)

    def for_repetition(self) -> Allowance:
        """Refuse to repeat a check in this turn of the event loop.

        Raises:
            NoRoomError: always.
        """
        raise NoRoomError

    def open(self, codec: int, compressed: Buffer) -> Buffer:
        """Return the decompressed bytes, and use up the work of decompressing them.

        Raises as ``Allowance.open`` and ``take_work``.
        """
        self.take_work(
            len(compressed)
            * (_UNITS_PER_BYTE_OF_BLOCKS if codec in (Codec.SNAPPY, Codec.LZ4) else 1)
        )
        try:
            plain = open_compressed(codec, compressed, self.left, take_parts=self.take_parts)
        except KafkaError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                self.left = -1
                raise NoRoomError from error
            raise
        self.left -= len(plain)
        return plain
