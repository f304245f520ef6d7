"""Machines that the tables of instance types lack, as an owner describes them below `machines` of a cluster."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator

from fleet.facts import hardware
from fleet.facts.errors import instead
from fleet.settings.model import DnsLabel, Memory, Model
from fleet.settings.pool import DESCRIBED
from fleet.settings.refusals import Form, problem, refusal, refuses


def _nvidia() -> list[str]:
    return [gpu.name for gpu in hardware.gpus().values() if gpu.vendor == "nvidia"]


def _model(name: str) -> None:
    if name not in _nvidia():
        raise problem("gpu_model", fix=instead(name, _nvidia(), "write for example RTX 4090, or add a row", similar=0.8))


_MODEL_RULE = "no NVIDIA GPU of fleet/facts/data/gpus.csv; write for example RTX 4090"
GpuModel = Annotated[str, refuses(_model), Form("GPU model", _MODEL_RULE, values=_nvidia)]


class OwnMachine(Model):
    """The hardware of one machine, or of several that are alike. `gpu-ci probe` prints it."""

    gpu: GpuModel
    """GPU model, as fleet/facts/data/gpus.csv names it. All GPUs of a machine are of one model."""
    gpus: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of GPUs. Unit: GPUs. Mark: first."""
    gpu_memory: Memory | None = None
    """Memory of one GPU. Default: that of the model, if all its cards have the same. Example: `24564Mi` Mark: first."""
    cpus: Annotated[int, Field(ge=1, le=1024)]
    """CPUs as Linux counts them: threads, not cores. Unit: threads."""
    memory: Memory
    """Main memory of the machine."""
    disk: Memory
    """The disk of containers, images and files of pods: Talos' install disk, or `ephemeralDisk` of the host."""
    arch: Literal["x86_64", "arm64"] = "x86_64"
    """Architecture of the CPU. Example: `arm64`"""
    usd_per_hour: Annotated[float, Field(ge=0, le=1000)] | None = None
    """What an hour of the machine costs its owner: power and wear (docs/talos.md). Default: unknown. Unit: USD per hour.
    Mark: first."""

    @refusal
    def _memory_known(self) -> None:
        """Refuse a GPU model of several memory sizes without its size."""
        if self.gpu_memory is None and not hardware.gpus()[self.gpu].memory_mib:
            raise problem("gpu_memory", at=("gpuMemory",), gpu=self.gpu)

    def as_machine(self, name: str) -> hardware.Machine:
        """The same as a machine of the table. A disk counts in whole GB, rounded down."""
        gpu = hardware.gpus()[self.gpu]
        usd = self.usd_per_hour
        return hardware.Machine(
            name=name,
            cloud=hardware.OWNED,
            gpus=self.gpus,
            gpu=gpu,
            gpu_memory_mib=self.gpu_memory or gpu.memory_mib,
            vcpus=self.cpus,
            memory_mib=self.memory,
            arch=self.arch,
            sockets=1,
            nvme_gb=self.disk * 2**20 // 10**9,
            bare_metal=True,
            own_price=None if usd is None else hardware.Price(usd, at_most=False, source="the stack file", date=""),
        )


class WithMachines(Model):
    """A cluster whose pools may name machines that it describes. As a second base class it comes first: before `pools`."""

    machines: dict[DnsLabel, OwnMachine] = Field(default_factory=dict, validate_default=True)
    """Your own machines by a name of your choice, which `instanceTypes` of a pool names (docs/talos.md). Mark: first."""

    @field_validator("machines", mode="wrap")
    @classmethod
    def _at_hand(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> dict[str, OwnMachine]:
        """Hand the machines to the pools that are read next. If a machine is wrong, pools say nothing of its name."""
        DESCRIBED.set(None)
        machines: dict[str, OwnMachine] = handler(value)
        DESCRIBED.set({name: machine.as_machine(name) for name, machine in machines.items()})
        return machines
