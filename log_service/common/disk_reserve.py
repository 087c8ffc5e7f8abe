"""The free space that a broker reserves on a log directory's disk.

It is for metadata, checkpoints and indexes. The broker refuses appends while less is free.
"""

from typing import Final

DISK_RESERVE_BYTES: Final = 64 << 20
