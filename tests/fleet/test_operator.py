"""Settings of the GPU operator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from fleet.facts import versions
from fleet.settings.operator import OperatorSettings
from tests.cases import cases


def read(**settings: Any) -> OperatorSettings:
    """The settings as a stack file gives them."""
    return OperatorSettings.model_validate_json(json.dumps(settings))


def test_by_default_the_operator_installs_its_own_driver_and_makes_nvidia_the_default_runtime() -> None:
    settings = read()
    assert settings.driver.version == versions.OPERATOR_DRIVER
    assert (settings.driver.repository, settings.driver.pull_secrets, settings.driver.license_secret) == (None, (), None)
    assert (settings.containerd.config, settings.containerd.socket, settings.containerd.default_runtime) == (None, None, True)
    assert settings.service_monitor is False


def test_a_vgpu_driver_is_a_private_image_with_a_licence_by_name() -> None:
    driver = {"repository": "registry.example.com:5000/vgpu", "licenseSecret": "vgpu", "pullSecrets": ["registry"]}
    held = read(driver=driver).driver
    assert held.model_dump(by_alias=True) == driver | {"version": versions.OPERATOR_DRIVER, "pullSecrets": ("registry",)}


@pytest.mark.parametrize("repository", [{}, {"repository": "nvcr.io/nvidia"}])
def test_a_licence_without_a_private_repository_is_refused(repository: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="no public registry has a licensed vGPU driver; name your own in repository"):
        read(driver={"licenseSecret": "vgpu", **repository})


@pytest.mark.parametrize("text", ["nvcr.io/nvidia", "registry.example.com:5000/gpu/driver", "registry"])
def test_a_repository_is_a_path_without_tag(text: str) -> None:
    assert read(driver={"repository": text}).driver.repository == text


@cases("text", ["https://nvcr.io/nvidia", "nvcr.io/nvidia/driver:580", "nvcr.io/nvidia/", "NVCR.io", ""])
def test_what_is_no_registry_path_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="not a registry path without tag; write for example nvcr"):
        read(driver={"repository": text})


@cases("text", ["config.toml", "~/config.toml", "/etc/$(id)/config.toml", "/etc/a b", "/", ""])
def test_a_path_on_the_node_is_absolute_and_plain(text: str) -> None:
    assert read(containerd={"config": "/etc/containerd/config.toml"}).containerd.config == "/etc/containerd/config.toml"
    for key in ("config", "socket"):
        with pytest.raises(ValidationError, match="not an absolute path on the node; write for example"):
            read(containerd={key: text})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read().driver.version = "580.159.03"  # type: ignore[misc]
