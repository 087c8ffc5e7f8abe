"""A question about a topic where no broker responds."""

from pathlib import Path

import pytest

from orchestration.calls.ask import ask
from orchestration.log_client.protocol import LogServiceError
from orchestration.settings import load_settings


@pytest.mark.timeout(30)
def test_a_question_to_a_silent_log_service_ends_within_its_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(LogServiceError, match="TIDELOG_BOOTSTRAP_SERVERS names its address"):
        ask("SELECT * FROM topics.orders", settings=load_settings(), timeout_ms=200)
