"""No value that somebody's file may have in the place of another stops an audit."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import kubernetes_documents, yaml_text
from gpu_ci.audit.reading import audit
from tests.audit import test_arc, test_groups, test_karpenter, test_machines, test_manifests, test_osdc

REQUIREMENT = json.dumps(
    [test_karpenter.need("karpenter.k8s.aws/instance-cpu", "Gt", "4"), test_karpenter.need("a/b", "In", "c")]
)
FILES = {
    "karpenter": test_karpenter.POOL % REQUIREMENT + "---\n" + test_karpenter.CLASS,
    "oci": test_karpenter.OCI % ("node.kubernetes.io/instance-type", "VM.GPU.A10.1"),
    "eksctl": test_groups.EKSCTL % ("nodeGroups", "taints: [{key: a, effect: NoSchedule}]\n  instanceSelector: {gpus: 1}"),
    "kops": test_groups.KOPS,
    "nodegroup": json.dumps(test_groups.NODEGROUP),
    "manifests": yaml_text(test_manifests.node("a")) + "---\n" + test_manifests.HOOKS,
    "runner": test_manifests.RUNNER % ("/etc/hook/job.yaml", "/etc/hook", ""),
    "osdc/modules/nodepools/defs/a": test_osdc.FLEET,
    "osdc/modules/arc-runners/defs/a": test_osdc.RUNNER + "  max_runners: {default: 2, one: 3}\n",
    "osdc/clusters": test_osdc.CLUSTERS,
    "machines": test_machines.CONFIG % ("true", "idle_config: [{idleCount: 1}]"),
    ".github/runs-on.yml": test_machines.RUNS_ON,
    "launcher": test_machines.LAUNCHER % ("VM.GPU.A10.1", "false"),
    "argo": test_arc.ARGO % ("base.yaml", "{maxRunners: 1}"),
    "base": test_arc.BASE,
    "sets": test_arc.SETS % "[{list: {elements: [{name: a, version: 0.15.1, most: 1}]}}]",
    "set/Chart": test_arc.CHART,
    "set/values": "gpu: {githubConfigUrl: x}\n",
}
JUNK: tuple[Any, ...] = (
    None,
    True,
    3,
    -1.5,
    "x",
    "a=b:c",
    "9" * 40,
    [],
    [None],
    [[1]],
    ["x"],
    {},
    {"x": None},
    {"x": {"y": [1]}},
)


ROUNDS = 6
"""Files of each kind with junk in them."""


def changed(value: Any, chosen: random.Random) -> Any:
    """The value with junk in one place."""
    inner = value if isinstance(value, dict) and value else dict(enumerate(value)) if isinstance(value, list) and value else {}
    if not inner or chosen.random() < 0.15:
        return chosen.choice(JUNK)
    key = chosen.choice(list(inner))
    inner = {**inner, key: changed(inner[key], chosen)}
    return inner if isinstance(value, dict) else list(inner.values())


def written(folder: Path, name: str, values: list[Any]) -> None:
    path = folder / (name if name.endswith(".yml") else f"{name}.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(map(yaml_text, values)))


def documents() -> Iterator[tuple[str, list[Any]]]:
    for name, text in FILES.items():
        yield name, [json.loads(json.dumps(document.value)) for document in kubernetes_documents(name, text)]


@pytest.mark.parametrize("name", FILES)
def test_junk_in_any_place_stops_no_audit(tmp_path, name):
    plain = dict(documents())
    for other, values in plain.items():
        written(tmp_path, other, values)
    assert audit(tmp_path).not_read == []
    chosen = random.Random(name)  # noqa: S311 - the same junk at each run
    for _ in range(ROUNDS):
        values = list(plain[name])
        at = chosen.randrange(len(values))
        values[at] = changed(values[at], chosen)
        written(tmp_path, name, values)
        try:
            found = audit(tmp_path)
        except InputError:
            continue
        assert found.unread is not None
