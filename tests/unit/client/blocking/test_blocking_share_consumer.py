"""A share consumer for threads beside a scripted queue: what becomes of records where Ctrl-C comes."""

import os
import signal
import threading
import time
from functools import partial

import pytest

from log_service.client import BlockingShareConsumer
from tests.helpers.client_faces import portal_of
from tests.unit.client.asyncio.scripted import scripted_share_consumer


def test_leaving_that_is_interrupted_accepts_nothing_that_the_loop_did_not_hand_out() -> None:
    queue, consumer = scripted_share_consumer(BlockingShareConsumer)
    queue.deliver(0, [b"a", b"b", b"c"])
    consumer.__enter__()
    consumer.subscribe(["t"])
    for record in consumer:
        assert record.value == b"a"
        break
    # So that call and interruption reach the client's thread together.
    portal_of(consumer).post(partial(time.sleep, 1))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        consumer.__exit__(None, None, None)
    assert queue.said == [(0, 0, 0, (1,))]
