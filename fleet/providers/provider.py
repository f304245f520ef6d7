"""What a provider of clusters is: one class with everything that differs from cloud to cloud, and what its methods return.

`fleet/providers/<cloud>/provider.py` has the subclass of a cloud, and `fleet.providers.registry` one instance of each. All other
code asks `provider_of(cluster)`, and never which provider that is. What differs between single clusters, pools or runners of a
provider is a property of their settings models instead: `Cluster`, `Pool` and `Runner` have the defaults.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from fleet.charts.chart import Chart, Pod
from fleet.facts.bill import Paid
from fleet.facts.hardware import Machine, quota_code, quota_units
from fleet.facts.pricing import Line
from fleet.facts.record import Record
from fleet.facts.remark import said
from fleet.facts.scheduling import SYSTEM_POOL, SchedulingProfile
from fleet.providers.finding import Finding
from fleet.providers.tags import TagRules
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes
from fleet.settings.pool import SystemMachines
from fleet.settings.refusals import words

Values = Mapping[str, str | Iterable[str]]
"""What a template names: a text, or the lines of a block."""


class Wanted(Record):
    """The answers that a template depends on.

    `version` is the Kubernetes minor of a cluster that exists already, `zones` those of its nodes; both are empty for a new one.
    `known_zones` are the first zones of the region. `containers`: whether jobs get VMs of their own. `buys`: whether the cluster
    has pools. `machines` are those of the owner.
    """

    region: str
    version: str = ""
    zones: tuple[str, ...] = ()
    known_zones: tuple[str, ...] = ()
    containers: bool = False
    buys: bool = True
    machines: Mapping[str, Machine] = field(default_factory=dict)


class Starter:
    """The defaults are those of a provider without regions."""

    templates: ClassVar[Path]
    """The folder with a template `<answer>.yaml` for each answer."""
    answers: ClassVar[tuple[str, ...]]
    """What people answer for a cluster of this provider: one that the program creates, and one that exists already."""
    where: ClassVar[str]
    """Where the runners are, in words."""
    jobs: ClassVar[tuple[str, ...]] = ("tests", "release", "training")
    """The kinds of jobs that it can run."""
    kind: ClassVar[str] = ""
    """The only kind of stack; empty for any."""
    owns: ClassVar[bool] = False
    """Whether people describe machines of their own."""
    reads: ClassVar[bool] = False
    """Whether the nodes exist already, and `init` reads them from the cluster."""
    node_ids: ClassVar[tuple[str, ...]] = ()
    """First words of the providerID of its nodes."""
    zone_prefix: ClassVar[str] = ""
    """An example of what the account puts before the name of a zone."""
    of_pods: ClassVar[tuple[str, ...]] = ()
    """Lines of a runner set of pods."""
    driver: ClassVar[str] = ""
    """An example of the driver in an image of its machines."""

    def cluster_name(self, region: str) -> str:
        """A short name of a cluster in a region."""
        return "home"

    def values(self, wanted: Wanted) -> Values:
        """What its templates name in addition to what all templates may name."""
        return {}


ClusterT = TypeVar("ClusterT", bound=Cluster)


class Claim(Record):
    """`owner` claims the thing that `key` identifies. `at` is the path of the claim in the settings."""

    key: object
    owner: str
    at: tuple[str, ...]


IN_CONFIG = object()
"""Stands for the value at the path of a violation."""


class Violation(Record):
    """A broken rule. `rule` is its short name, `at` the path of the setting that breaks it.

    The error shows `value`. Without one it shows the value at the path.
    """

    rule: str
    message: str
    at: tuple[str, ...]
    value: object = IN_CONFIG


def violation(rule: str, at: tuple[str, ...], value: object = IN_CONFIG, /, **context: object) -> Violation:
    """The violation of a rule with a row in refusals.toml, which `context` fills in."""
    return Violation(rule.partition("__")[0], words(rule, value=value, **context), at, value)


def conflicts(claims: Iterable[Claim]) -> Iterator[tuple[Claim, str]]:
    """Each claim of a key that another owner claimed first, with that owner."""
    owners: dict[object, str] = {}
    yield from ((claim, first) for claim in claims if (first := owners.setdefault(claim.key, claim.owner)) != claim.owner)


class Need(Record):
    """The units of a quota that one pool or set of machines needs at its maximum size.

    `units` are vCPUs on EC2 and GPUs on OCI. `code` is None if the quota of `machine` is unknown. `compartment` is an OCID,
    empty on EC2.
    """

    machine: str
    capacity: str
    code: str | None
    units: int
    region: str
    compartment: str = ""


def needs(machines: Sequence[Machine], capacity: str, count: int, region: str, compartment: str = "") -> Iterator[Need]:
    """The needs of `count` machines, each of any of the types. The largest type of a quota sets its units."""
    largest: dict[str | None, Machine] = {}
    for machine in sorted(machines, key=quota_units):
        largest[quota_code(machine, capacity)] = machine
    for code, machine in largest.items():
        yield Need(machine.name, capacity, code, count * quota_units(machine), region, compartment)


class NodeGroup(Record):
    """Equal nodes that the cloud makes, by the name that its autoscaler knows. `zones` is empty if the settings show none."""

    id: str
    zones: tuple[str, ...]
    span: Nodes


GONE = ("terminated", "deleted")
"""States in which a cloud still lists what it has deleted."""


class Left(Record):
    """A thing that exists, and the command that deletes it.

    `names` are its id and whatever else a state may call it, `title` is its name if the cloud has one. `own` is false for things
    that only nodes, EKS or Kubernetes create.
    """

    what: str
    delete: str
    names: tuple[str, ...] = ()
    title: str = ""
    own: bool = True

    def __str__(self) -> str:
        return f"{self.what}\n    {self.delete}"


class Search(Record):
    """How to find a thing of which only the inputs are known: `command` for people; `ids` asks for the ids that Pulumi imports.

    `again`: there is nothing to find, because a create sets the same thing once more.
    """

    command: str
    ids: Callable[[], list[str]] = list
    again: bool = False


class Leftovers:
    """Lists what a stack has in one cloud. This base class is that of a cloud in which stacks create nothing."""

    cloud: ClassVar[str] = ""
    """Its name."""
    package: ClassVar[str] = "-"
    """Pulumi's package with the types of its resources."""

    def __iter__(self) -> Iterator[Left]:
        """Everything that exists. Raises ImportError if the cloud's SDK is missing."""
        return iter(())

    def errors(self) -> tuple[type[Exception], ...]:
        """What its SDK raises if it cannot be asked. Raises ImportError if the SDK is missing."""
        return ()

    def require_account(self, names: Collection[str]) -> None:
        """Raise SourceError if the credentials are of another account than the state's resources, which have these names."""

    def search(self, kind: str, inputs: Mapping[str, Any], region: str) -> Search | None:
        """How to find what a create of a type with these inputs made; None if that is unknown."""
        return None

    def delete_late(self) -> None:
        """Delete what the cloud creates again after its owner is gone."""


def left(
    commands: dict[str, str], region: str, kind: str, identity: str, arn: str = "", title: str = "", own: bool = True
) -> Left:
    """A thing of a kind. `commands` has the command for each kind, with the fields id, arn and parts, the words of the id."""
    parts = identity.split("/")
    command = commands.get(kind, "").format(id=identity, arn=arn, parts=parts)
    fix = f"{command} --region {region}" if command else "no command is known here; look for it in the cloud's console"
    # Pulumi's ids of things in a cluster have these signs.
    names = (identity, arn, ":".join(parts[:2]), ",".join(parts[:2]))
    return Left(f"{region}: {kind} {arn or identity}", fix, tuple(filter(None, names)), title, own)


class PushGateway(Protocol):
    """What takes the metrics that machines outside of Kubernetes push."""

    @property
    def complete(self) -> tuple[str, ...]:
        """The runner sets all of whose machines push."""

    @property
    def pod(self) -> Pod:
        """What its pod requests."""


class Provider(ABC, Generic[ClusterT]):
    """The contract of one provider. Methods without a body here have the default of a provider that has no such thing."""

    settings: ClassVar[type[Cluster]]
    """The settings of a cluster that the program creates, or of the only kind that the provider has."""
    existing: ClassVar[type[Cluster] | None] = None
    """The settings of a cluster that exists already, if the provider has both kinds."""
    cloud: ClassVar[str]
    """The cloud of its machines in `data/instances.csv`; empty if the program buys none."""
    profile: ClassVar[SchedulingProfile]
    """What it sets on GPU nodes, and what its autoscaler can do."""
    tags: ClassVar[TagRules]
    """The rules of its cloud for tags."""
    deployable: ClassVar[bool] = True
    """Whether `pulumi up` creates the clusters, or what they contain."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The Python packages of its Pulumi SDKs."""
    bounded: ClassVar[bool] = False
    """Whether a permissions boundary applies to the roles of its clusters."""
    starter: ClassVar[Starter | None] = None
    """How `init` writes its clusters; None if it cannot."""
    boots: ClassVar[str] = "elsewhere"
    """The row of `data/starts.csv` for the boot of a node."""
    orders: ClassVar[bool] = False
    """Whether the program configures an autoscaler, which has one order of pools."""
    mixed_spot: ClassVar[str] = ""
    """What it does with spot nodes of its own accord, as a sentence. Empty if a spot pool has one type and no figures."""
    push: ClassVar[str] = ""
    """Shell commands that push an image, with fields region, tool, local, repository, tag and name; empty without a registry."""

    # -- money and quotas ----------------------------------------------------------------------------------------------

    @abstractmethod
    def bill(self, name: str, cluster: ClusterT, day: date) -> Iterator[Paid | Line]:
        """What one cluster pays for, at the prices of a day. `fleet.prove.bill` counts it."""

    def needs(self, declaring: ClusterT, clusters: Collection[ClusterT]) -> tuple[Need, ...]:
        """The quotas that a cluster declares, from all clusters of the provider."""
        return ()

    def quota_remarks(self, clusters: Collection[ClusterT]) -> Iterator[str]:
        """The quotas that all clusters of the provider may lack."""
        yield from ()

    # -- charts and autoscaler -----------------------------------------------------------------------------------------

    def charts(self, cluster: ClusterT, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
        """The charts that only clusters of this provider have."""
        return ()

    def system_machines(self, cluster: ClusterT) -> SystemMachines | None:
        """The machines of the system pool of a cluster that the program creates; None if the settings do not describe them."""
        return None

    def moves(self, name: str, cluster: ClusterT, order: Sequence[str]) -> str:
        """When the autoscaler moves on to the next pool of an order, and when it comes back."""
        return said("no_autoscaler")

    def priorities(self, name: str, cluster: ClusterT) -> str:
        """The text of the autoscaler's ConfigMap. Empty if no class names several pools, or if only the cloud knows it."""
        return ""

    def node_groups(self, name: str, cluster: ClusterT, pool: str) -> Iterator[NodeGroup]:
        """The groups of a pool of the cluster `name`, or of its system pool if the settings describe it."""
        system = self.system_machines(cluster) if pool == SYSTEM_POOL else None
        zones = cluster.node_zones if system else cluster.zones_with_nodes(cluster.pools[pool])
        yield NodeGroup(f"{name}-{pool}", zones, system[2] if system else cluster.pools[pool].nodes)

    # -- proofs of its own ---------------------------------------------------------------------------------------------

    def rules(self, clusters: Mapping[str, ClusterT], github: GitHub) -> Iterator[Violation]:
        """The rules over all clusters of the provider that general rules do not have."""
        yield from ()

    def name_faults(self, cluster: ClusterT, name: str) -> Iterator[Violation]:
        """Names in the settings of the cluster `name` of which a resource's name would be too long."""
        yield from ()

    def physical_name_fault(self, cluster: ClusterT, physical_name: str) -> str:
        """Why the cloud refuses the physical name of a cluster, and the fix; empty if it does not."""
        return ""

    def capacity_remarks(self, name: str, cluster: ClusterT) -> Iterator[str]:
        """How to ask the cloud whether it has a cluster's machines now."""
        yield from ()

    # -- metrics -------------------------------------------------------------------------------------------------------

    def gateway(self, cluster: ClusterT) -> PushGateway | None:
        """The gateway of a cluster's machines; None if none of them can push."""
        return None

    def push_remarks(self, cluster: ClusterT) -> Iterator[str]:
        """The machines whose metrics Prometheus does not get, and why."""
        yield from ()

    # -- files ---------------------------------------------------------------------------------------------------------

    def boot_files(self, name: str, cluster: ClusterT) -> Mapping[str, str]:
        """The text of the configs that machines of the owner boot from, by path. `make render` writes them into the Git tree."""
        return {}

    def user_data(self, cluster: ClusterT) -> Mapping[str, str]:
        """The user data of machines that are runners, by runner set."""
        return {}

    # -- doctor --------------------------------------------------------------------------------------------------------

    def findings(self, clusters: Mapping[str, ClusterT]) -> Iterator[Finding]:
        """What the cloud lacks for the clusters, by calls that only read."""
        yield from ()

    def freshness(self, clusters: Mapping[str, ClusterT], session: Callable[[], Any] | None = None) -> Iterator[Finding]:
        """Whether what the clusters pin of the cloud is still good. `session` replaces that of the cloud's SDK."""
        yield from ()

    # -- acceptance ----------------------------------------------------------------------------------------------------

    def leftovers(self, project: str, stack: str, clusters: Mapping[str, ClusterT]) -> Leftovers:
        """What a destroyed stack left in the cloud."""
        return Leftovers()
