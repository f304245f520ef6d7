"""The sizes of node groups in AWS. The autoscaler changes them at any time, and EKS takes minimum, maximum and size together.

So the program reads them: at its start, to decide which groups it leaves alone, and again when a group is about to change.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import pulumi
import pulumi_aws as aws

from components.generations import counted_nodes
from fleet.facts.record import Record
from fleet.facts.scheduling import LEAVING, POOL_LABEL, SYSTEM_POOL
from fleet.providers.eks.groups import Sizes, resized
from fleet.providers.tags import STACK_TAG
from fleet.settings.model import Scale

_DIGITS = re.compile(r"(-[0-9a-f]+)?")
"""What Pulumi appends to a logical name."""
_FIX = "a preview and an update need eks:ListClusters, eks:ListNodegroups and eks:DescribeNodegroup (docs/bootstrap.md)"


class LiveSizes(Record):
    """The stack's node groups in a cluster as the program's start found them: `groups` has them by their names in AWS.

    `cluster` is its name in AWS, and `prefix` what the names of its groups begin with. It has no `groups` if it is not there.
    """

    cluster: str
    prefix: str
    provider: pulumi.ProviderResource
    groups: Mapping[str, aws.eks.GetNodeGroupResult]

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
            groups = {group.node_group_name: group for group in ours}
        except pulumi.RunError:
            raise
        except Exception as error:
            raise pulumi.RunError(f"{cluster}: AWS does not report the sizes of its node groups: {error}; {_FIX}") from error
        return cls(cluster, prefix, provider, groups)

    def named(self, group: str) -> dict[str, Sizes]:
        """The group with this logical name: Pulumi appends random digits. An interrupted replacement leaves two."""
        named = ((name, there) for name, there in self.groups.items() if name.startswith(group))
        return {name: sizes_of(there) for name, there in named if _DIGITS.fullmatch(name.removeprefix(group))}

    def of_pools(self) -> Iterator[tuple[str, str, aws.eks.GetNodeGroupResult]]:
        """The groups of GPU pools by name: pool, zone, group. Those that have left, with the taint and without nodes, are not."""
        for name, group in sorted(self.groups.items()):
            left = not sizes_of(group).desired and any(taint.key == LEAVING.key for taint in group.taints)
            if not left and (pool := group.labels.get(POOL_LABEL, SYSTEM_POOL)) != SYSTEM_POOL:
                yield pool, name.removeprefix(f"{self.prefix}{pool}-").partition("-nodes")[0], group

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in which these are."""
        return tuple(sorted({zone for _, zone, _ in self.of_pools()}))

    def again(self, group: str, after: Sequence[pulumi.Resource]) -> pulumi.Output[int]:
        """The present number of nodes, asked for when the resources `after` are there. Of two groups the larger one counts.

        It is 0 if the groups have gone by then, as with a control plane that this update replaces.
        """
        opts = pulumi.InvokeOutputOptions(provider=self.provider, depends_on=[*after])

        def largest(names: Sequence[str]) -> pulumi.Output[int]:
            there = [aws.eks.get_node_group_output(self.cluster, name, opts=opts) for name in self.named(group) if name in names]
            return pulumi.Output.all(*there).apply(lambda groups: max((sizes_of(one).desired for one in groups), default=0))

        size: pulumi.Output[int] = aws.eks.get_node_groups_output(self.cluster, opts=opts).names.apply(largest)
        return size


def scaling(
    group: str, nodes: Scale, live: LiveSizes | None, after: Sequence[pulumi.Resource]
) -> tuple[pulumi.Input[aws.eks.NodeGroupScalingConfigArgs], list[str]]:
    """The sizes to declare for the group with this logical name, and the inputs whose difference the engine ignores.

    `nodes` is its share of the pool. A maximum of 0 is for a group that leaves. A group that
    AWS does not have starts with its least nodes. One that has its minimum and maximum is left alone. Any other gets them with
    its present size.
    """
    there = live.named(group) if live is not None else {}
    if live is None or not there:
        return _config(resized(nodes, nodes.min)), ["scalingConfig.desiredSize"]
    size = max(sizes.desired for sizes in there.values())
    target = resized(nodes, size)
    if size > nodes.max > 0:
        share = f"its share of nodes.max is {nodes.max}"
        later = "a later pulumi up lowers its maximum once it has fewer"
        pulumi.log.warn(f"{group} has {counted_nodes(size)}, and {share}: no node ends now; {later}")
    if all((sizes.min, sizes.max) == (target.min, target.max) for sizes in there.values()):
        return _config(target), ["scalingConfig"]
    return live.again(group, after).apply(lambda now: _config(resized(nodes, now))), []


def _config(sizes: Sizes) -> aws.eks.NodeGroupScalingConfigArgs:
    return aws.eks.NodeGroupScalingConfigArgs(min_size=sizes.min, max_size=sizes.max, desired_size=sizes.desired)


def sizes_of(group: aws.eks.GetNodeGroupResult) -> Sizes:
    """The sizes that AWS reports of a group."""
    (sizes,) = group.scaling_configs
    return Sizes(sizes.min_size, sizes.max_size, sizes.desired_size)
