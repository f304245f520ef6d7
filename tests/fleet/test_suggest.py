"""Where an error is, and what to write instead."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from fleet.facts.errors import FleetError
from fleet.providers.eks.cluster import EksCluster, Network
from fleet.providers.eks.nodes import EksPool
from fleet.providers.fleet import Fleet
from fleet.providers.oke.network import OkeNetwork
from fleet.providers.oke.nodes import NodeImageId, OciReservation, OkePool, OkeSystemPool
from fleet.providers.oke.ocid import ImageId
from fleet.providers.oke.runners import OkePodRunner
from fleet.providers.oke.vm_runner import MachineImage, Place, VmPerJobRunner, VmRunner
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host, Hosts
from fleet.settings import reading
from fleet.settings.gitops import Sops
from fleet.settings.model import MemorySpan, Model
from fleet.settings.operator import Driver
from fleet.settings.reading import read
from tests.cases import cases


@cases(
    ("location", "path", "model"),
    [
        ("", "", Fleet),
        ("clusters.usw2.eks", "clusters.usw2", EksCluster),
        ("clusters.eks.eks.pools.eks", "clusters.eks.pools.eks", EksPool),
        ("clusters.oke.oke.pools.oke", "clusters.oke.pools.oke", OkePool),
        ("clusters.usw2.eks.network", "clusters.usw2.network", Network),
        ("clusters.sjc.oke.network", "clusters.sjc.network", OkeNetwork),
        ("clusters.sjc.oke.system", "clusters.sjc.system", OkeSystemPool),
        ("clusters.sjc.oke.operator.driver", "clusters.sjc.operator.driver", Driver),
        ("clusters.sjc.oke.nodeImages.system", "clusters.sjc.nodeImages.system", NodeImageId),
        ("clusters.sjc.oke.pools.a10.reservation", "clusters.sjc.pools.a10.reservation", OciReservation),
        ("clusters.usw2.eks.runners.pod.memory", "clusters.usw2.runners.pod.memory", MemorySpan),
        ("clusters.sjc.oke.runners.a10.pod", "clusters.sjc.runners.a10", OkePodRunner),
        ("clusters.sjc.oke.runners.pod.pod.memory", "clusters.sjc.runners.pod.memory", MemorySpan),
        ("clusters.sjc.oke.runners.vm.vm", "clusters.sjc.runners.vm", VmRunner),
        ("clusters.sjc.oke.runners.vm.vm.image", "clusters.sjc.runners.vm.image", MachineImage),
        ("clusters.sjc.oke.runners.a10.vm-per-job", "clusters.sjc.runners.a10", VmPerJobRunner),
        ("clusters.sjc.oke.runners.a10.vm-per-job.places.0", "clusters.sjc.runners.a10.places.0", Place),
        ("clusters.home.talos", "clusters.home", TalosCluster),
        ("clusters.talos.talos.pools.talos.nodes", "clusters.talos.pools.talos.nodes", Hosts),
        ("clusters.home.talos.controlPlane.hosts.sops", "clusters.home.controlPlane.hosts.sops", Host),
        ("clusters.home.talos.gitops.secrets.sops", "clusters.home.gitops.secrets", Sops),
        ("clusters.usw2.eks.gitops.secrets.program.by", "clusters.usw2.gitops.secrets.by", None),
        # Below a model, or of a provider that is none.
        ("clusters.sjc.oke.zones.0", "clusters.sjc.zones.0", None),
        ("clusters.sjc.oke.nonsense.pod", "clusters.sjc.nonsense.pod", None),
        ("clusters.sjc.gke.pools", "clusters.sjc.gke.pools", None),
        ("tags.oke", "tags.oke", None),
    ],
)
def test_a_location_is_a_path_without_tags_and_leads_to_a_model(location: str, path: str, model: type | None) -> None:
    steps = tuple(filter(None, location.split(".")))
    assert ".".join(reading.untagged(Fleet, steps)) == path
    assert reading._model_at(Fleet, steps) is model


def test_a_union_without_tags_is_walked_by_its_model() -> None:
    assert reading._model(OciReservation | None) is OciReservation
    assert reading._choices(OciReservation | None) == {}
    assert reading._model(ImageId | None) is None


@cases(
    ("location", "told"),
    [
        ("clusters.usw2.eks.homeRegion", "it belongs to provider oke, remove it"),
        ("clusters.sjc.oke.logTypes", "it belongs to provider eks, remove it"),
        ("clusters.usw2.eks.network.nodeSubnet", "it belongs to provider oke, remove it"),
        ("clusters.usw2.eks.nodeImages", "it belongs to provider oke, remove it"),
        ("clusters.usw2.eks.operator.driver.zones", ""),
        ("clusters.sjc.oke.runners.a10.vm.places", "it belongs to kind vm-per-job, remove it or change kind"),
        ("clusters.sjc.oke.runners.a10.vm.scale", "it belongs to kind pod or vm-per-job, remove it or change kind"),
        ("clusters.sjc.oke.runners.a10.pod.shapes", "it belongs to kind vm or vm-per-job, remove it or change kind"),
        ("clusters.sjc.oke.runners.a10.vm-per-job.count", "it belongs to kind vm, remove it or change kind"),
        ("clusters.usw2.eks.controlPlane", "it belongs to provider talos, remove it"),
        ("clusters.home.talos.zones", "it belongs to provider eks or oke, remove it"),
        ("clusters.home.talos.gitops.secrets.sops.store", "it belongs to by external-secrets, remove it or change by"),
        ("clusters.sjc.oke.gitops.secrets.program.file", "it belongs to by sops, remove it or change by"),
        # Of another provider's pods no less than of this one's.
        ("clusters.usw2.eks.runners.a10.count", ""),
        ("clusters.sjc.oke.runners.a10.vm.place", ""),
        ("clusters.sjc.oke.runners.vm.vm.image.count", ""),
        ("github.region", ""),
        ("region", ""),
    ],
)
def test_a_key_of_another_kind_or_provider_is_told_as_theirs(location: str, told: str) -> None:
    assert reading._elsewhere(Fleet, tuple(location.split("."))) == told


@pytest.mark.parametrize(
    ("key", "known", "told"),
    [
        ("shape", ("shapes", "scale"), "did you mean shapes?"),
        ("availability_domains", ("availabilityDomains", "image"), "did you mean availabilityDomains?"),
        ("zone", ("id", "count"), "known keys: id, count"),
    ],
)
def test_a_close_key_is_offered_or_else_all(key: str, known: tuple[str, ...], told: str) -> None:
    assert reading._instead(key, known) == told


class _Pair(Model):
    one: Annotated[tuple[str, ...], Field(min_length=2)]
    two: Annotated[tuple[str, ...], Field(max_length=1)]
    flag: bool


def test_counts_and_missing_values_are_named_in_plain_grammar() -> None:
    with pytest.raises(FleetError) as caught:
        read(_Pair, "x", {"one": ["a"], "two": ["a", "b"]})
    assert [problem.message for problem in caught.value.problems] == [
        "at least 2 entries are needed; add one",
        "at most 1 entry is possible; remove some",
        "required key is missing; write true or false",
    ]
