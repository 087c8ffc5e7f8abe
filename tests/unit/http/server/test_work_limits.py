"""WorkLimits of work that takes long: one person leaves room for others."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from log_service.http.server.values import HttpError
from log_service.http.server.work_limits import WorkLimits


class Workers:
    """Tasks of people that hold places until the test ends."""

    def __init__(self, nursery: trio.Nursery, places: WorkLimits) -> None:
        self._nursery = nursery
        self._places = places
        self.running: list[str] = []
        self.refused: list[str] = []

    async def begin(self, user: str, count: int) -> None:
        for _ in range(count):
            self._nursery.start_soon(self._work, user)
        await wait_all_tasks_blocked()

    async def _work(self, user: str) -> None:
        try:
            async with self._places.one_of(user):
                self.running.append(user)
                await trio.sleep_forever()
        except HttpError:
            self.refused.append(user)


@pytest.mark.parametrize(("is_patient", "refused"), [(True, 6), (False, 8)])
def test_one_person_leaves_room_for_others(*, is_patient: bool, refused: int) -> None:
    async def run() -> None:
        places = WorkLimits(most=8, most_of_one=2, is_patient=is_patient)
        async with trio.open_nursery() as nursery:
            workers = Workers(nursery, places)
            await workers.begin("ann", 10)
            assert workers.running == ["ann"] * 2
            assert workers.refused == ["ann"] * refused
            for user in ("bob", "carl", "dora"):
                await workers.begin(user, 2)
            assert len(workers.running) == 8
            with pytest.raises(HttpError):
                places.check("ann")
            nursery.cancel_scope.cancel()
        places.check("ann")

    trio.run(run)


def test_without_logins_one_may_take_all() -> None:
    async def run() -> None:
        async with trio.open_nursery() as nursery:
            workers = Workers(nursery, WorkLimits(most=4, most_of_one=1))
            await workers.begin("", 12)
            assert (len(workers.running), len(workers.refused)) == (4, 4)
            nursery.cancel_scope.cancel()

    trio.run(run)


def test_a_place_is_free_after_its_work() -> None:
    async def run() -> None:
        places = WorkLimits(most=1, most_of_one=1, is_patient=False)
        for user in ("ann", "bob", "ann"):
            async with places.one_of(user):
                with pytest.raises(HttpError) as refused:
                    places.check("carl")
                assert refused.value.status == 503
                assert refused.value.headers
                assert "end some" in refused.value.text or "too many people" in refused.value.text
        assert "WorkLimits" in repr(places)

    trio.run(run)
