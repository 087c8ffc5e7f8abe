"""Every figure that tidelog claims, measured on the machine at hand: ``python -m benchmarks`` prints one table.

``broker_process`` starts a broker the one way there is; ``produce``, ``consume``, ``latency`` and ``to_table`` each measure one family of
figures and return rows (footprint is the broker's after their load); ``table`` prints them. Clients are other people's (confluent-kafka),
the broker is a process of its own, addresses are loopback. Throughput counts record values only. Figures of shared machines are noisy:
several rounds are run, and the median is printed beside the range.
"""
