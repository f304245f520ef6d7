"""Exactly one advertiser of a pool's GPUs, on nodes that have or get a driver that drives them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from fleet.facts import hardware, versions
from fleet.facts.node_image import NODE_IMAGES
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON, EnabledPool, advertisers, require_enablement
from fleet.settings.operator import OperatorSettings
from tests.builders import pool_of
from tests.cases import cases

ENABLEMENTS = (DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON)
OLD = "580.159.03"


def held(image: str, driver: str | None = None, **changes: Any) -> EnabledPool:
    """A pool of g4dn.2xlarge on nodes with a kind of image and its driver; `changes` replace keys of the pool."""
    return EnabledPool(pool_of(**changes), NODE_IMAGES[image], driver)


def operator(**settings: Any) -> OperatorSettings:
    """The operator's settings as a stack file gives them."""
    return OperatorSettings.model_validate_json(json.dumps(settings))


def refused(enablement: str, settings: OperatorSettings | None, **pools: EnabledPool) -> tuple[str, str, Any]:
    """(path, message, value) of the one error."""
    with pytest.raises(PydanticCustomError) as caught:
        require_enablement(enablement, settings, pools)
    context = caught.value.context or {}
    return ".".join(context["at"]), caught.value.message(), context.get("value")


@pytest.mark.parametrize("enablement", ENABLEMENTS)
def test_an_image_with_a_driver_has_one_advertiser_under_every_enablement(enablement: str) -> None:
    for image in ("al2023-nvidia", "oke-gpu", "talos"):
        assert len(list(advertisers(enablement, NODE_IMAGES[image]))) == 1
        require_enablement(enablement, None, {"t4": held(image)})


@pytest.mark.parametrize(
    ("enablement", "chart"),
    [
        (DEVICE_PLUGIN, "the device plugin's chart"),
        (GPU_OPERATOR, "the GPU operator"),
        (GPU_PLUGIN_ADDON, "OKE's add-on NvidiaGpuPlugin"),
    ],
)
def test_an_image_with_a_plugin_of_its_own_is_a_second_advertiser_whatever_the_first(enablement: str, chart: str) -> None:
    assert refused(enablement, None, t4=held("bottlerocket-nvidia")) == (
        "pools.t4.image",
        f"{chart} and the node image bottlerocket-nvidia would both advertise this pool's GPUs; "
        "use an image without its own device plugin",
        "bottlerocket-nvidia",
    )


@pytest.mark.parametrize("image", ["ubuntu", "passthrough"])
def test_an_image_without_driver_needs_the_operator(image: str) -> None:
    require_enablement(GPU_OPERATOR, None, {"t4": held(image)})
    for enablement in (DEVICE_PLUGIN, GPU_PLUGIN_ADDON):
        where, message, value = refused(enablement, None, t4=held(image))
        assert (where, value) == ("pools.t4.image", image)
        assert message.endswith("use an image with one, or enablement: gpu-operator")


def test_a_vgpu_guest_needs_a_licence_and_a_private_driver() -> None:
    licensed = operator(driver={"licenseSecret": "vgpu", "repository": "registry.example.com/vgpu"})
    require_enablement(GPU_OPERATOR, licensed, {"t4": held("vgpu-guest")})
    assert refused(GPU_OPERATOR, operator(), t4=held("vgpu-guest")) == (
        "pools.t4.image",
        "image vgpu-guest needs a licensed driver; set operator.driver.licenseSecret and repository",
        "vgpu-guest",
    )


def test_the_driver_that_counts_is_the_images_or_else_the_operators() -> None:
    v100 = {"instanceTypes": ["p3.2xlarge"]}
    require_enablement(DEVICE_PLUGIN, None, {"v100": held("oke-gpu", OLD, **v100)})
    require_enablement(GPU_OPERATOR, operator(driver={"version": OLD}), {"v100": held("ubuntu", None, **v100)})
    where = "V100 (p3.2xlarge) works with driver branch R580 or older; "
    assert refused(DEVICE_PLUGIN, None, v100=held("oke-gpu", "595.58.03", **v100)) == (
        "pools.v100.instanceTypes",
        where + "use a driver of that branch",
        "595.58.03",
    )
    newer = operator(driver={"version": "595.58.03"})
    assert refused(GPU_OPERATOR, newer, v100=held("ubuntu", None, **v100)) == (
        "operator.driver.version",
        where + "use a driver of that branch",
        "595.58.03",
    )
    assert refused(GPU_OPERATOR, None, v100=held("ubuntu", None, **v100)) == (
        "pools.v100.image",
        where + "this is the default of operator.driver.version; set another",
        versions.OPERATOR_DRIVER,
    )


@pytest.mark.parametrize("machine", ["p3.2xlarge", "VM.GPU2.1", "BM.GPU.B200.8"])
def test_a_gpu_that_not_every_driver_drives_needs_to_know_the_images(machine: str) -> None:
    gpu = hardware.machine(machine).gpu
    assert gpu is not None
    branches = {
        "V100": "V100 (p3.2xlarge) works with driver branch R580 or older",
        "P100": "P100 (VM.GPU2.1) works with driver branch R580 or older",
        "B200": "B200 (BM.GPU.B200.8) needs driver branch R570 or newer",
    }[gpu.name]
    pool = pool_of(instanceTypes=[machine])
    for enablement in ENABLEMENTS:
        named = EnabledPool(pool, NODE_IMAGES["oke-gpu"], None, ("nodeImages", "oke-gpu", "driver"))
        assert refused(enablement, None, old=named) == (
            "nodeImages.oke-gpu.driver",
            f"{branches}, and the driver of image oke-gpu is not known; set nodeImages.oke-gpu.driver",
            None,
        )
        # Where no setting can give the driver, the plan reports the pool as undeterminable.
        require_enablement(enablement, None, {"old": EnabledPool(pool, NODE_IMAGES["oke-gpu"], None)})


@pytest.mark.parametrize("machine", ["g4dn.2xlarge", "VM.GPU.A10.1", "BM.GPU.H100.8"])
def test_a_gpu_that_every_driver_drives_may_have_one_that_nobody_named(machine: str) -> None:
    for enablement in ENABLEMENTS:
        require_enablement(enablement, None, {"any": held("oke-gpu", None, instanceTypes=[machine])})


def test_the_drivers_place_is_the_callers_where_it_has_one() -> None:
    named = EnabledPool(pool_of(instanceTypes=["p3.2xlarge"]), NODE_IMAGES["oke-gpu"], "595.58.03", ("nodeImages", "oke-gpu"))
    assert refused(GPU_PLUGIN_ADDON, None, v100=named)[0] == "nodeImages.oke-gpu"


def test_settings_of_the_operator_need_the_operator() -> None:
    for enablement in (DEVICE_PLUGIN, GPU_PLUGIN_ADDON):
        where, message, _ = refused(enablement, operator(), t4=held("oke-gpu"))
        assert where == "operator"
        assert message == "operator belongs to enablement gpu-operator; remove it, or set enablement: gpu-operator"


@pytest.mark.parametrize(
    ("settings", "what"), [({"driver": {"version": OLD}}, "driver"), ({"containerd": {"socket": "/run/c.sock"}}, "toolkit")]
)
def test_what_the_images_bring_has_no_settings_of_the_operator(settings: dict[str, Any], what: str) -> None:
    (key,) = settings
    require_enablement(GPU_OPERATOR, operator(**settings), {})
    require_enablement(GPU_OPERATOR, operator(**settings), {"t4": held("ubuntu")})
    assert refused(GPU_OPERATOR, operator(**settings), t4=held("al2023-nvidia", OLD))[:2] == (
        f"operator.{key}",
        f"every pool's image contains its own {what}, so the operator installs none; remove {key}",
    )


def test_pools_under_the_operator_agree_on_cdi_and_image_and_others_need_not() -> None:
    plain, with_cdi = held("al2023-nvidia", OLD), held("al2023-nvidia", OLD, cdi=True)
    require_enablement(GPU_OPERATOR, None, {"a": with_cdi, "b": with_cdi})
    require_enablement(DEVICE_PLUGIN, None, {"a": plain, "b": with_cdi, "c": held("oke-gpu")})
    assert refused(GPU_OPERATOR, None, a=plain, b=with_cdi)[0] == "pools.b.cdi"
    assert refused(GPU_OPERATOR, None, a=with_cdi, b=plain)[2] is False
    assert refused(GPU_OPERATOR, None, a=plain, b=held("ubuntu"))[0] == "pools.b.image"
    # The same of driver and toolkit, but one of them elsewhere on the host.
    assert refused(GPU_OPERATOR, None, a=plain, b=held("talos"))[0] == "pools.b.image"


def test_the_add_on_of_oke_knows_no_cdi() -> None:
    assert refused(GPU_PLUGIN_ADDON, None, a10=held("oke-gpu", cdi=True)) == (
        "pools.a10.cdi",
        "OKE's add-on does not use CDI; remove cdi, or use enablement: device-plugin",
        True,
    )


def cut(naming: str) -> EnabledPool:
    """An A100 pool in parts."""
    sharing = {"strategy": "mig", "profile": "1g.5gb", "naming": naming}
    return held("al2023-nvidia", OLD, instanceTypes=["p4d.24xlarge"], sharing=sharing)


def test_the_operator_names_mig_parts_in_one_way_whatever_pools_are_beside() -> None:
    whole = held("al2023-nvidia", OLD)
    for naming in ("single", "mixed"):
        require_enablement(GPU_OPERATOR, None, {"a": cut(naming), "t4": whole, "b": cut(naming)})
    assert refused(GPU_OPERATOR, None, a=cut("single"), t4=whole, b=cut("mixed")) == (
        "pools.b.sharing.naming",
        "the operator names all MIG partitions in one way, and pool a has single; write the same",
        "mixed",
    )


@cases(
    ("enablement", "strategy", "able"),
    [
        (GPU_PLUGIN_ADDON, "time-slicing", "device-plugin or gpu-operator"),
        (GPU_PLUGIN_ADDON, "mps", "device-plugin or gpu-operator"),
        (GPU_PLUGIN_ADDON, "mig", "gpu-operator"),
        (DEVICE_PLUGIN, "mig", "gpu-operator"),
    ],
)
def test_gpus_are_shared_only_where_something_shares_them(enablement: str, strategy: str, able: str) -> None:
    sharing = {"strategy": strategy} | ({"profile": "1g.5gb"} if strategy == "mig" else {"replicas": 2})
    a100 = held("al2023-nvidia", OLD, instanceTypes=["p4d.24xlarge"], sharing=sharing)
    assert refused(enablement, None, a100=a100) == (
        "pools.a100.sharing.strategy",
        f"sharing by {strategy} works only with enablement {able}; use that, or remove sharing",
        strategy,
    )
