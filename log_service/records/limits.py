"""How much checking batches may cost: of one request in all, and in one turn of the event loop.

Decides the bounds. Knows nothing of what is checked.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.records.compression import Codec, open_compressed

MAX_OPENED_BYTES = 256 << 20
"""Of the batches of one request, decompressed."""
MAX_ITEMS = 4 << 20
"""Records and headers of the batches of one request."""
MAX_BATCH_BYTES = 64 << 20
"""Of one batch, decompressed. Clients fill batches up to ``max.message.bytes``, which is 1 MiB unless a topic says otherwise."""
MAX_BATCH_RECORDS = 1 << 20
"""No client puts as many records into a batch: librdkafka's limit is a million."""
MIN_COUNT_AT_ONCE = 160
"""Steps of numpy cost more than a loop over fewer records."""

UNITS_PER_TURN = 1 << 20
UNITS_PER_ITEM = 20
UNITS_PER_ITEM_ALONE = 160  # in a loop
_UNITS_PER_BYTE_OF_BLOCKS = 16  # they may be tiny, and each takes a step of a loop


class Allowance:
    """How much the batches of one request may open to."""

    __slots__ = ("item_count", "opened_bytes")

    def __init__(self, opened_bytes: int = MAX_OPENED_BYTES, item_count: int = MAX_ITEMS) -> None:
        self.opened_bytes = opened_bytes
        self.item_count = item_count

    def open(self, codec: int, compressed: Buffer) -> Buffer:
        """Return what was compressed.

        Raises:
            KafkaError: as ``compression.open_compressed``; MESSAGE_TOO_LARGE, the batches of the request open to too many bytes.
        """
        plain = open_compressed(codec, compressed, min(self.opened_bytes, MAX_BATCH_BYTES))
        self.opened_bytes -= len(plain)
        return plain

    def take_items(self, count: int) -> None:
        """Note records or headers that are about to be checked.

        Raises:
            KafkaError: MESSAGE_TOO_LARGE, the request has more of them than it may have.
        """
        self.item_count -= count
        if self.item_count < 0:
            text = f"the request has more than {MAX_ITEMS} records and headers: send smaller requests"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def take_work(self, cost: int) -> None:
        """Note other work, in units of ``TurnRoom``."""


class NoRoomError(Exception):
    """A batch takes longer than one turn of the event loop may: check it in steps, elsewhere. Nothing was done."""


class TurnRoom(Allowance):
    """What may be checked in one turn of the event loop: some 3 ms of the slowest work.

    A unit is 3 ns: what it takes to decompress a byte with gzip.
    """

    __slots__ = ("left",)

    def __init__(self, left: int = UNITS_PER_TURN) -> None:
        super().__init__()
        self.left = left

    def take_work(self, cost: int) -> None:
        """Take room.

        Raises:
            NoRoomError: there is not enough, and none for anything after it either.
        """
        self.left -= cost
        if self.left < 0:
            raise NoRoomError

    def take_items(self, count: int) -> None:
        """Take room for records or headers. Raises as ``take_work``."""
        self.left -= count * (UNITS_PER_ITEM_ALONE if count < MIN_COUNT_AT_ONCE else UNITS_PER_ITEM)
        if self.left < 0:
            raise NoRoomError

    def open(self, codec: int, compressed: Buffer) -> Buffer:
        """Return what was compressed, if it has room. Raises as ``Allowance.open`` and ``take_work``."""
        self.take_work(len(compressed) * (_UNITS_PER_BYTE_OF_BLOCKS if codec in (Codec.SNAPPY, Codec.LZ4) else 1))
        try:
            plain = open_compressed(codec, compressed, self.left)
        except KafkaError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                self.left = -1
                raise NoRoomError from error
            raise
        self.left -= len(plain)
        return plain
