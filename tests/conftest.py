"""Which examples property tests take: the same in every run, so that a red test is about the change; `make search` others."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile("same")
