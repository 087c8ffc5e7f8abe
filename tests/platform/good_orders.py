"""A transform of the tests sends orders with an amount to a topic, twice each that is even.

A plain loop computes the same records.
"""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from orchestration.log_client.protocol import Sender
from orchestration.quality import fail, quarantine
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.to_topic.declarations import TopicTransform, group_of
from orchestration.transforms.to_topic.outgoing import sending
from orchestration.transforms.to_topic.run import Sending
from tests.platform.pipeline import ORDERS

GOOD_ORDERS = TopicSpec(
    name="good_orders", partitions=2, schema="id STRING NOT NULL, amount INT, copy INT"
)
RULES = (quarantine("amount_is_positive", "amount > 0"), fail("id_is_short", "length(id) < 20"))
GROUP = group_of("good_orders", None)


def good_orders(records: Any) -> Any:
    """Orders with an amount; an even one makes two records."""
    copies = "explode(if(amount % 2 = 0, array(0, 1), array(0))) AS copy"
    return records.where("id <> 'skipped'").selectExpr(
        "_topic_id", "_partition", "_offset", "_timestamp", "id", "amount", copies
    )


def orders_transform(**changes: Any) -> TopicTransform:
    table: dict[str, Any] = {
        "name": "good_orders",
        "topic": ORDERS,
        "function": good_orders,
        "rules": RULES,
    }
    table.update(
        {
            name: changes.pop(name)
            for name in ("function", "rules", "suite", "topic", "has_headers", "max_failed")
            if name in changes
        }
    )
    declared: dict[str, Any] = {"table": TopicTable(**table), "target": GOOD_ORDERS, "key": "id"}
    return TopicTransform(**{**declared, **changes})


def sending_of(
    transform: TopicTransform, sender: Sender, **changes: Any
) -> tuple[TopicTable, Sending]:
    """Return what ``Sending.run`` takes, and the run."""
    return transform.checked_by(sending(transform)), Sending(
        transform=transform, group_id=GROUP, sender=sender, **changes
    )


def expected_records(values: Iterable[bytes], least: int = 1) -> Counter[tuple[bytes, bytes]]:
    """Return keys and values that readers of committed records have to find, however the runs were
    cut.

    ``least`` is the smallest amount that is not rejected.
    """
    found: Counter[tuple[bytes, bytes]] = Counter()
    for value in values:
        try:
            order = json.loads(value)
        except ValueError:
            continue
        if order["amount"] < least or order["id"] == "skipped":
            continue
        for copy in range(1 if order["amount"] % 2 else 2):
            sent = {"id": order["id"], "amount": order["amount"], "copy": copy}
            found[order["id"].encode(), json.dumps(sent, separators=(",", ":")).encode()] += 1
    return found
