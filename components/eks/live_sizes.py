"""The sizes of node groups in AWS. The autoscaler changes them at any time, and EKS takes minimum, maximum and size together.

So the program reads them: at its start, to decide which groups it leaves alone, and again when a group is about to change.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from fleet.providers.eks.groups import Sizes, resized
from fleet.providers.tags import STACK_TAG
from fleet.settings.model import Scale

_MACHINES = ("amiType", "capacityType", "instanceTypes", "launchTemplate", "releaseVersion", "version")
"""Inputs of a node group whose change replaces the group or rolls its nodes."""
_RIGHTS = "eks:ListClusters, eks:ListNodegroups and eks:DescribeNodegroup (docs/bootstrap.md)"


@dataclass(frozen=True, slots=True)
class LiveSizes:
    """The stack's node groups in a cluster as the program's start found them: `groups` has their sizes by their names in AWS.

    `cluster` is its name in AWS. It has no `groups` if it is not there.
    """

    cluster: str
    provider: pulumi.ProviderResource
    groups: Mapping[str, Sizes]

    @classmethod
    def read(cls, cluster: str, prefix: str, stack: str, provider: pulumi.ProviderResource) -> "LiveSizes":
        """Ask AWS for the groups of the stack whose names begin with `prefix`. Raises RunError if it refuses.

        Another stack may have groups of the same names in a cluster that exists already. A group that AWS deletes is left out.
        """
        opts = pulumi.InvokeOptions(provider=provider)
        try:
            there = cluster in (aws.eks.get_clusters(opts=opts).names or ())  # mocks of a unit test may answer nothing
            names = aws.eks.get_node_groups(cluster_name=cluster, opts=opts).names if there else []
            answers = [aws.eks.get_node_group(cluster, name, opts=opts) for name in sorted(names) if name.startswith(prefix)]
            ours = [group for group in answers if group.tags.get(STACK_TAG) == stack and group.status != "DELETING"]
            groups = {group.node_group_name: _sizes(group) for group in ours}
        except pulumi.RunError:
            raise
        except Exception as error:
            raise pulumi.RunError(
                f"{cluster}: AWS does not report the sizes of its node groups: {error}; a preview and an update need {_RIGHTS}"
            ) from error
        return cls(cluster, provider, groups)

    def named(self, group: str) -> dict[str, Sizes]:
        """The group with this logical name: Pulumi appends random digits. An interrupted replacement leaves two."""
        return {name: sizes for name, sizes in self.groups.items() if re.fullmatch(rf"{re.escape(group)}(-[0-9a-f]+)?", name)}

    def busy(self, group: str) -> bool:
        """Whether the group has nodes."""
        return any(sizes.desired for sizes in self.named(group).values())

    def again(self, group: str, after: Sequence[pulumi.Resource]) -> pulumi.Output[int]:
        """The present number of nodes, asked for when the resources `after` are there. Of two groups the larger one counts.

        It is 0 if the groups have gone by then, as with a control plane that this update replaces.
        """
        opts = pulumi.InvokeOutputOptions(provider=self.provider, depends_on=[*after])

        def largest(names: Sequence[str]) -> pulumi.Output[int]:
            there = [aws.eks.get_node_group_output(self.cluster, name, opts=opts) for name in self.named(group) if name in names]
            return pulumi.Output.all(*there).apply(lambda groups: max((_sizes(one).desired for one in groups), default=0))

        size: pulumi.Output[int] = aws.eks.get_node_groups_output(self.cluster, opts=opts).names.apply(largest)
        return size


def scaling(
    group: str, nodes: Scale, live: LiveSizes | None, after: Sequence[pulumi.Resource]
) -> tuple[pulumi.Input[aws.eks.NodeGroupScalingConfigArgs], list[str]]:
    """The sizes to declare for the group with this logical name, and the inputs whose difference the engine ignores.

    `nodes` is its share of the pool. A maximum of 0 keeps a group until it is empty, with the machines that it has. A group that
    AWS does not have starts with its least nodes. One that has its minimum and maximum is left alone. Any other gets them with
    its present size.
    """
    left = [] if nodes.max else [*_MACHINES]
    there = live.named(group) if live is not None else {}
    if live is None or not there:
        return _config(resized(nodes, nodes.min)), ["scalingConfig.desiredSize"]
    size = max(sizes.desired for sizes in there.values())
    target = resized(nodes, size)
    if size > nodes.max:
        later = "lowers its maximum once it has fewer" if nodes.max else "deletes it once it is empty"
        share = f"its share of nodes.max is {nodes.max}"
        pulumi.log.warn(
            f"{group} has {size} {'node' if size == 1 else 'nodes'}, and {share}: no node ends now; a later pulumi up {later}"
        )
    if all((sizes.min, sizes.max) == (target.min, target.max) for sizes in there.values()):
        return _config(target), ["scalingConfig", *left]
    return live.again(group, after).apply(lambda now: _config(resized(nodes, now))), left


def _config(sizes: Sizes) -> aws.eks.NodeGroupScalingConfigArgs:
    return aws.eks.NodeGroupScalingConfigArgs(min_size=sizes.min, max_size=sizes.max, desired_size=sizes.desired)


def _sizes(group: aws.eks.GetNodeGroupResult) -> Sizes:
    (sizes,) = group.scaling_configs
    return Sizes(sizes.min_size, sizes.max_size, sizes.desired_size)
