"""The replicated log of metadata: quorum state, epochs, and the driver that appends, syncs and hands out what is committed."""
