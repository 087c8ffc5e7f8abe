"""The active controller: decides on topics, brokers, configs and producer ids, and writes each decision as metadata records."""
