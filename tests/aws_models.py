"""The models of AWS's services, some MiB each: import this where clients are made, and none reads a file again."""

from functools import cache
from typing import Any

import botocore.loaders

_read = cache(botocore.loaders.JSONFileLoader().load_file)


def _load_file(_: Any, path: str) -> Any:
    return _read(path)


botocore.loaders.JSONFileLoader.load_file = _load_file
