"""The group coordinator's decisions: the classic protocol's groups and their committed offsets. No input or output."""
