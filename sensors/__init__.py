"""The example project's sensors: which of the platform's sensors run here, and how. What they decide is in ``orchestration.sensing``."""
