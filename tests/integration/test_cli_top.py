"""``tidelog top`` and shell completion against running clusters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.broker_process import BrokerThread
from tests.integration.command_line import SERVERS_VARIABLE, run
from tests.integration.confluent import consumer, produce, take


def complete(words: str, bootstrap: str, *, shell: str = "bash") -> list[str]:
    """Return the completions that a shell offers for the last word."""
    typed = words.split(" ")
    variables = {
        "_TIDELOG_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(typed) - 1),
    }
    finished = subprocess.run(
        [sys.executable, "-m", "log_service.cli.main"],
        env=os.environ | variables | {SERVERS_VARIABLE: bootstrap},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert finished.stderr == ""
    return [line.partition(",")[2] for line in finished.stdout.splitlines() if line]


def test_topics_groups_and_brokers_are_told(bootstrap: str, topic: str, name: str) -> None:
    produce(bootstrap, topic, [b"one", b"two", b"three"])
    member = consumer(bootstrap, name)
    member.subscribe([topic])
    take(member, 3)
    member.commit(offsets=[member.assignment()[0].__class__(topic, 0, 1)], asynchronous=False)
    told = json.loads(run(["top", "--json", "-n", "0.2"], bootstrap=bootstrap).output)
    member.close()
    assert told["brokers"][0]["broker"] == told["controller_id"]
    (found,) = [row for row in told["topics"] if row["topic"] == topic]
    assert (found["partitions"], found["records"], found["in"], found["under_replicated"]) == (
        1,
        3,
        0.0,
        0,
    )
    (group,) = [row for row in told["groups"] if row["group"] == name]
    assert (group["state"], group["members"], group["topics"], group["lag"]) == (
        "Stable",
        1,
        [topic],
        2,
    )


def test_one_screen_is_printed(bootstrap: str, topic: str) -> None:
    finished = run(
        ["top", "--once", "-n", "0.2", "--sort", "name", "-l", "1000"], bootstrap=bootstrap
    )
    assert finished.exit_code == 0
    assert finished.output.startswith("cluster ")
    assert topic[:8] in finished.output


def test_bytes_come_from_the_metrics_page(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, properties={"metrics.listener": "127.0.0.1:0"}) as broker:
        assert broker.broker.metrics_address is not None
        url = "http://{}:{}/metrics".format(*broker.broker.metrics_address)
        assert run(["produce", "orders"], bootstrap=broker.bootstrap, given="one\n").exit_code == 0
        told = json.loads(
            run(["top", "--json", "-n", "0.2", "--metrics", url], bootstrap=broker.bootstrap).output
        )
        (orders,) = told["topics"]
        assert (orders["topic"], orders["bytes_in"], orders["bytes_out"]) == ("orders", 0.0, 0.0)
        assert orders["size_bytes"] > 0
        wrong = run(
            ["top", "--once", "--metrics", url.replace("/metrics", "/")], bootstrap=broker.bootstrap
        )
    assert wrong.exit_code == 1
    assert "404" in wrong.errors


def test_a_page_that_is_none_is_refused(bootstrap: str) -> None:
    finished = run(["top", "--once", "--metrics", "file:///etc/passwd"], bootstrap=bootstrap)
    assert (finished.exit_code, finished.output) == (1, "")
    assert "not an address of a metrics page" in finished.errors


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str, bootstrap: str) -> None:
    finished = run(["completion", shell], bootstrap=bootstrap)
    assert finished.exit_code == 0
    assert f"_TIDELOG_COMPLETE={shell}_complete" in finished.output


def test_commands_topics_and_groups_are_completed(
    bootstrap: str, tidelog_bootstrap: str, topic: str, name: str
) -> None:
    assert {"topics", "top"} <= set(complete("tidelog to", bootstrap))
    assert topic in complete(f"tidelog topics describe {topic[:5]}", bootstrap)
    assert topic in complete(f"tidelog consume -b {bootstrap} {topic[:5]}", "127.0.0.1:1")
    assert (
        run(
            ["groups", "reset", name, "-t", topic, "--to-earliest", "--execute"],
            bootstrap=bootstrap,
        ).exit_code
        == 0
    )
    assert complete(f"tidelog groups describe {name}", bootstrap) == [name]


def test_nobody_there_completes_nothing() -> None:
    assert complete("tidelog topics describe a", "127.0.0.1:1") == []
