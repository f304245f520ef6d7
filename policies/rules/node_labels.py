"""Labels of a pool's nodes, and a pod's conditions on its node's labels: selector and required affinity."""

from collections.abc import Iterable, Mapping

from fleet.facts.quantities import quantity
from fleet.facts.record import Record
from fleet.facts.scheduling import CLUSTER_LABEL, POOL_LABEL, VOCABULARY, Standing

from .kinds import KARPENTER_NODE_POOL
from .pods import NODE_TERMS
from .pools import requirements, set_labels
from .read import SETTLED, Data, items, keys, label, line, text, walk

_SET_HERE = (Standing.OURS, Standing.ALIAS)
_OWN = frozenset(term.key for term in VOCABULARY if term.kind == "label" and term.standing in _SET_HERE and "." not in term.key)


def labels_of(token: str, props: Data) -> dict[str, str]:
    """The labels that a pool sets on its nodes, not those that the cloud or device plugin adds. Raises UnknownError."""
    labels = {}
    # A requirement with a single value is a label of the node too.
    for _, key, operator, item in requirements(props, SETTLED) if token == KARPENTER_NODE_POOL else ():
        values = [label(value) for _, value in items(walk(item, "values"), SETTLED)]
        if operator == "In" and len(values) == 1:
            labels[key] = values[0]
    return labels | _object(set_labels(token, props, SETTLED))


def ours(key: str) -> bool:
    """Whether only this project sets the label: no cloud, kubelet or feature discovery does."""
    return key in _OWN or key.partition("/")[0] == CLUSTER_LABEL.partition("/")[0]


class Ask(Record):
    """One condition on a label, with an operator of node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        listed = f" [{', '.join(map(line, self.values))}]" if self.values else ""
        return f"{line(self.key)} {line(self.operator)}{listed}"

    def admits(self, labels: Mapping[str, str], declared: frozenset[str]) -> bool:
        """Whether a node with these labels may meet it. A node may have labels outside `declared` that no resource shows."""
        if (value := labels.get(self.key)) is None:
            return self.key not in declared or self.operator in ("NotIn", "DoesNotExist")
        if self.operator in ("In", "NotIn"):
            return (value in self.values) == (self.operator == "In")
        if self.operator in ("Gt", "Lt"):
            return self._compares(value)
        return self.operator != "DoesNotExist"

    def _compares(self, value: str) -> bool:
        number, bound = quantity(value), quantity(next(iter(self.values), ""))
        return number is not None and bound is not None and (number > bound if self.operator == "Gt" else number < bound)


class Wanted(Record):
    """A pod's conditions: every one of `selector`, and every one of at least one of `terms`, if there are terms."""

    selector: tuple[Ask, ...]
    terms: tuple[tuple[Ask, ...], ...]

    def admits(self, labels: Mapping[str, str], declared: frozenset[str]) -> bool:
        """Whether the pod may land on a node with these labels."""
        alternatives = [(*self.selector, *term) for term in self.terms or ((),)]
        return any(all(ask.admits(labels, declared) for ask in asks) for asks in alternatives)

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that the selector names, or that the terms name together; none if the pod may run in pools of any name."""
        named = [_pools(conditions) for conditions in ((self.selector,) if _pools(self.selector) else self.terms)]
        return tuple(dict.fromkeys(pool for pools in named for pool in pools)) if all(named) else ()

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Every condition."""
        return (*self.selector, *(ask for term in self.terms for ask in term))


def wanted(spec: Data) -> Wanted:
    """A pod spec's conditions on its node. Raises UnknownError."""
    selector = tuple(Ask(key, "In", (value,)) for key, value in _object(walk(spec, "nodeSelector")).items())
    terms = (items(walk(term, "matchExpressions"), SETTLED) for _, term in items(walk(spec, *NODE_TERMS), SETTLED))
    return Wanted(selector, tuple(tuple(_ask(expression) for _, expression in term) for term in terms))


def _pools(conditions: Iterable[Ask]) -> tuple[str, ...]:
    return next((ask.values for ask in conditions if ask.key == POOL_LABEL and ask.operator == "In"), ())


def _ask(expression: Data) -> Ask:
    values = tuple(label(value) for _, value in items(walk(expression, "values"), SETTLED))
    return Ask(text(walk(expression, "key")), text(walk(expression, "operator")), values)


def _object(value: Data) -> dict[str, str]:
    return {key: label(walk(value, key)) for key in keys(value)}
