"""The mirror lists its present faults, and forgets the past ones."""

import pytest

from log_service.mirror.complaints import LASTING_MS, MAX_COMPLAINTS, MAX_SHOWN, Complaints


def test_a_complaint_holds_for_a_while_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [0]
    complaints = Complaints("A->B", lambda: now[0])
    complaints.note("the first")
    now[0] = LASTING_MS - 1
    complaints.note("the first")
    complaints.note("the second")
    assert complaints.current() == ["A->B: the second", "A->B: the first"]
    assert caplog.messages == ["A->B: the first", "A->B: the second"]
    now[0] = 2 * LASTING_MS
    assert complaints.current() == []
    complaints.note("the first")
    assert caplog.messages[-1] == "A->B: the first", "new again"


def test_what_is_looked_at_every_ten_minutes_is_wrong_until_the_next_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0]
    complaints = Complaints("A->B", lambda: now[0], longest_pause_s=600)
    complaints.note("a config is refused")
    now[0] = 599_000
    assert complaints.current() == ["A->B: a config is refused"]
    now[0] = 605_000
    complaints.note("a config is refused")
    assert caplog.messages == ["A->B: a config is refused"]


def test_what_is_over_is_withdrawn_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints("A->B", lambda: 0)
    complaints.withdraw("never made")
    complaints.note("B is away")
    complaints.withdraw("B is away")
    complaints.withdraw("B is away")
    assert complaints.current() == []
    assert caplog.messages == ["A->B: B is away", "A->B: over: B is away"]


def test_complaints_are_bounded() -> None:
    complaints = Complaints("A->B", lambda: 0)
    for number in range(2 * MAX_COMPLAINTS):
        complaints.note(f"{number}")
    assert len(complaints.current()) == MAX_SHOWN
    assert complaints.current()[0] == f"A->B: {2 * MAX_COMPLAINTS - 1}"
