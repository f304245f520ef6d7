"""Why a pod would stay pending in each pool of a fleet, and the change that removes each reason."""

from collections.abc import Iterator

from fleet.facts.errors import InputError, quoted
from fleet.facts.hardware import SPOT
from fleet.facts.record import Record
from fleet.prove.nodes import Nodes, cluster_nodes
from fleet.prove.pending_rules import Reason, reasons
from fleet.prove.placement import node_price
from fleet.prove.pod import Pod
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS


class Answer(Record):
    """Whether a pod runs in one pool. `reasons` is empty if it does."""

    nodes: Nodes
    reasons: tuple[Reason, ...]

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key, the nearest first: every reason has a fix, few reasons, light fixes, a burst pool, low price, name."""
        price, pool = node_price(self.nodes.settings, self.nodes.host), self.nodes.settings.pools.get(self.nodes.host.name)
        fixed, weight = all(reason.fix for reason in self.reasons), sum(reason.weight for reason in self.reasons)
        usd, steady = float("inf") if price.unknown else price.usd, pool is not None and pool.role != "burst"
        return not fixed, len(self.reasons), weight, steady, usd, self.nodes.name

    @property
    def machines(self) -> str:
        """The machine types, their GPU, and whether they are spot machines."""
        host = self.nodes.host
        kind = f"; {host.machines[0].gpus} x {gpu.name}" if (gpu := host.machines[0].gpu) is not None else ""
        return f"{', '.join(machine.name for machine in host.machines)}{kind}{'; spot' if host.capacity == SPOT else ''}"

    @property
    def start(self) -> str:
        """Where the pod's node comes from."""
        if self.nodes.starts_empty:
            return "from zero nodes by the autoscaler"
        count = self.nodes.span.min
        running = "the node that always runs" if count == 1 else f"one of the {count} nodes that always run"
        grows = self.nodes.span.max > count and PROVIDERS[self.nodes.settings.provider].profile.from_zero
        return f"on {running}" + (f", or on a new one of up to {self.nodes.span.max}" if grows else "")


class Explanation(Record):
    """The answers of all pools for one pod, the best or nearest first. `unknown` is what the settings do not show."""

    pod: Pod
    answers: tuple[Answer, ...]
    unknown: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether the pod runs in some pool."""
        return not self.answers[0].reasons

    def lines(self) -> Iterator[str]:
        """The explanation for people."""
        first, *farther = self.answers
        if self.runs:
            yield f"{self.pod.label}: would run in {first.nodes.name} ({first.machines}), {first.start}"
        else:
            yield f"{self.pod.label}: would stay pending"
            yield f"nearest pool: {first.nodes.name} ({first.machines})"
            for reason in first.reasons:
                yield f"  because {reason.text}"
                yield f"    fix: {reason.fix or 'none, in this pool'}"
        if farther:
            yield "other pools:"
        yield from (f"  {answer.nodes.name} ({answer.machines}): {_short(answer)}" for answer in farther)
        if self.unknown:
            yield "not known from the stack file:"
            yield from (f"  {fact}" for fact in self.unknown)


def _short(answer: Answer) -> str:
    first, *more = answer.reasons or (Reason(f"would run, {answer.start}"),)
    return first.text + (f"; and {len(more)} more reason{'s' * (len(more) > 1)}" if more else "")


def explain(fleet: Fleet, pod: Pod, cluster: str | None = None) -> Explanation:
    """Judge a pod against every pool of a fleet, or of one cluster. Raises InputError if the fleet has no such cluster."""
    if cluster is not None and cluster not in fleet.clusters:
        raise InputError(f"--cluster: the stack has no cluster {quoted(cluster)}; name one of: {', '.join(fleet.clusters)}")
    clusters = fleet.clusters_by_name(cluster)
    if not (pools := [nodes for name, settings in clusters for nodes in cluster_nodes(name, settings, fleet.github)]):
        raise InputError("--stack: the settings describe no nodes; add a pool")
    answers = sorted((Answer(nodes, tuple(reasons(pod, nodes))) for nodes in pools), key=lambda answer: answer.rank)
    return Explanation(pod, tuple(answers), tuple(_unknown(pod, answers[0].nodes)))


def _unknown(pod: Pod, nodes: Nodes) -> Iterator[str]:
    """What decides about a pod and is not in the settings."""
    most = nodes.span.max
    yield f"whether other pods use the room: {nodes.name} has at most {most} node{'s' * (most != 1)}"
    if not any("/" in name for name in pod.requests()) and any(machine.gpus for machine in nodes.host.machines):
        yield "whether it needs a GPU: it asks for none, and it would take a GPU node"
    if name := pod.text("nodeName"):
        yield f"whether node {name} exists: nodeName skips the scheduler"
    yield from (f"the value of the node label {key}" for key in pod.selector if None in nodes.every(key))
    settings, namespace = nodes.settings, pod.namespace
    for claim in pod.claims:
        if (cache := settings.caches.get(claim)) is None:
            yield f"whether the claim {claim} exists, and the zone of its volume"
        elif not cache.shared:
            yield f"the zone of the volume of {claim}: once it exists, the pod runs only there"
    if secrets := [str(secret.get("name")) for secret in pod.each("imagePullSecrets")]:
        yield f"whether the Secrets {', '.join(secrets)} exist, with which the image is pulled"
    if settings.found is not None:
        yield f"which RuntimeClasses and PriorityClasses cluster {nodes.cluster} has, because the program did not create it"
    if level := settings.team_namespaces.get(namespace, ""):
        yield f"whether the pod meets the Pod Security Standard {level} of namespace {namespace}; make check judges manifests"
