"""The owner of a GitHub scope, and the example values that a stack file still has."""

from __future__ import annotations

import pytest

from fleet.settings.github import GitHub

OWN = {"url": "https://github.com/acme", "appId": "1047291", "installationId": "58930417"}
EXAMPLE = {"url": "https://github.com/example", "appId": "123456", "installationId": "12345678"}


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


@pytest.mark.parametrize("key", EXAMPLE)
def test_an_example_value_is_named_until_it_is_replaced(key: str) -> None:
    (remark,) = GitHub.model_validate(OWN | {key: EXAMPLE[key]}).remarks
    assert remark == f"github: example values ({key}), and no runner can register with them; set your own before pulumi up"


def test_a_repository_of_the_example_is_an_example_too() -> None:
    (remark,) = GitHub.model_validate(OWN | {"url": "https://github.com/example/tools"}).remarks
    assert "(url)" in remark
    assert GitHub.model_validate(OWN).remarks == ()
