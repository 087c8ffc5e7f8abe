"""The example project's sensors: the platform's sensors that run here, with their settings.

``orchestration.sensing`` implements them.
"""
