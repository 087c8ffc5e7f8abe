"""A made-up batch goes the whole way, so that it warms up what a real one needs."""

from typing import Any

import pytest

from orchestration.transforms import rehearsal


def test_every_record_of_the_rehearsal_becomes_a_row(spark: Any) -> None:
    batch = rehearsal.compute(spark)

    assert batch.rows.num_rows == rehearsal.RECORDS
    assert batch.rejections == ()
    assert batch.filtered == 0


def test_without_a_warm_server_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_SPARK_REMOTE", raising=False)
    monkeypatch.setattr(rehearsal, "open_session", lambda _: pytest.fail("a session was opened"))

    rehearsal.rehearse()


def test_a_server_that_does_not_answer_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_SPARK_REMOTE", "sc://127.0.0.1:1")
    asked = []

    def refuse(settings: Any) -> None:
        asked.append(settings.spark_remote)
        raise ConnectionError("nobody listens there")

    monkeypatch.setattr(rehearsal, "open_session", refuse)

    rehearsal.rehearse()

    assert asked == ["sc://127.0.0.1:1"]
