"""OKE's Cluster Autoscaler add-on, with the rights of its service account."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_oci as oci

from components.component import Component
from components.oci.policy import policy
from components.oci.rights import AUTOSCALER, AUTOSCALER_NETWORK, Workload, autoscaler_rights
from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.cluster_autoscaler import AUTOSCALER as SERVICE_ACCOUNT
from fleet.charts.cluster_autoscaler import BEST_WASTE, BY_PRIORITY
from fleet.facts.scheduling import SYSTEM_SELECTOR
from fleet.providers.oke.addons import AUTOSCALER_ADDON
from fleet.providers.oke.fallback import PROVISION_MINUTES
from fleet.settings.model import Scale, go_duration


@dataclass(frozen=True, slots=True)
class ScaledPool:
    """A node pool that the autoscaler sizes within `nodes`."""

    node_pool_id: pulumi.Input[str]
    nodes: Scale


@dataclass(frozen=True, slots=True)
class OkeAutoscalerArgs:
    """`idle_delay` is seconds, one for all pools; `network` is the compartment of the subnets; `version` is the add-on's, or None
    where Oracle chooses; `iam` is the provider that writes policies; `ready` must exist before. `node_selector` is
    that of the autoscaler's pod. `by_priority`: whether it prefers pools by its ConfigMap.
    """

    cluster_id: pulumi.Input[str]
    compartment: str
    network: str
    pools: Sequence[ScaledPool]
    idle_delay: int
    version: str | None
    tags: dict[str, str]
    iam: pulumi.ProviderResource
    ready: Sequence[pulumi.Resource]
    node_selector: Mapping[str, str] = field(default_factory=lambda: SYSTEM_SELECTOR)
    by_priority: bool = False


class OkeAutoscaler(Component[OkeAutoscalerArgs]):
    """The add-on, which knows its pools by OCID, and a policy for its service account by workload identity."""

    def declare(self, name: str, args: OkeAutoscalerArgs) -> None:
        rights = [self._policy(f"{name}-rights", name, args, AUTOSCALER, args.compartment)]
        if args.network != args.compartment:
            rights.append(self._policy(f"{name}-network-rights", name, args, AUTOSCALER_NETWORK, args.network))
        nodes = pulumi.Output.all(*(pool.node_pool_id for pool in args.pools)).apply(
            lambda ids: ", ".join(
                f"{pool.nodes.min}:{pool.nodes.max}:{found}" for pool, found in zip(args.pools, ids, strict=True)
            )
        )
        oci.containerengine.Addon(
            f"{name}-addon",
            addon_name=AUTOSCALER_ADDON,
            version=args.version,
            cluster_id=args.cluster_id,
            configurations=[
                oci.containerengine.AddonConfigurationArgs(key=key, value=value)
                for key, value in (
                    {"nodes": nodes} | addon_values(args.idle_delay, args.node_selector, by_priority=args.by_priority)
                ).items()
            ],
            override_existing=True,
            remove_addon_resources_on_delete=True,
            # Its pod asks for credentials when it starts, so the policy must exist before.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*rights, *args.ready]),
        )

    def _policy(
        self, logical_name: str, name: str, args: OkeAutoscalerArgs, wanted: Sequence[str], compartment: str
    ) -> oci.identity.Policy:
        return policy(
            logical_name,
            pulumi.Output.from_input(args.cluster_id).apply(
                lambda cluster: autoscaler_rights(Workload(KUBE_SYSTEM, SERVICE_ACCOUNT, cluster), wanted, compartment)
            ),
            compartment=compartment,
            description=f"The autoscaler {name} sizes the node pools of its cluster",
            tags=args.tags,
            iam=args.iam,
            parent=self,
        )


def addon_values(
    idle_delay: int, node_selector: Mapping[str, str] = SYSTEM_SELECTOR, *, by_priority: bool = False
) -> dict[str, str]:
    """The add-on's settings except its pools. Each is a string (docs.oracle.com, cluster add-on configuration arguments)."""
    return {
        "authType": "workload",
        "scaleDownUnneededTime": go_duration(idle_delay),
        # Ten minutes by default: a shorter idleDelay would mean nothing.
        "scaleDownDelayAfterAdd": "1m",
        "maxNodeProvisionTime": f"{PROVISION_MINUTES}m",
        # The size of a pool is not set again, so a raised min would otherwise wait for a job.
        "enforceNodeGroupMinSize": "true",
        "skipNodesWithSystemPods": "false",
        "expander": BY_PRIORITY if by_priority else BEST_WASTE,
        "nodeSelectors": json.dumps(dict(node_selector)),
    }
