"""A mirror's file sets allowed values, and a sentence refuses others."""

from pathlib import Path

import pytest

from log_service.common.errors import ConfigError
from log_service.mirror.settings import MirrorSettings
from log_service.mirror.settings_file import read_mirror_settings
from tests.unit.mirror.flows import flows_of, settings_of


def test_a_key_of_a_flow_holds_over_one_of_all_flows() -> None:
    here, there = flows_of(
        "topics = clicks",
        "sync.group.offsets.interval.seconds = 60",
        "A->B.enabled = true",
        "A->B.topics = orders, invoices\\\\..*",
        "B->A.enabled = true",
        "B->A.sync.group.offsets.enabled = false",
    )
    assert (here.name, here.topics, here.sync_groups_s, here.is_syncing_groups) == (
        "A->B",
        ("orders", r"invoices\..*"),
        60,
        True,
    )
    assert (there.name, there.topics, there.is_syncing_groups) == ("B->A", ("clicks",), False)
    assert here.selects_topic("invoices.2026")
    assert not here.selects_topic("invoices-2026")
    assert (here.offsets_topic, here.transactional_id) == (
        "mirror-offsets.A.internal",
        "tidelog-mirror.A.B",
    )


def test_what_is_excluded_or_internal_is_not_mirrored() -> None:
    (flow,) = flows_of("A->B.enabled = true", "A->B.topics.exclude = secret.*")
    assert [
        topic
        for topic in ("orders", "secrets", "__consumer_offsets", "mirror-offsets.C.internal", "B.x")
        if flow.selects_topic(topic)
    ] == ["orders"]
    assert flow.selects_group("billing")
    assert not flow.selects_group("console-consumer-17")
    assert flow.selects_config("retention.ms")
    assert not flow.selects_config("min.insync.replicas")


def test_a_cluster_has_the_settings_of_its_clients() -> None:
    (flow,) = flows_of(
        "A.security.protocol = SASL_PLAINTEXT",
        "A.sasl.mechanism = SCRAM-SHA-512",
        "A.sasl.username = mirror",
        "A.sasl.password = very-secret",
        "B.producer.compression.type = zstd",
        "A->B.enabled = true",
    )
    assert flow.source.client["sasl_username"] == "mirror"
    assert flow.target.client == {}
    assert (flow.source.compression, flow.target.compression) == ("none", "zstd")
    assert "very-secret" not in repr(flow)


def test_keys_of_mirrormaker_without_meaning_here_are_named() -> None:
    settings = settings_of(
        "A->B.enabled = true",
        "B->A.enabled = false",
        "tasks.max = 4",
        "A->B.emit.heartbeats.enabled = true",
    )
    assert settings.unused == ("A->B.emit.heartbeats.enabled", "tasks.max")
    assert [flow.name for flow in settings.flows] == ["A->B"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "enables no flow: write, say, A->B.enabled=true"),
        (["A->C.enabled = true"], "A->C.enabled names no flow: 'C' is not among its clusters"),
        (["A->A.enabled = true"], "A->A.enabled names no flow: it goes to where it comes from"),
        (["A->B.enabled = yes"], "A->B.enabled must be true or false, not 'yes'"),
        (
            ["A->B.enabled = true", "A->B.topic = orders"],
            "a flow has no key 'topic'; did you mean A->B.topics?",
        ),
        (["A->B.enabled = true", "A->B.topics = ("], "A->B.topics: "),
        (
            ["A->B.enabled = true", "replication.policy.class = Other"],
            "must be DefaultReplicationPolicy or IdentityReplicationPolicy",
        ),
        (
            ["A->B.enabled = true", "replication.policy.separator = /"],
            "must be of '.', '_' and '-', not '/'",
        ),
        (
            ["A->B.enabled = true", "commit.interval.ms = -1"],
            "must be a whole number from 0 to 10000, not '-1'",
        ),
        (
            ["A->B.enabled = true", "consumer.auto.offset.reset = none"],
            "must be earliest or latest, not 'none'",
        ),
        (
            ["A->B.enabled = true", "A.security.protocol = TLS"],
            "cluster A: security_protocol must be one of",
        ),
        (
            ["A->B.enabled = true", "producer.compression.type = best"],
            "cluster A: compression must be one of",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(lines: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings_of(*lines)
    assert sentence in str(refused.value)
    assert "mirror.properties" in str(refused.value)


@pytest.mark.parametrize(
    "policy", ["Identity", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"]
)
@pytest.mark.parametrize("topics", [".*", "orders"])
def test_two_directions_of_one_topic_are_refused_with_the_identity_policy(
    policy: str, topics: str
) -> None:
    lines = [
        f"replication.policy.class = {policy}",
        f"topics = {topics}",
        "A->B.enabled = true",
        "B->A.enabled = true",
    ]
    with pytest.raises(
        ConfigError, match=r"A->B and B->A would carry the topic .* round in a circle"
    ):
        settings_of(*lines)
    assert len(settings_of(*lines, "B->A.topics = clicks", "A->B.topics = orders").flows) == 2


@pytest.mark.parametrize("topics", [".*", "orders"])
def test_topics_of_two_sources_are_not_mixed_in_one(topics: str) -> None:
    lines = [f"topics = {topics}", "A->C.enabled = true", "B->C.enabled = true"]
    identity = "replication.policy.class = IdentityReplicationPolicy"
    with pytest.raises(
        ConfigError, match=r"A->C and B->C would mix the topics .* of their sources in one"
    ):
        settings_of(*lines, identity, aliases="A, B, C")
    assert len(settings_of(*lines, aliases="A, B, C").flows) == 2, "names tell them apart"
    assert len(settings_of(*lines, f"A->C.{identity}", aliases="A, B, C").flows) == 2
    assert (
        len(
            settings_of(
                *lines, identity, "B->C.topics = clicks", "A->C.topics = orders", aliases="A, B, C"
            ).flows
        )
        == 2
    )


@pytest.mark.parametrize(
    ("aliases", "sentence"),
    [("A", "two or more aliases"), ("A, A", "each once"), ("A, b.c", "'b.c'")],
)
def test_aliases_are_names(aliases: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        settings_of("A->B.enabled = true", aliases=aliases)


def test_a_cluster_without_servers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"write A.bootstrap.servers=host:port"):
        MirrorSettings.of("clusters = A, B\nA->B.enabled = true", "f")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: .*missing: No such file"):
        read_mirror_settings(tmp_path / "missing")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not a properties file in UTF-8"):
        read_mirror_settings(tmp_path / "latin")
