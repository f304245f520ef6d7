"""The reaper against a real API server, with its own rights: what jobs in containers left is deleted, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from fleet.charts.sweeps import NAMESPACE
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import RUNNER_POD_LABEL
from fleet.loading.config import load
from fleet.render.sweeps.api import METADATA, Api, Object
from fleet.render.sweeps.reaper import Reaper
from fleet.render.sweeps.sweep import reaper, sweep_objects
from tests import builders
from tests.kwok.server import ServerApi, api_server, apply, missing

SPACE, JOBS = "runners-gpu-t4", "runners-gpu-t4-jobs"
LATER = 120
"""Seconds after which nothing is young."""
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Secret": "/api/v1/namespaces/{}/secrets",
}


def of_arc(kind: str) -> Object:
    """The definition of a kind of ARC, with any fields."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": "actions.github.com",
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
    }
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.actions.github.com", "", spec)


def pod(name: str, space: str, owner: str = "") -> Object:
    """A pod that waits for a node."""
    made = manifest("v1", "Pod", name, space, {"containers": [{"name": "job", "image": "example.com/job:1"}]})
    made["metadata"] |= {"labels": {RUNNER_POD_LABEL: owner}} if owner else {}
    return made


def secret(name: str, owner: str = "") -> Object:
    """A Secret of the jobs' namespace."""
    made = manifest("v1", "Secret", name, JOBS) | {"stringData": {"password": "of-a-registry"}}
    made["metadata"] |= {"labels": {RUNNER_POD_LABEL: owner}} if owner else {}
    return made


def names(api: Api) -> list[str]:
    """The names of the pods and Secrets of jobs."""
    return sorted(each["metadata"]["name"] for kind in ("Pod", "Secret") for each in api.list(PATHS[kind].format(JOBS)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerApi, Api, Any]]:
    """The API server as its administrator and as the reaper reach it, and the reaper's settings."""
    folder: Path = tmp_path_factory.mktemp("apiserver")
    sets = {"gpu-t4": builders.runner(containers="job")}
    sweep = reaper(load(builders.config(clusters={"usw2": builders.cluster(runners=sets)})).clusters["usw2"])
    with api_server(folder) as admin:
        spaces = (manifest("v1", "Namespace", space) for space in (NAMESPACE, SPACE, JOBS, "arc-systems"))
        of_sweep = (made for made in sweep_objects(sweep, {}) if made["kind"] not in ("ConfigMap", "Deployment"))
        apply(admin, [*spaces, *map(of_arc, ("EphemeralRunner", "AutoscalingRunnerSet")), *of_sweep])
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        account = f"{PATHS['ServiceAccount'].format(NAMESPACE)}/{sweep.name}/token"
        token = folder / "reaper"
        token.write_text(admin.call("POST", account, asked)["status"]["token"], encoding="ascii")
        (of_kubeconfig,) = json.loads((folder / "kubeconfig").read_text(encoding="ascii"))["clusters"]
        yield admin, Api(of_kubeconfig["cluster"]["server"], token, folder / "apiserver.crt"), sweep.settings


@pytest.mark.kwok
@pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")
def test_what_jobs_left_goes_and_what_is_young_or_of_others_stays(cluster: tuple[ServerApi, Api, Any]) -> None:
    admin, own, settings = cluster
    made = (
        pod("here", SPACE),
        pod("here-workflow", JOBS, "here"),
        secret("here-secret", "here"),
        pod("gone-workflow", JOBS, "gone"),
        pod("gone-step-0a1b2c3d", JOBS, "gone"),
        secret("gone-secret", "gone"),
        secret("of-nobody"),
    )
    apply(admin, made)
    before = names(admin)
    sweep = Reaper(own, settings)
    for _ in range(60):
        for collection in sweep.collections():
            collection.lasts = 1
            # The API server does not serve ARC's kinds at once.
            with suppress(HTTPError):
                collection.follow(int)
        if all(collection.ready for collection in sweep.collections()):
            break
        time.sleep(0.5)
    (secrets,) = (collection for collection in sweep.collections() if collection.path.partition("?")[0].endswith("/secrets"))
    assert sorted(each["metadata"]["name"] for each in secrets.values()) == ["gone-secret", "here-secret"]
    sweep.once(time.time())
    assert names(admin) == before, "all are young"
    sweep.once(time.time() + LATER)
    assert names(admin) == ["here-secret", "here-workflow", "of-nobody"]
    admin.call("DELETE", f"{PATHS['Pod'].format(SPACE)}/here")
    sweep.spaces[SPACE].pods.objects.clear()
    sweep.once(time.time() + 2 * LATER)
    assert names(admin) == ["of-nobody"]


@pytest.mark.kwok
@pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")
def test_the_reaper_reads_secrets_of_jobs_alone_and_asks_for_their_metadata(cluster: tuple[ServerApi, Api, Any]) -> None:
    admin, own, _ = cluster
    apply(admin, [secret("with-a-password")])
    for space in (SPACE, NAMESPACE, "arc-systems", "kube-system"):
        with pytest.raises(HTTPError, match="403"):
            list(own.list(PATHS["Secret"].format(space)))
    with pytest.raises(HTTPError, match="403"):
        own.call("DELETE", f"{PATHS['Pod'].format(SPACE)}/any")
    bare = [each for page in own.pages(PATHS["Secret"].format(JOBS), METADATA) for each in page["items"]]
    assert [each for each in bare if "data" in each] == []
    assert "with-a-password" in {each["metadata"]["name"] for each in bare}
