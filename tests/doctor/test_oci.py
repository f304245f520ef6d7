"""The checks of OCI: the real SDK asks an endpoint on loopback, whose answers are made from the SDK's models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import oci
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fleet.providers.finding import Finding
from fleet.providers.fleet import Fleet
from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.doctor import findings
from fleet.providers.oke.provider import Oke
from tests.builders import WITH_PODS
from tests.doctor.fleets import edited, fixes, lines, shipped
from tests.doctor.loopback import Loopback, serve

TENANCY = "ocid1.tenancy.oc1..aaaa"
OWN = (("ocid1.tenancy.oc1..example", TENANCY), ("abcd:", "Qwer:"))
"""What makes prod's cluster one of that tenancy."""
SJC, IAD = "Qwer:US-SANJOSE-1-AD-1", "Qwer:US-ASHBURN-AD-2"


def checked(fleet: Fleet, *endpoint: str) -> Iterator[Finding]:
    """The findings for the OKE clusters of a fleet."""
    return findings({name: each for name, each in fleet.clusters_by_name() if isinstance(each, OkePools)}, *endpoint)


def wire(found: Any) -> Any:
    """A model of the SDK as the service sends it. The SDK's own model refuses an attribute that it does not have."""
    if isinstance(found, list):
        return [wire(each) for each in found]
    if not hasattr(found, "attribute_map"):
        return found
    values = {key: getattr(found, name) for name, key in found.attribute_map.items()}
    return {key: wire(value) for key, value in values.items() if value is not None}


def answers() -> dict[str, tuple[int, Any]]:
    """What a tenancy in which prod fits answers, by path."""
    identity, core, engine = oci.identity.models, oci.core.models, oci.container_engine.models
    regions = [("us-sanjose-1", False), ("us-ashburn-1", True)]
    subscriptions = [identity.RegionSubscription(region_name=name, is_home_region=home) for name, home in regions]
    shapes = [core.Shape(shape=each) for each in ("VM.GPU.A10.1", "VM.GPU.A10.2", "VM.Standard.E5.Flex")]
    addons = [
        engine.AddonOptionSummary(name="ClusterAutoscaler", versions=[engine.AddonVersions(version_number="v1.34.3")]),
        engine.AddonOptionSummary(name="NvidiaGpuPlugin", versions=[engine.AddonVersions(version_number="v0.17.0")]),
    ]
    found = {
        f"/20160918/tenancies/{TENANCY}/regionSubscriptions": subscriptions,
        "/20160918/availabilityDomains": [identity.AvailabilityDomain(name=each) for each in (SJC, IAD)],
        "/20190729/services/compute/limits/gpu-a10-count/": oci.limits.models.ResourceAvailability(available=990, used=10),
        "/20160918/shapes": shapes,
        "/20160918/images/": core.Image(display_name="Oracle-Linux-9.7-Gen2-GPU"),
        "/20180222/nodePoolOptions/all": engine.NodePoolOptions(kubernetes_versions=["v1.35.2", "v1.36.1"]),
        "/20180222/addonOptions": addons,
    }
    return {path: (200, wire(answer)) for path, answer in found.items()}


@cache
def key() -> bytes:
    """A new key, the same for all tests of a process."""
    return rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


LOADED = cache(oci.signer.load_private_key)
"""Each client of the SDK would check the key again, for a tenth of a second."""


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config file of the SDK with a key."""
    (tmp_path / "key.pem").write_bytes(key())
    values = {"user": "ocid1.user.oc1..aaaa", "fingerprint": ":".join(["aa"] * 16), "tenancy": TENANCY, "region": "us-ashburn-1"}
    config = "".join(f"{name}={value}\n" for name, value in values.items())
    (tmp_path / "config").write_text(f"[DEFAULT]\n{config}key_file={tmp_path / 'key.pem'}\n")
    for name in ("key.pem", "config"):
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OCI_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setattr(oci.signer, "load_private_key", LOADED)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return edited("prod", tmp_path_factory.mktemp("own"), *OWN, *WITH_PODS)


@pytest.fixture
def changed(account: None) -> dict[str, tuple[int, Any]]:
    """The answers, to change some."""
    return answers()


def ask(fleet: Any, given: dict[str, tuple[int, Any]]) -> tuple[list[Any], Loopback]:
    with serve(given) as server:
        return list(checked(fleet, server.url)), server


def test_a_fleet_that_fits_its_tenancy_is_ok(fleet: Any, changed: Any) -> None:
    found, _ = ask(fleet, changed)
    assert {each.state for each in found} == {"ok"}
    assert lines(found)[:6] == [
        f"ok: credentials: ocid1.user.oc1..aaaa of {TENANCY}",
        "ok: the tenancy subscribes to us-sanjose-1",
        "ok: the tenancy subscribes to us-ashburn-1",
        f"ok: us-sanjose-1 has {SJC}",
        f"ok: us-ashburn-1 has {IAD}",
        "ok: us-sanjose-1: limit gpu-a10-count: full pools and machine sets need 124 GPUs, the tenancy has 1000",
    ]
    assert f"ok: sjc: system pool: {SJC} offers VM.Standard.E5.Flex" in lines(found)
    assert f"ok: sjc: runner set oracle-vm-gpu-a10-2: {IAD} offers VM.GPU.A10.2" in lines(found)
    assert "ok: sjc: OKE offers ClusterAutoscaler v1.34.3 for Kubernetes v1.36.1" in lines(found)
    assert "ok: sjc: us-ashburn-1 has image Oracle-Linux-9.7-Gen2-GPU" in lines(found)


def test_every_request_only_reads(fleet: Any, changed: Any) -> None:
    _, server = ask(fleet, changed)
    assert len(server.asked) > 10
    assert {method for method, _ in server.asked} == {"GET"}


SMALL = oci.limits.models.ResourceAvailability(available=3, used=1)
OTHER_HOME = [
    oci.identity.models.RegionSubscription(region_name="us-sanjose-1", is_home_region=True),
    oci.identity.models.RegionSubscription(region_name="us-phoenix-1", is_home_region=False),
]


@pytest.mark.parametrize(
    ("path", "answer", "said", "fix"),
    [
        (
            "/20190729/services/compute/limits/gpu-a10-count/",
            SMALL,
            "us-sanjose-1: limit gpu-a10-count: full pools and machine sets need 124 GPUs, the tenancy has 4",
            "request an increase of gpu-a10-count in us-sanjose-1: the console",
        ),
        (
            "/20160918/availabilityDomains",
            [oci.identity.models.AvailabilityDomain(name="Zxcv:US-SANJOSE-1-AD-1")],
            f"us-sanjose-1 has no availability domain {SJC}",
            "write one of: Zxcv:US-SANJOSE-1-AD-1",
        ),
        (
            "/20160918/shapes",
            [oci.core.models.Shape(shape="VM.Standard.E5.Flex")],
            f"sjc: pool a10: {SJC} does not offer VM.GPU.A10.1",
            f"oci compute shape list --region us-sanjose-1 --compartment-id {TENANCY}",
        ),
        (
            "/20180222/nodePoolOptions/all",
            oci.container_engine.models.NodePoolOptions(kubernetes_versions=["v1.35.2"]),
            "sjc: OKE does not offer nodes of Kubernetes v1.36.1",
            "use another kubernetesVersion; OKE offers v1.35.2",
        ),
        (
            "/20180222/addonOptions",
            [],
            "sjc: OKE does not offer ClusterAutoscaler v1.34.3 for Kubernetes v1.36.1",
            "set addonVersions.ClusterAutoscaler to one of: none is on offer",
        ),
        (
            f"/20160918/tenancies/{TENANCY}/regionSubscriptions",
            OTHER_HOME,
            "the tenancy does not subscribe to us-ashburn-1",
            f"oci iam region-subscription create --tenancy-id {TENANCY} ",
        ),
        (
            f"/20160918/tenancies/{TENANCY}/regionSubscriptions",
            OTHER_HOME,
            "sjc: the tenancy's home region is us-sanjose-1, the only one where OCI takes policies",
            "set homeRegion: us-sanjose-1",
        ),
    ],
)
def test_what_does_not_fit_is_wrong_with_its_fix(fleet: Any, changed: Any, path: str, answer: Any, said: str, fix: str) -> None:
    found, _ = ask(fleet, changed | {path: (200, wire(answer))})
    (wrong,) = [each for each in found if each.state == "wrong" and each.said == said]
    assert wrong.fix.startswith(fix)


def test_an_image_that_nobody_finds_is_wrong(fleet: Any, changed: Any) -> None:
    changed["/20160918/images/ocid1.image.oc1.us-sanjose-1.examplegpu"] = (
        404,
        {"code": "NotAuthorizedOrNotFound", "message": "no"},
    )
    found, _ = ask(fleet, changed)
    assert [each.said for each in found if each.state == "wrong"] == [
        "sjc: us-sanjose-1 has no image ocid1.image.oc1.us-sanjose-1.examplegpu, or you may not read it"
    ]


def test_a_call_that_is_not_allowed_is_skipped_and_the_rest_is_checked(fleet: Any, changed: Any) -> None:
    changed["/20190729/"] = changed["/20190729/services/compute/limits/gpu-a10-count/"] = (
        403,
        {"code": "NotAllowed", "message": "no policy allows it"},
    )
    found, _ = ask(fleet, changed)
    (reason,) = [each.said for each in found if each.state == "skipped"]
    assert reason == "limits: get_resource_availability is answered 403 NotAllowed: no policy allows it"
    assert "ok: sjc: OKE offers nodes of Kubernetes v1.36.1" in lines(found)


@pytest.mark.parametrize("answer", [{}, [{}], "text"])
def test_answers_of_another_form_are_skipped(fleet: Any, changed: Any, answer: Any) -> None:
    found, _ = ask(
        fleet, {path: (200, each if path.endswith("Subscriptions") else answer) for path, (_, each) in changed.items()}
    )
    assert [each.state for each in found][:3] == ["ok"] * 3, "the credentials and the two regions"
    assert any("does not have the expected form" in each.said for each in found)


def test_a_limit_without_a_number_is_skipped(fleet: Any, changed: Any) -> None:
    changed["/20190729/services/compute/limits/gpu-a10-count/"] = 200, wire(oci.limits.models.ResourceAvailability(used=1))
    found, _ = ask(fleet, changed)
    assert "skipped: us-sanjose-1: limit gpu-a10-count: OCI does not say how many GPUs are available" in lines(found)


def test_a_key_that_oci_refuses_is_wrong(fleet: Any, changed: Any) -> None:
    changed[f"/20160918/tenancies/{TENANCY}/regionSubscriptions"] = (401, {"code": "NotAuthenticated", "message": "no such key"})
    found, _ = ask(fleet, changed)
    assert [each.state for each in found] == ["wrong", "skipped"]
    assert found[0].said == "credentials: list_region_subscriptions is answered 401 NotAuthenticated: no such key"
    assert fixes(found) == ["oci setup config"]


def test_another_tenancy_than_that_of_the_settings_is_wrong(changed: Any, tmp_path: Path) -> None:
    fleet = edited("prod", tmp_path, ("abcd:", "Qwer:"))
    found, _ = ask(fleet, changed)
    (wrong,) = [each for each in found if each.state == "wrong"]
    assert wrong.said == f"sjc: the settings name tenancy ocid1.tenancy.oc1..example, the credentials {TENANCY}"


def test_without_a_config_file_one_line_is_wrong_and_the_rest_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OCI_CONFIG_FILE", raising=False)
    first, second = checked(shipped("prod"))
    assert (first.state, first.fix, second.state) == ("wrong", "oci setup config", "skipped")


@pytest.mark.usefixtures("account")
def test_a_cloud_that_cannot_be_reached_is_skipped(fleet: Any) -> None:
    (only,) = checked(fleet, "http://127.0.0.1:9")
    assert only.state == "skipped"
    assert only.said.startswith("OCI cannot be reached")


def test_without_the_sdk_everything_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "oci", None)
    (only,) = checked(shipped("prod"))
    assert only.state == "skipped"
    assert only.said.endswith("make doctor installs it")


def test_a_stack_without_oke_asks_oci_nothing() -> None:
    assert [list(clouds) for provider, clouds in shipped("staging").by_provider() if isinstance(provider, Oke)] == []
