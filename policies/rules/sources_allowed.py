"""sources-allowed: charts and manifests come from repositories that the stack allows.

Judged: releases of charts (Helm, ArgoCD, Flux, K3s), and the kinds by which a cluster fetches what it applies, of ArgoCD, Flux,
Rancher, Config Sync, Carvel and Pulumi. A chart that this project installs comes from its own repository, any other from one of
the lists. A Git repository is of an owner that the stack serves. Of other kinds, and of the values of charts, the rule takes only
a text that is certainly a Git repository.

A release of Flux names an object with the address. Without that object among the resources the rule is undeterminable. Without
`owners` the pack accepts every Git repository, as runner-group-scoped does; `gpu-ci plan` and `gpu-ci check` take the owners from
the stack file.
"""

import re
from collections.abc import Iterator

from fleet.facts.versions import CHARTS

from .images_pinned import within
from .kinds import HELM, RELEASE, is_object, kind_of
from .read import Data, Later, UndeterminableError, items, keys, line, shown, strings, text, walk
from .record import Unknown, UnknownError, steps
from .releases import Release, installs, releases, step
from .rule import Resource, Stack, StackRule, Violations, entry, facts, said

_FETCHES = re.compile(
    r"kubernetes:(argoproj\.io/\w+:(Application|ApplicationSet|AppProject)"
    r"|([\w-]+\.)*fluxcd\.(io|controlplane\.io)/.*|(fleet|catalog)\.cattle\.io/.*|(configsync\.gke|pkg\.crossplane|kustomize\.config\.k8s)\.io/.*"
    r"|(kappctrl\.k14s|(packaging|data)\.packaging\.carvel|pulumi|addons\.cluster\.x-k8s)\.(io|dev|com)/.*)"
)
"""Kinds by which a cluster fetches what it applies. Of Kustomize it is the file."""
_NAMES = re.compile(r"(?i).*repos?|.*repo(sitory|sitories)?_?(ur[li])?s?|(git_?)?ur[li]|endpoint|package")
"""Keys of an address."""
_PATHS = re.compile(r"(?i)resources|components|bases|crds")
"""Keys of Kustomize with paths, or addresses."""
_PULL = re.compile(r"(refs/)?(pull|merge-requests)/.*")
"""The revision of a pull request, which a fork may write."""
_GIT = re.compile(
    r"((https|ssh)://([^/@\s]+@)?|[\w.-]+@|)(?P<host>[\w-]+(\.[\w-]+)+)(:\d+(?=/))?[:/]+(?P<owner>~?[\w.-]+)/[\w.~/*-]+"
)
_SURE = re.compile(
    r"(?i)(git::|(ssh|git)://|[\w.-]+@[\w.-]+:|(https?://)?([^/@]*@)?(www\.)?(github|gitlab|bitbucket|codeberg)\.\w+/|https?://.*\.git(?!\w)).*"
)
"""What can only be a Git repository."""
_CHART = re.compile(r"(?:oci|https)://[a-z0-9.-]+(?::\d+)?(?:/(?!\.\.?(?:/|$))[a-z0-9._~-]+)*")
_PASSING = frozenset(("values", "valuesObject", "valuesInline", "parameters", "info", "server", "status", "metadata"))
"""Keys of what no cluster fetches."""

_Lists = tuple[tuple[str, ...], ...]


def owner_of(address: str) -> str:
    """Host and owner of a Git repository, in lower case (github.com/acme); "" for another text."""
    match = _GIT.fullmatch(re.split("[?#]", address)[0])
    return f"{match['host']}/{match['owner']}".lower() if match and ".." not in address else ""


def _check(stack: Stack, later: Later) -> Violations:
    lists = tuple(tuple(item.lower().rstrip("/") for item in strings(stack.config, name)) for name in _LISTS)
    for resource in stack.resources:
        for release in releases(resource.type, resource.props, later):
            with later:
                if fault := _chart_fault(release, stack, lists):
                    yield fault, resource.urn
        if installs(resource.type) and later.walk(resource.props, "spec", "chartContent"):
            yield "spec.chartContent is a chart without a repository; write chart and repo", resource.urn
        for path, address in _fetched(resource, later):
            with later:
                if fault := _fault(path, address, lists):
                    yield fault, resource.urn


_LISTS = ("repositories", "extraRepositories", "owners")


def _fetched(resource: Resource, later: Later) -> Iterator[tuple[str, str]]:
    """Path and text of what may be the address of a repository, but for those of charts."""
    token, fetches, of_charts = resource.type, _FETCHES.fullmatch(resource.type) is not None, set[str]()
    for release in releases(token, resource.props, Later()):
        of_charts.add(release.path("repository"))
        with later:
            values = _texts(release.values, release.values_path, "", later)
            yield from ((path, found) for path, key, found in values if key == "repoURL" and "{{" not in found)
    if token == RELEASE or installs(token) or kind_of(token) == "CustomResourceDefinition":
        return
    spec = later.walk(resource.props, "spec")
    body, at = (resource.props, "") if spec is None and fetches else (spec, "spec")
    for path, key, found in _texts(body, at, "", later):
        if path not in of_charts and _is_address(key, found, fetches, "generators" in path):
            yield path.removeprefix("."), found


def _texts(value: Data, path: str, key: str, later: Later) -> Iterator[tuple[str, str, str]]:
    """Path, key and text of each string in a value."""
    if isinstance(value, str):
        yield path, key, value
    elif isinstance(value, dict):
        for name in keys(value):
            if name not in _PASSING:
                yield from _texts(later.walk(value, name), step(path, name), name, later)
    else:
        for index, item in items(value, later):
            yield from _texts(item, f"{path}[{index}]", key, later)


def _is_address(key: str, found: str, fetches: bool, generated: bool) -> bool:
    names, sure = _NAMES.fullmatch(key) is not None, _SURE.match(found) is not None
    if not fetches:
        return sure and names and re.search("(?i)repo|git", key) is not None
    # A generator's URL is that of a cluster, and its repo a name. A text with ! is what a project denies.
    other = found.startswith("!") or (generated and key in ("url", "uri", "repo"))
    return (
        sure
        or _PULL.fullmatch(found) is not None
        or ("://" in found and _PATHS.fullmatch(key) is not None)
        or (names and not other and re.search("[/:*{.]", found) is not None)
    )


def _fault(path: str, address: str, lists: _Lists) -> str:
    """Why a stack does not allow what a cluster fetches; "" if it does. Raises UnknownError for a placeholder."""
    if "{{" in address:
        raise UnknownError(Unknown(steps(path)))
    owner, owners = owner_of(address), lists[2]
    if _allowed(address, lists) or (owner and not owners and _SURE.match(address)):
        return ""
    allowed = line(", ".join(owners), 200) or "none"
    fix = entry("owners", owner) if owner else entry("extraRepositories", _normal(address) or _bare(address))
    return said("other_source", path=path, address=_bare(address), allowed=allowed, fix=fix)


def _chart_fault(release: Release, stack: Stack, lists: _Lists) -> str:
    """Why a stack does not allow a release's chart; "" if it does. Raises UnknownError."""
    address = _referenced(release, stack) if keys(release.reference) else _address(release)
    folder, _, last = address.rstrip("/").rpartition("/")
    name = release.chart_name if not keys(release.reference) else last
    whole, ours = f"{folder}/{name}", CHARTS.get(name.lower())
    if not folder or (
        _normal(whole) in (_normal(f"{ours.repository}/{ours.name}"), *lists[1]) if ours else _allowed(whole, lists)
    ):
        return ""
    home, allow = (_normal(one) or _bare(one) for one in (folder, whole if ours else folder))
    why = f"chart {name} is in {ours.repository}; write that" if ours else "this repository is not allowed; take another"
    return f"{release.chart_path} comes from {shown(home)}: {why}, or {entry('extraRepositories', allow)}"


def _address(release: Release) -> str:
    """The address of a release's chart; "" for a folder, of which chart-version-pinned says that it needs a repository."""
    if "://" in release.chart or not (repository := text(release.repository)):
        return release.chart if "://" in release.chart else ""
    return f"{repository.rstrip('/')}/{release.chart_name}"


def _referenced(release: Release, stack: Stack) -> str:
    """The address of the chart of a release of Flux, by the object that it names. Raises UndeterminableError."""
    kind, name, namespace = (text(walk(release.reference, key)) for key in ("kind", "name", "namespace"))
    home = text(walk(release.application, "metadata", "namespace"))
    for one in stack.resources:
        of = [text(walk(one.props, "metadata", key)) for key in ("name", "namespace")]
        if ".fluxcd.io/" in one.type and [kind_of(one.type), *of] == [kind, name, namespace or home]:
            url = text(walk(one.props, "spec", "url"))
            return url if kind == "OCIRepository" or not url else f"{url.rstrip('/')}/{release.chart_name}"
    raise UndeterminableError(f"the chart comes from {kind} {line(name)}, which is not here, so nothing shows its repository")


def _allowed(address: str, lists: _Lists) -> bool:
    whole = _normal(address)
    return owner_of(address) in lists[2] or (whole != "" and any(within(item, whole) for item in (*lists[0], *lists[1])))


def _normal(address: str) -> str:
    """An address as the lists write it; "" for one that has more than host, port and path. A registry may lack its scheme."""
    whole = address.lower().rstrip("/")
    whole = whole if "://" in whole else f"oci://{whole}"
    return whole if _CHART.fullmatch(whole) else ""


def _bare(address: str) -> str:
    """An address without what may be a password."""
    return re.sub("//[^/@]*@", "//…@", address)


_REPOSITORIES = sorted({chart.repository for chart in CHARTS.values()})
RULE = StackRule(**facts(__name__, repositories=_REPOSITORIES), types=HELM, others=is_object, check=_check)
