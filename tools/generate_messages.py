"""Writes log_service/protocol/messages and log_service/protocol/stored.

    python -m tools.generate_messages            write the modules
    python -m tools.generate_messages --check    name outdated modules, and fail if there are any

A row in ``api_versions.KNOWN`` makes the module of an API. Its schema is one of kafka-python's, or
a file in ``tools/schemas`` where kafka-python has none. All other modules are listed below.
CONTRIBUTING.md lists what else a new API needs.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from log_service.protocol.api_versions import KNOWN, ApiSpec
from tools.message_facts import load_message
from tools.message_modules import ModuleFacts, render_module

PROTOCOL = Path(__file__).parent.parent / "log_service" / "protocol"

API_TITLE = "{name} (API key {key}): request and response."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePlan:
    """A module of messages that are not those of one API."""

    path: str
    title: str
    names: tuple[str, ...]
    union: str | None = None


OTHER_MODULES = (
    ModulePlan(
        path="messages/headers.py",
        title="Headers of requests and responses, as messages of their own.",
        names=("RequestHeader", "ResponseHeader"),
    ),
    ModulePlan(
        path="messages/consumer_protocol.py",
        title=(
            "What classic consumers put inside JoinGroup and SyncGroup: subscription and"
            " assignment."
        ),
        names=("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    ),
    ModulePlan(
        path="stored/metadata_records.py",
        title=(
            "Records of the cluster's metadata log: every kind that Apache Kafka 4.3 writes or"
            " reads."
        ),
        names=(
            "RegisterBrokerRecord",
            "UnregisterBrokerRecord",
            "TopicRecord",
            "PartitionRecord",
            "ConfigRecord",
            "PartitionChangeRecord",
            "FenceBrokerRecord",
            "UnfenceBrokerRecord",
            "RemoveTopicRecord",
            "DelegationTokenRecord",
            "UserScramCredentialRecord",
            "FeatureLevelRecord",
            "ClientQuotaRecord",
            "ProducerIdsRecord",
            "BrokerRegistrationChangeRecord",
            "AccessControlEntryRecord",
            "RemoveAccessControlEntryRecord",
            "NoOpRecord",
            "ZkMigrationStateRecord",
            "RemoveUserScramCredentialRecord",
            "BeginTransactionRecord",
            "EndTransactionRecord",
            "AbortTransactionRecord",
            "RemoveDelegationTokenRecord",
            "RegisterControllerRecord",
            "ClearElrRecord",
        ),
        union="MetadataRecord",
    ),
    ModulePlan(
        path="stored/group_records.py",
        title=(
            "Keys and values of the group coordinator's log: committed offsets and classic groups."
        ),
        names=(
            "LegacyOffsetCommitKey",
            "LegacyOffsetCommitValue",
            "OffsetCommitKey",
            "OffsetCommitValue",
            "GroupMetadataKey",
            "GroupMetadataValue",
        ),
        union="GroupKey",
    ),
    ModulePlan(
        path="stored/consumer_group_records.py",
        title="Keys and values of consumer groups (KIP-848) in the group coordinator's log.",
        names=(
            "ConsumerGroupMetadataKey",
            "ConsumerGroupMetadataValue",
            "ConsumerGroupPartitionMetadataKey",
            "ConsumerGroupPartitionMetadataValue",
            "ConsumerGroupMemberMetadataKey",
            "ConsumerGroupMemberMetadataValue",
            "ConsumerGroupTargetAssignmentMetadataKey",
            "ConsumerGroupTargetAssignmentMetadataValue",
            "ConsumerGroupTargetAssignmentMemberKey",
            "ConsumerGroupTargetAssignmentMemberValue",
            "ConsumerGroupCurrentMemberAssignmentKey",
            "ConsumerGroupCurrentMemberAssignmentValue",
            "ConsumerGroupRegularExpressionKey",
            "ConsumerGroupRegularExpressionValue",
        ),
    ),
    ModulePlan(
        path="stored/share_group_records.py",
        title="Keys and values of share groups (KIP-932) in the group coordinator's log.",
        names=(
            "ShareGroupMetadataKey",
            "ShareGroupMetadataValue",
            "ShareGroupMemberMetadataKey",
            "ShareGroupMemberMetadataValue",
            "ShareGroupTargetAssignmentMetadataKey",
            "ShareGroupTargetAssignmentMetadataValue",
            "ShareGroupTargetAssignmentMemberKey",
            "ShareGroupTargetAssignmentMemberValue",
            "ShareGroupCurrentMemberAssignmentKey",
            "ShareGroupCurrentMemberAssignmentValue",
            "ShareGroupStatePartitionMetadataKey",
            "ShareGroupStatePartitionMetadataValue",
        ),
    ),
    ModulePlan(
        path="stored/streams_group_records.py",
        title="Keys and values of streams groups (KIP-1071) in the group coordinator's log.",
        names=(
            "StreamsGroupMetadataKey",
            "StreamsGroupMetadataValue",
            "StreamsGroupMemberMetadataKey",
            "StreamsGroupMemberMetadataValue",
            "StreamsGroupTargetAssignmentMetadataKey",
            "StreamsGroupTargetAssignmentMetadataValue",
            "StreamsGroupTargetAssignmentMemberKey",
            "StreamsGroupTargetAssignmentMemberValue",
            "StreamsGroupCurrentMemberAssignmentKey",
            "StreamsGroupCurrentMemberAssignmentValue",
            "StreamsGroupTopologyKey",
            "StreamsGroupTopologyValue",
        ),
    ),
    ModulePlan(
        path="stored/share_state_records.py",
        title=(
            "Keys and values of the share coordinator's log: what is delivered and acknowledged"
            " (KIP-932)."
        ),
        names=("ShareSnapshotKey", "ShareSnapshotValue", "ShareUpdateKey", "ShareUpdateValue"),
    ),
    ModulePlan(
        path="stored/transaction_records.py",
        title=(
            "Keys and values of the transaction coordinator's log: the state of each"
            " transactional id."
        ),
        names=("TransactionLogKey", "TransactionLogValue"),
    ),
    ModulePlan(
        path="stored/control_records.py",
        title=(
            "Values of control records: transaction markers, elections, ends of snapshots, voters"
            " of the quorum."
        ),
        names=(
            "EndTxnMarker",
            "LeaderChangeMessage",
            "SnapshotHeaderRecord",
            "SnapshotFooterRecord",
            "KRaftVersionRecord",
            "VotersRecord",
        ),
    ),
    ModulePlan(
        path="stored/producer_snapshot.py",
        title="Content of a producer snapshot: the producers of one partition.",
        names=("ProducerSnapshot",),
    ),
)


def modules() -> Iterator[tuple[Path, str]]:
    """Yield (path, source) of every generated module."""
    for spec in KNOWN.values():
        yield PROTOCOL / "messages" / f"{spec.module}.py", render_module(_api_module(spec))
    for plan in OTHER_MODULES:
        messages = tuple(load_message(name) for name in plan.names)
        yield (
            PROTOCOL / plan.path,
            render_module(ModuleFacts(title=plan.title, messages=messages, union=plan.union)),
        )


def _api_module(spec: ApiSpec) -> ModuleFacts:
    valid = (
        str(spec.min_version)
        if spec.min_version == spec.max_version
        else f"{spec.min_version}-{spec.max_version}"
    )
    title = API_TITLE.format(name=spec.name, key=spec.key.value)
    return ModuleFacts(
        title=title,
        messages=(
            load_message(f"{spec.name}Request", valid),
            load_message(f"{spec.name}Response", valid),
        ),
    )


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit status."""
    differing = [
        (path, source)
        for path, source in modules()
        if not path.exists() or path.read_text() != source
    ]
    if "--check" in arguments:
        for path, _ in differing:
            print(f"{path} is not what the generator writes; run python -m tools.generate_messages")
        return 1 if differing else 0
    for path, source in differing:
        path.write_text(source)
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
