"""The asyncio classes, in real threads and real event loops."""
