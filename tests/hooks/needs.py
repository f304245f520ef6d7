"""What a test with GitHub's hooks needs, and where it does not run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kwok.server import missing

HOOKS = Path(os.environ.get("GPU_CI_HOOKS") or "-")
_LACKS = [*missing("kube-scheduler", "node", "unshare"), *([] if HOOKS.is_file() else ["GPU_CI_HOOKS"])]
NEEDS = [
    pytest.mark.hooks,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(_LACKS), reason=f"not on PATH, or not set: {', '.join(_LACKS)}"),
]
