"""What is the same in every test run: the examples of property tests (`make search` takes others), and the day of every plan."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.day import AS_OF

settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile("same")
os.environ["GPU_CI_AS_OF"] = AS_OF.isoformat()
