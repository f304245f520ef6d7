"""What GitHub Actions does when a workflow says nothing."""

DEFAULT_TIMEOUT = 360
"""Minutes after which GitHub ends a job that says nothing (docs.github.com, workflow syntax, timeout-minutes)."""
