"""The audit log reads as Apache Kafka's, and no client can write a line of it."""

from log_service.common.access import AclOperation, AclResource, Principal
from log_service.security.acls.decision import DEFAULT_DENY, SUPER_USER, Decision, Reason
from log_service.security.audit import audit_line
from tests.unit.security.acls import Acl

TED = Principal("User", "t")


def test_a_line_as_apache_kafka_writes_it() -> None:
    acl = Acl(resource_name="foo", principal="User:t", operation=8, permission_type=2)
    decision = Decision(is_allowed=False, reason=Reason.MATCHING_ACL, acl=acl)
    assert audit_line(
        TED,
        decision,
        AclOperation.DESCRIBE,
        "127.0.0.1",
        AclResource.TOPIC,
        "foo",
        "DeleteTopics",
        1,
    ) == (
        "Principal = User:t is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:foo for request = DeleteTopics"
        " with resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=foo, patternType=LITERAL,"
        " principal=User:t, host=*, operation=DESCRIBE, permissionType=DENY])"
    )


def test_the_other_rules() -> None:
    allowed = audit_line(
        TED,
        SUPER_USER,
        AclOperation.TWO_PHASE_COMMIT,
        "h",
        AclResource.TRANSACTIONAL_ID,
        "x",
        "InitProducerId",
        2,
    )
    assert allowed == (
        "Principal = User:t is Allowed operation = TWO_PHASE_COMMIT from host = h on resource = TransactionalId:LITERAL:x"
        " for request = InitProducerId with resourceRefCount = 2 based on rule SuperUser"
    )
    denied = audit_line(
        TED, DEFAULT_DENY, AclOperation.READ, "h", AclResource.GROUP, "g", "Heartbeat", 1
    )
    assert denied.endswith("based on rule DefaultDeny")


def test_a_name_cannot_forge_a_line() -> None:
    forged = "g\nPrincipal = User:root is Allowed\r\x1b[2J\u2028\x00"
    line = audit_line(
        Principal("User", "a\nb"),
        DEFAULT_DENY,
        AclOperation.READ,
        "h",
        AclResource.GROUP,
        forged,
        "Heartbeat",
        1,
    )
    assert line.isprintable()
    assert "User:a\\nb is" in line
    assert "Group:LITERAL:g\\nPrincipal = User:root is Allowed\\r\\x1b[2J\\u2028\\x00 for" in line
