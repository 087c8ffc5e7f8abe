"""Messages that are written into logs rather than sent: metadata, group, control and producer state records, generated."""
