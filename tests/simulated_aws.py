"""AWS as moto simulates it in this process. No credentials of the person who runs the tests reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests import aws_models  # noqa: F401 - it keeps what is read

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@contextmanager
def simulated_aws(region: str = "us-west-2") -> Iterator[Callable[..., Any]]:
    """Gives what makes the client of a service, in this region or another one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        # moto would make thousands of images for each region.
        for name, value in (KEYS | {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}).items():
            patch.setenv(name, value)
        with mock_aws():
            yield lambda service, place=region: boto3.client(service, region_name=place)
