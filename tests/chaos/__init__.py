"""Chaos harms the processes and disks of a real node.

It plays kill -9 under load, and full, read-only and vanishing files.

    make chaos                    two hundred kills and every case of a disk (python -m tests.chaos --kills 200 --seed 1)

``load`` are the clients (confluent-kafka's and ours) and what they were told, ``verdicts`` judge
that against what the node holds, ``kills`` is the loop, ``disks`` are the cases. What they find is
a list of sentences; none is good.
"""
