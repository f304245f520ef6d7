"""The owner of a GitHub scope."""

from __future__ import annotations

import pytest

from fleet.settings.github import GitHub

OWN = {"url": "https://github.com/acme", "appId": "1047291", "installationId": "58930417"}


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://github.com/Acme-Robotics", "github.com/acme-robotics"),
        ("https://github.com/octo-lab/gpu-tests", "github.com/octo-lab"),
        ("https://ghe.example.net/acme", "ghe.example.net/acme"),
    ],
)
def test_the_owner_is_host_and_first_part_of_the_path(url: str, owner: str) -> None:
    assert GitHub.model_validate(OWN | {"url": url}).owner == owner
