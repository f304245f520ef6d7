"""How a pool's GPUs become schedulable: exactly one advertiser of `nvidia.com/gpu`, on nodes with a driver."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Literal

from fleet.facts.node_image import NodeImage
from fleet.facts.record import Record
from fleet.settings import compatibility
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool
from fleet.settings.refusals import problem, refuse_if
from fleet.settings.sharing import Mig, Mps

DEVICE_PLUGIN = "device-plugin"
GPU_OPERATOR = "gpu-operator"
GPU_PLUGIN_ADDON = "gpu-plugin-addon"
Enablement = Literal["device-plugin", "gpu-operator"]

_SHARES = {
    "time-slicing": (DEVICE_PLUGIN, GPU_OPERATOR),
    "mps": (DEVICE_PLUGIN, GPU_OPERATOR),
    # Only the operator installs a MIG manager, which partitions the GPUs of a node by its label.
    "mig": (GPU_OPERATOR,),
}
"""The enablements that support a sharing strategy, by strategy."""


class EnabledPool(Record):
    """A pool, its kind of node image, and the version of the image's driver if it has one.

    `driver_at` is the path of that version in the settings, empty if no setting has it. `driver_fix` is the advice for a driver
    that does not support the pool's GPU, empty for the default advice.
    """

    pool: Pool
    image: NodeImage
    driver: str | None
    driver_at: tuple[str, ...] = ()
    driver_fix: str = ""


def require_enablement(enablement: str, operator: OperatorSettings | None, pools: Mapping[str, EnabledPool]) -> None:
    """Refuse settings under which a pool's GPUs have no driver, no advertiser, or two. Raises a settings problem."""
    refuse_if("operator_unused", operator is not None and enablement != GPU_OPERATOR, at=("operator",), gpu_operator=GPU_OPERATOR)
    for name, pool in pools.items():
        _require_one_advertiser(name, pool, enablement)
        _require_driver(name, pool, enablement, operator or OperatorSettings())
    if enablement == GPU_OPERATOR:
        _require_one_policy(pools, operator or OperatorSettings())


def advertisers(enablement: str, image: NodeImage) -> Iterator[str]:
    """Everything that would advertise the GPUs of a node with this image."""
    charts = {DEVICE_PLUGIN: "the device plugin's chart", GPU_OPERATOR: "the GPU operator"}
    yield (charts | {GPU_PLUGIN_ADDON: "OKE's add-on NvidiaGpuPlugin"})[enablement]
    if image.advertises:
        yield f"the node image {image.name}"


def _require_one_advertiser(name: str, held: EnabledPool, enablement: str) -> None:
    names = list(advertisers(enablement, held.image))
    refuse_if("two_advertisers", len(names) > 1, at=("pools", name, "image"), value=held.image.name, names=" and ".join(names))
    if held.pool.sharing is not None and enablement not in _SHARES[held.pool.sharing.strategy]:
        strategy, at = held.pool.sharing.strategy, ("pools", name, "sharing", "strategy")
        raise problem("sharing_enablement", at=at, value=strategy, enablements=" or ".join(_SHARES[strategy]))
    if enablement == GPU_PLUGIN_ADDON and held.pool.cdi:
        raise problem("addon_cdi", at=("pools", name, "cdi"), value=True, device_plugin=DEVICE_PLUGIN)


def _require_driver(name: str, held: EnabledPool, enablement: str, operator: OperatorSettings) -> None:
    image = held.image
    if not image.driver and enablement != GPU_OPERATOR:
        of_image = ("pools", name, "image")
        raise problem("image_without_driver", at=of_image, value=image.name, enablement=enablement, operator=GPU_OPERATOR)
    if image.licensed and operator.driver.license_secret is None:
        raise problem("vgpu_license", at=("pools", name, "image"), value=image.name)
    version, at, fix = _driver(name, held, operator)
    for machine in held.pool.machines:
        if version is not None:
            compatibility.require_driver(machine, version, at=at, fix=fix)
        elif held.driver_at and (limits := compatibility.limits(machine)):
            # Without a setting for it, the plan reports the pool as undeterminable instead.
            raise problem("driver_unknown", at=at, limits=limits, image=image.name, setting=".".join(at))


def _driver(name: str, held: EnabledPool, operator: OperatorSettings) -> tuple[str | None, tuple[str, ...], str]:
    """(version, path in the settings, advice) of the driver on a pool's nodes."""
    if held.image.driver:
        return held.driver, held.driver_at or ("pools", name, "instanceTypes"), held.driver_fix
    version = operator.driver.version
    if "version" in operator.driver.model_fields_set:
        return version, ("operator", "driver", "version"), ""
    return version, ("pools", name, "image"), "this is the default of operator.driver.version; set another"


def _require_mps_apart(pools: Mapping[str, EnabledPool], mixed: list[str]) -> None:
    """Refuse MPS beside pools with MIG naming `mixed`: the operator's variable for MIG reaches every device plugin."""
    for name, held in pools.items():
        if mixed and isinstance(held.pool.sharing, Mps):
            raise problem("mps_mig", at=("pools", name, "sharing", "strategy"), value="mps", mixed=mixed[0])


_installed = attrgetter("driver", "toolkit", "driver_root")
"""The facts of a node image that decide what the operator installs."""


def _require_one_policy(pools: Mapping[str, EnabledPool], operator: OperatorSettings) -> None:
    """Refuse pools that need different values in the operator's only ClusterPolicy, and operator settings without effect."""
    for setting, part in (("driver", "driver"), ("containerd", "toolkit")):
        if pools and setting in operator.model_fields_set and all(getattr(held.image, part) for held in pools.values()):
            raise problem("operator_idle", at=("operator", setting), part=part, setting=setting)
    naming = {name: held.pool.sharing.naming for name, held in pools.items() if isinstance(held.pool.sharing, Mig)}
    _require_mps_apart(pools, [name for name, way in naming.items() if way == "mixed"])
    for name, held in pools.items():
        if name in naming and naming[name] != naming[other := next(iter(naming))]:
            message = f"the operator names all MIG partitions in one way, and pool {other} has {naming[other]}; write the same"
            raise problem("mig_naming", message, at=("pools", name, "sharing", "naming"), value=naming[name])
        other, first = next(iter(pools.items()))
        if held.pool.cdi != first.pool.cdi:
            raise problem("operator_cdi", at=("pools", name, "cdi"), value=held.pool.cdi, other=other, plugin=DEVICE_PLUGIN)
        if _installed(held.image) != _installed(first.image):
            at, image = ("pools", name, "image"), first.image.name
            raise problem("operator_images", at=at, value=held.image.name, other=other, image=image)
