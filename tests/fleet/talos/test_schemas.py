"""Every file against the schemas that Talos and talhelper publish.

They are in `talos/<minor>/config.schema.json` and `talhelper/talconfig.json` of the folder in GPU_CI_REFERENCE, or in
`<minor>/config.schema.json` and `talhelper/talconfig.json` of the one in GPU_CI_TALOS_SCHEMAS. Talos' own are
`pkg/machinery/config/schemas/config.schema.json` of siderolabs/talos at the pinned release.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from fleet.providers.talos.boot.patch import Patch
from fleet.providers.talos.cluster import TalosCluster
from tests.builders import reference
from tests.fleet.talos.made import GPU_PATCH, MINORS, SYSTEM, VOLUME, cluster, clusters, kinds, pool, read, some

pytestmark = pytest.mark.reference
each_minor = pytest.mark.parametrize("minor", MINORS)
Schema = Any
"""A validator, which has no types."""
Kinds = dict[str | None, Schema]
"""The part of Talos' schema for each kind of document: every other part refuses it for its kind. The v1alpha1 config has none."""
TALHELPER = "talhelper/talconfig.json"


def published(path: str, folder: str = "") -> Any:
    """A published schema; skips the test where there is no copy of it. `folder` is its place in GPU_CI_REFERENCE."""
    own = os.environ.get("GPU_CI_TALOS_SCHEMAS")
    file = Path(own) / path if own else reference(f"{folder}{path}")
    if not file.exists():
        pytest.skip(f"{path} is in no folder of GPU_CI_TALOS_SCHEMAS or GPU_CI_REFERENCE")
    return json.loads(file.read_text(encoding="utf-8"))


def by_kind(whole: Any) -> Kinds:
    """A schema of Talos', which is one of many definitions, by the kind that a definition requires."""
    parts: Kinds = {}
    for part in whole["oneOf"]:
        definition = whole["$defs"][part["$ref"].rpartition("/")[2]]
        kind = definition["properties"].get("kind")
        assert kind is None or "kind" in definition["required"]
        for name in kind["enum"] if kind else [None]:
            assert name not in parts
            parts[name] = Draft202012Validator(whole | {"oneOf": [part]})
    return parts


@pytest.fixture(scope="module")
def talos() -> dict[str, Kinds]:
    """Talos' schemas by minor."""
    return {minor: by_kind(published(f"{minor}/config.schema.json", "talos/")) for minor in MINORS}


@pytest.fixture(scope="module")
def talhelper() -> Schema:
    """That of talconfig.yaml."""
    return Draft202012Validator(published(TALHELPER))


def wrong(schema: Kinds, document: Any) -> list[str]:
    """What a schema finds. Deletions are not part of it: a document that is one must be of a kind that the schema has."""
    kind = document.get("kind")
    if kind not in schema:
        return [f"no kind {kind}"]
    return [] if document.get("$patch") == "delete" else [error.message for error in schema[kind].iter_errors(document)]


def machine_documents(files: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    """(path, document) of every patch."""
    folders = ("patches/", "hosts/")
    return [(path, document) for path, documents in files.items() if path.startswith(folders) for document in documents]


@some
@given(made=clusters())
def test_every_patch_is_what_talos_takes_and_every_talconfig_what_talhelper_takes(
    talos: dict[str, Kinds], talhelper: Schema, made: TalosCluster
) -> None:
    files = read(made)
    schema = talos[made.talos_version]
    errors = [(path, wrong(schema, document)) for path, document in machine_documents(files)]
    assert [(path, messages) for path, messages in errors if messages] == []
    (config,) = files["talconfig.yaml"]
    assert [error.message for error in talhelper.iter_errors(config)] == []


@each_minor
def test_every_kind_of_file_is_there_to_be_held_against_the_schema(talos: dict[str, Kinds], minor: str) -> None:
    made = cluster(talosVersion=minor, cni="none", system=SYSTEM, pools={"gpu": pool(nodes={"hosts": {"gpu-0": VOLUME}})})
    found = {path for path, document in machine_documents(read(made)) if not wrong(talos[minor], document)}
    assert found == {
        "hosts/control-0.yaml",
        "hosts/gpu-0.yaml",
        "hosts/system-0.yaml",
        "patches/pools/gpu.yaml",
        "patches/system.yaml",
        "patches/volumes/gpu-0.yaml",
    }


def test_a_sysctl_is_what_talos_takes(talos: dict[str, Kinds]) -> None:
    for minor, schema in talos.items():
        (document,) = Patch(sysctls={"net.core.bpf_jit_harden": "1"}).documents(minor)
        assert wrong(schema, document) == []


# -- the schemas find what is wrong ------------------------------------------------------------------------------------


def renamed(document: Any, path: tuple[str | int, ...], key: str) -> Any:
    """A copy with the key at a path spelled otherwise."""
    made = copy.deepcopy(document)
    parent = made
    for part in path[:-1]:
        parent = parent[part]
    parent[key] = parent.pop(path[-1])
    return made


def with_taints(document: Any, key: str) -> Any:
    """A copy whose machine has taints as a map under a key."""
    return document | {"machine": document["machine"] | {key: {"nvidia.com/gpu": "true:NoSchedule"}}}


@pytest.mark.parametrize("minor", ["1.12", "1.13"])
def test_a_misspelt_field_is_found(talos: dict[str, Kinds], minor: str) -> None:
    (document,) = read(cluster(talosVersion=minor))[GPU_PATCH]
    schema = talos[minor]
    assert wrong(schema, document) == []
    assert wrong(schema, with_taints(document, "nodeTaints")) == []
    assert wrong(schema, with_taints(document, "nodeTaint"))
    assert wrong(schema, renamed(document, ("machine", "kernel", "modules", 1, "name"), "nme"))
    assert wrong(schema, renamed(document, ("machine", "files", 0, "op"), "operation"))
    assert wrong(schema, renamed(document, ("machine", "nodeLabels"), "nodeLabel"))
    number = document | {"machine": document["machine"] | {"sysctls": {"net.core.bpf_jit_harden": 1}}}
    assert wrong(schema, number), "a sysctl is a text"


def test_a_misspelt_document_is_found(talos: dict[str, Kinds]) -> None:
    schema = talos["1.14"]
    made = kinds(read(cluster(talosVersion="1.14"))[GPU_PATCH])
    (node,), (runtime,), module = made["KubeNodeConfig"], made["CRICustomizationConfig"], made["KernelModuleConfig"][0]
    for document, key, other in (
        (node, "taints", "taint"),
        (node, "labels", "nodeLabels"),
        (runtime, "content", "contents"),
        (module, "name", "nme"),
    ):
        assert wrong(schema, document) == []
        assert wrong(schema, renamed(document, (key,), other)), other
    assert wrong(schema, node | {"kind": "NodeConfig"})
    assert wrong(schema, node | {"labels": {"gpu": True}}), "a label is a text"
    assert wrong(schema, {"apiVersion": "v1alpha1", "kind": "KubeFlannelConfig", "$patch": "delete"})


@each_minor
def test_a_misspelt_volume_is_found(talos: dict[str, Kinds], minor: str) -> None:
    made = cluster(talosVersion=minor, pools={"gpu": pool(nodes={"hosts": {"gpu-0": VOLUME}})})
    kept, volume = read(made)["patches/volumes/gpu-0.yaml"]
    for document, path, other in (
        (kept, ("provisioning", "maxSize"), "size"),
        (volume, ("provisioning", "diskSelector", "match"), "matches"),
        (volume, ("provisioning",), "provision"),
    ):
        assert wrong(talos[minor], document) == []
        assert wrong(talos[minor], renamed(document, path, other)), other


def test_what_one_release_takes_another_refuses(talos: dict[str, Kinds]) -> None:
    (old,) = read(cluster(talosVersion="1.13"))[GPU_PATCH]
    (node,) = kinds(read(cluster(talosVersion="1.14"))[GPU_PATCH])["KubeNodeConfig"]
    assert wrong(talos["1.14"], old), "its schema has no older field"
    assert wrong(talos["1.13"], node)
    (control,) = read(cluster(talosVersion="1.13"))["patches/control-plane.yaml"]
    assert wrong(talos["1.13"], control) == []
    assert wrong(talos["1.12"], control), "its Flannel enforces no policies"


def test_a_misspelt_talconfig_is_found(talhelper: Schema) -> None:
    (config,) = read(cluster(pools={"gpu": pool()}))["talconfig.yaml"]
    assert not list(talhelper.iter_errors(config))
    for path, other in (
        (("endpoint",), "endpoints"),
        (("nodes", 1, "installDisk"), "disk"),
        (("nodes", 1, "schematic", "customization", "systemExtensions"), "extensions"),
        (("nodes", 0, "patches"), "patch"),
    ):
        assert list(talhelper.iter_errors(renamed(config, path, other))), other
