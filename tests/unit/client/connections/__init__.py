"""The view of the cluster."""
