"""NVIDIA's GPU operator: driver and toolkit where the node image has none, plugin, feature discovery and DCGM exporter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.kubernetes.deliver import Deliver, by_helm
from components.kubernetes.namespace import namespace
from components.kubernetes.plugin_configs import config_map
from fleet import charts
from fleet.facts.node_image import NodeImage
from fleet.facts.scheduling import Toleration
from fleet.settings.operator import OperatorSettings


@dataclass(frozen=True, slots=True)
class GpuOperatorArgs:
    """`image` is the kind of the cluster's node images, `cdi` what its pools agree on, `tolerations` those of its provider.

    `mig` is how parts of MIG GPUs are named (none, single, mixed), `configs` what the device plugin is told of single pools, if
    anything. `ready` are the resources that stand before any chart: control plane and system nodes. `deliver` is who brings
    charts.
    """

    image: NodeImage
    operator: OperatorSettings
    cdi: bool
    tolerations: Sequence[Toleration]
    ready: Sequence[pulumi.Resource]
    mig: str = "none"
    configs: charts.PluginConfigs | None = None
    deliver: Deliver = by_helm


class GpuOperator(pulumi.ComponentResource):
    """The operator in a namespace of its own, where the secrets that its settings name (pull, licence) belong.

    It makes the RuntimeClass `nvidia`: none is declared here.
    """

    namespace_name: pulumi.Output[str]
    """Where operator and operands run."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:GpuOperator", name, {}, opts)
        chart = charts.gpu_operator(
            args.image, args.operator, cdi=args.cdi, tolerations=args.tolerations, mig=args.mig, configs=args.configs
        )
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=args.ready)
        told = config_map(f"{name}-configs", args.configs, home, parent=self)
        args.deliver(
            f"{name}-chart",
            chart,
            parent=self,
            depends_on=[home, *told, *args.ready],
            # An upgrade may bring fields that the cluster's CRDs learn only from the chart's own pre-upgrade hook.
            validate=False,
        )
        self.namespace_name = home.metadata.name
        self.register_outputs({"namespaceName": self.namespace_name})
