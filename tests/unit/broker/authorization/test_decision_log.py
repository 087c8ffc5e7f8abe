"""The subject and the outcome of a decision choose its level in the audit log, as in Kafka."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from log_service.broker.authorization.decision_log import TRACE, DecisionLog
from log_service.common.access import AclOperation, AclResource, Principal
from log_service.security.acls.decision import DEFAULT_ALLOW, DEFAULT_DENY
from log_service.security.audit import LOGGER_NAME

LEVELS = {
    ("wanted", True): logging.DEBUG,
    ("wanted", False): logging.INFO,
    ("optional", True): logging.DEBUG,
    ("optional", False): TRACE,
    ("probe", True): TRACE,
    ("probe", False): TRACE,
}


@pytest.mark.parametrize(("kind", "is_allowed"), LEVELS)
def test_each_decision_has_its_level_and_is_counted(
    caplog: pytest.LogCaptureFixture, kind: str, *, is_allowed: bool
) -> None:
    caplog.set_level(TRACE, LOGGER_NAME)
    log = DecisionLog(lambda: 0)
    asker: Any = SimpleNamespace(
        principal=Principal("User", "ann"), written_host="h", api_name="Metadata"
    )
    decision = DEFAULT_ALLOW if is_allowed else DEFAULT_DENY
    getattr(log, f"note_{kind}")(asker, decision, AclOperation.DESCRIBE, AclResource.TOPIC, "t")
    assert [record.levelno for record in caplog.records if record.name == LOGGER_NAME] == [
        LEVELS[kind, is_allowed]
    ]
    assert (log.allowed_count, log.denied_count) == (int(is_allowed), int(not is_allowed))
