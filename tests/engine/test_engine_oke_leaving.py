"""An edit of the shape of a pool on OKE, that of an example: the old node pool stays, cordoned, until its jobs have ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from fleet.facts.scheduling import LEAVING, MOST_NODES_TAG, STORAGE_TAG
from tests.engine import staging
from tests.engine.edits import steps_of
from tests.engine.live import Live
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

STACK, POOL, PATCH = "oke-pods", "oci:ContainerEngine/nodePool:NodePool", "kubernetes:core/v1:NodePatch"
OLD = "sjc-a10-nodes"


def edit(site: Site, **changes: Any) -> None:
    """Changes settings of the pool."""
    file = site.file
    document = yaml.safe_load(file.read_text())
    document["config"]["gpu-ci:clusters"]["sjc"]["pools"]["a10"] |= changes
    file.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with staging.built(tmp_path_factory.mktemp("leaving"), STACK, ("kubernetes", "oci")) as built:
        built.up()
        yield built


def pools(site: Site) -> dict[str, Live]:
    """The node pools of a10 by logical name: Pulumi appends seven digits."""
    live = site.serving["oci"].cloud.live(POOL, lambda each: "sjc-a10-" in each.outputs["name"])
    return {each.outputs["name"][:-8]: each for each in live}


def cordons(site: Site) -> list[Live]:
    return site.serving["kubernetes"].cloud.live(PATCH)


def test_another_shape_makes_a_pool_beside_the_node_pool_of_oke(site: Site) -> None:
    """OCI would update it, for new nodes alone."""
    found = steps_of(site, "shape", "[VM.GPU.A10.1]\n          capacity", "[VM.GPU.A10.2]\n          capacity")
    assert found[POOL, OLD] == (
        "update",
        [f"freeformTags.{tag}" for tag in (STORAGE_TAG, LEAVING.key, MOST_NODES_TAG)],
    )
    changed = {kind: operation for (kind, name), (operation, _) in found.items() if name != OLD}
    assert changed[POOL] == "create"
    assert not {"replace", "delete"} & {operation for (kind, _), (operation, _) in found.items() if kind.startswith("oci:")}


def test_the_old_node_pool_stays_until_its_jobs_end(site: Site) -> None:
    old = pools(site)[OLD]
    old.change("nodeConfigDetails.size", 2)
    edit(site, instanceTypes=["VM.GPU.A10.2"])
    said = site.up(*staging.pack(STACK)).text
    assert f"{OLD} is leaving and has 2 nodes: no node ends now" in said
    (new,) = pools(site).keys() - {OLD}
    assert pools(site)[OLD].id == old.id
    shapes = {name: (pool.inputs["nodeShape"], pool.inputs["nodeConfigDetails"]["size"]) for name, pool in pools(site).items()}
    assert shapes == {OLD: ("VM.GPU.A10.1", 2), new: ("VM.GPU.A10.2", 0)}
    assert old.inputs["nodeMetadata"], "OCI does not list it, and it stays"
    assert len(cordons(site)) == 2
    assert (old.tags[LEAVING.key], old.tags[MOST_NODES_TAG]) == ("true", "2")
    assert f"0:0:{old.id}" in str([addon.inputs for addon in site.serving["oci"].cloud.live("oci:ContainerEngine/addon:Addon")])
    # The autoscaler has ended both, and OKE has removed them from Kubernetes.
    old.change("nodeConfigDetails.size", 0)
    for cordon in cordons(site):
        site.serving["kubernetes"].cloud.remove(cordon)
    assert "leaving" not in site.up().text
    assert pools(site).keys() == {new}
    site.up("--expect-no-changes")


def test_an_edit_that_is_taken_back_finds_the_first_name_again(site: Site) -> None:
    edit(site, instanceTypes=["VM.GPU.A10.1"])
    site.up()
    assert pools(site)[OLD].inputs["nodeShape"] == "VM.GPU.A10.1"
    site.up()
    assert pools(site).keys() == {OLD}
