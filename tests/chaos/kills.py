"""Kill -9 of a loaded node, again and again, and a verdict on all that its clients were told."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.load import (
    PARTITION_COUNT,
    TOPIC,
    ConfluentWriter,
    OurWriter,
    Reader,
    Writer,
    wait_for_readers,
)
from tests.chaos.verdicts import commits_of, commits_stand, group_got_everything, judge, read_log
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import create_topic

PROPERTIES = {
    "log.flush.interval.messages": "1",
    "log.segment.bytes": "1048576",
    "group.min.session.timeout.ms": "500",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "500",
}
DRAIN_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The result of a loop of kills."""

    kill_count: int = 0
    seconds: float = 0.0
    record_count: int = 0
    acknowledged_count: int = 0
    commit_count: int = 0
    start_seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        slowest = max(self.start_seconds, default=0.0)
        lines = [
            f"{self.kill_count} kills in {self.seconds:.0f} s, slowest start {slowest:.1f} s: {self.record_count} records in the log, "
            f"{self.acknowledged_count} acknowledged, commits up to {self.commit_count}; {len(self.faults)} faults",
            *self.faults[:20],
        ]
        return "\n  ".join(lines)


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill a loaded node so many times, then let everybody finish, and judge."""
    rng, outcome, begun = Random(f"kills {seed}"), Outcome(), time.monotonic()
    with BrokerProcess(folder, properties=PROPERTIES) as broker:
        create_topic(broker.bootstrap, TOPIC, PARTITION_COUNT)
        writers: list[Writer] = [
            ConfluentWriter("rdkafka", broker.bootstrap, seed),
            OurWriter("ours", broker.bootstrap, seed),
        ]
        readers = [Reader("first", broker.bootstrap), Reader("second", broker.bootstrap)]
        for client in [*writers, readers[0]]:
            client.start()
        for number in range(kills):
            time.sleep(rng.choice((0.1, 0.3, 0.6, 1.0, 2.0)) * rng.uniform(0.3, 1.0))
            broker.kill()
            outcome.kill_count += 1
            restarted = time.monotonic()
            broker.start()
            outcome.start_seconds.append(time.monotonic() - restarted)
            if number == kills // 2:
                readers[1].start()  # late, so that partitions change hands
        for writer in writers:
            writer.stop()
        log = read_log(broker.bootstrap)
        wait_for_readers(log, readers, DRAIN_SECONDS)
        for reader in readers:
            reader.stop()
        outcome.faults += [
            *judge(log, writers, readers),
            *group_got_everything(log, readers),
            *commits_stand(broker.bootstrap, readers),
        ]
        broker.kill()
        broker.start()
        again = read_log(broker.bootstrap)
        if again != log:
            lost, more = (
                sorted(log.keys() - again.keys())[:5],
                sorted(again.keys() - log.keys())[:5],
            )
            outcome.faults.append(
                f"one more kill, of an idle node, changed the log: {len(log)} to {len(again)} records, lost {lost}, more {more}"
            )
        if "Traceback" in broker.log:
            outcome.faults.append(
                f"a traceback: {broker.log[broker.log.index('Traceback') :][:1_500]}"
            )
    outcome.record_count = len(log)
    outcome.acknowledged_count = sum(len(writer.acknowledged) for writer in writers)
    outcome.commit_count = sum(commits_of(readers).values())
    outcome.seconds = time.monotonic() - begun
    return outcome
