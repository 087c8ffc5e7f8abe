"""The real file system keeps the contract of ``Files``.

Bytes that it sends by descriptor go over real sockets.
"""

from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.env import Connection, Files
from log_service.network.sockets import SocketNetwork
from log_service.storage.files import RealFiles
from tests.helpers.files_contract import FilesContract
from tests.helpers.network_contract import play, receive_exactly


class TestRealFiles(FilesContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    def files(self) -> Files:
        return RealFiles(pool_threads=2)


def test_slice_of_a_real_file_goes_through_a_real_socket(tmp_path: Path) -> None:
    content = Random(1).randbytes(2_000_000)

    async def scene(ours: Connection, theirs: Connection) -> None:
        file = RealFiles(pool_threads=1).open(tmp_path / "0.log")
        file.append_gathered([b"before", content])
        leased = file.slice(6, len(content))
        file.close()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_file, [b"header"], leased)
            assert await receive_exactly(theirs, 6 + len(content)) == b"header" + content
        leased.release()

    play(SocketNetwork(), scene)
