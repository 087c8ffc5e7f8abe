"""The client: producer, consumer and admin for trio, and the same three as blocking classes for threads."""
