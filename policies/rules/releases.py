"""Releases of charts, whoever installs them: Helm by a resource of Pulumi's, or ArgoCD by an Application.

An Application has one source (`spec.source`) or several (`spec.sources`, which then stand alone), and each that names a chart is
a release; so is one whose repository is `oci://…`. A source that is a path of a Git repository is none, for what lies there is
not in the program. An ApplicationSet is read by its template, in which what its generators fill in (`{{…}}`) is unknown, as an
output is; a template that a generator has of its own is left out.

ArgoCD takes `valuesObject`, or `values`, which is YAML in a text, where that is not set. `parameters` go over both and
`valueFiles` below, and neither is read here: `unread` names them. (argo-cd 3, docs/user-guide/helm.md and multiple_sources.md;
pkg/apis/application/v1alpha1)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError

from fleet.facts.yaml_text import helm_values

from .kinds import APPLICATION, APPLICATION_SET, RELEASE, SCALE_SET_CHART
from .read import Later, count, entries, keys, text, walk

# What may stand behind a chart's name: the version in an archive's name, a tag or digest.
_CHART_VERSION = re.compile(r"(?:-v?[0-9][^/]*\.tgz)?(?:[:@].*)?$", re.DOTALL)
_OCI = "oci://"
_HERE = ("", "https://kubernetes.default.svc", "in-cluster")
"""How a destination means the cluster that ArgoCD itself runs in."""
_TEMPLATE, _PATCH = ("spec", "template"), ("spec", "templatePatch")

_HELM: Mapping[str, tuple[str, ...]] = {"version": ("version",), "repository": ("repositoryOpts", "repo"), "values": ("values",)}
_ARGO: Mapping[str, tuple[str, ...]] = {
    "version": ("targetRevision",),
    "repository": ("repoURL",),
    "values": ("helm", "valuesObject"),
    "text": ("helm", "values"),
}
# Of a source: what sets values and is not read, and what that is.
_UNREAD = {"valueFiles": "files", "fileParameters": "files", "parameters": "parameters"}


@dataclass(frozen=True, slots=True)
class Unread:
    """What may set values and is not read: where it stands, what it is, and how to mend that."""

    path: str
    what: str
    mend: str

    def fault(self, may: str) -> str:
        """The message of a rule; `may` says what the rule fears of it."""
        return f"{self.path}: {self.what} may {may} and are not read here; {self.mend}"


@dataclass(frozen=True, slots=True)
class Release:
    """A release of a chart. Whatever reads a property raises UnknownValueError.

    `source` is the object that names the chart: the resource's properties, or a source of an Application, whose path `at` begins
    with ("spec.source."). `application` is the whole of that, None for a release of Pulumi's.
    """

    source: Any
    at: str = ""
    application: Any = None

    @property
    def name(self) -> str:
        """The release's name; of an Application its own, unless the source has another."""
        if self.application is None:
            return text(walk(self.source, "name"))
        return text(walk(self.source, "helm", "releaseName")) or text(walk(self.application, "metadata", "name"))

    @property
    def namespace(self) -> str:
        """The namespace that the chart is made for."""
        if self.application is None:
            return text(walk(self.source, "namespace"))
        own = text(walk(self.source, "helm", "namespace"))
        return own or text(walk(self.application, "spec", "destination", "namespace"))

    @property
    def is_here(self) -> bool:
        """Whether it lands in the cluster that the resource is in: ArgoCD may deliver to others."""
        destination = walk(self.application, "spec", "destination")
        return all(text(walk(destination, key)) in _HERE for key in ("server", "name"))

    @property
    def chart(self) -> str:
        """The chart by name, OCI reference or path, as it is written."""
        return text(walk(self.source, "chart")) or self.image

    @property
    def image(self) -> str:
        """The repository, where that is one chart by itself (ArgoCD 3.1 and newer): its tag, or digest, is the version."""
        if self.application is None or text(walk(self.source, "chart")):
            return ""
        address = text(self.repository)
        return address if address.startswith(_OCI) else ""

    @property
    def chart_path(self) -> str:
        """Where that stands."""
        named = self.application is None or text(walk(self.source, "chart"))
        return f"{self.at}chart" if named else self.path("repository")

    @property
    def chart_name(self) -> str:
        """The chart's own name."""
        return _CHART_VERSION.sub("", self.chart.removesuffix("/").rpartition("/")[2], count=1)

    @property
    def is_scale_set(self) -> bool:
        """Whether it is of chart gha-runner-scale-set."""
        return self.chart_name == SCALE_SET_CHART

    @property
    def version(self) -> Any:
        """What stands where the version does, whatever it is."""
        return walk(self.source, *self._fields["version"])

    @property
    def repository(self) -> Any:
        """What stands where the chart's repository does. ArgoCD writes a registry of charts without `oci://`."""
        return walk(self.source, *self._fields["repository"])

    @property
    def values(self) -> Any:
        """The values that the resource gives. A text that is not read is unknown."""
        given = walk(self.source, *self._fields["values"])
        if self.application is None or given is not None:
            return given
        found = helm_values(self._text())
        if not isinstance(found, Mapping):
            raise UnknownValueError(UNKNOWN_STRING_VALUE, self.path("text").split("."))
        return found

    @property
    def values_path(self) -> str:
        """Where the values stand, or would."""
        written = self.application is not None and walk(self.source, *self._fields["values"]) is None and self._text()
        return self.path("text" if written else "values")

    def path(self, field: str) -> str:
        """Where the resource has, or would have, its "version" or "repository"."""
        return self.at + ".".join(self._fields[field])

    def unread(self, later: Later) -> Iterator[Unread]:
        """What sets values besides, or may. Unknown ones are put off."""
        if self.application is None:
            with later:
                if count(walk(self.source, "valueYamlFiles")):
                    yield Unread("valueYamlFiles", "files", "move them to values")
            return
        for key, what in _UNREAD.items():
            with later:
                if count(walk(self.source, "helm", key)):
                    yield Unread(f"{self.at}helm.{key}", what, "move them to valuesObject")
        with later:
            if walk(self.source, *self._fields["values"]) is None and not isinstance(helm_values(self._text()), Mapping):
                yield Unread(self.path("text"), "values that are no plain YAML object", "write them as valuesObject")

    @property
    def _fields(self) -> Mapping[str, tuple[str, ...]]:
        return _HELM if self.application is None else _ARGO

    def _text(self) -> str:
        return text(walk(self.source, *self._fields["text"]))


def releases(token: str, props: Any, later: Later) -> Iterator[Release]:
    """The releases that a resource of `HELM` declares, none for any other. Unknown ones are put off."""
    if token == RELEASE:
        yield Release(props)
        return
    found = False
    for release in sources(token, props, later):
        with later:
            if release.chart:
                found = True
                yield release
    with later:
        # A patch is written by the generators and may change all of it.
        if found and token == APPLICATION_SET and walk(props, *_PATCH):
            raise UnknownValueError(UNKNOWN_STRING_VALUE, list(_PATCH))


def sources(token: str, props: Any, later: Later) -> Iterator[Release]:
    """The sources of an Application, those without a chart too; none for any other resource. Unknown ones are put off."""
    if token not in (APPLICATION, APPLICATION_SET):
        return
    with later:
        base, application = "", props
        if token == APPLICATION_SET:
            base, application = f"{'.'.join(_TEMPLATE)}.", _known(walk(props, *_TEMPLATE), _TEMPLATE)
        spec = walk(application, "spec")
        if count(walk(spec, "sources")):
            for path, source in entries(application, "spec.sources", later):
                yield Release(source, f"{base}{path}.", application)
        elif keys(source := walk(spec, "source")):
            yield Release(source, f"{base}spec.source.", application)


# -- templates ---------------------------------------------------------------------------------------------------------


class _Object(Mapping[str, Any]):
    """An object of an ApplicationSet's template."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: Mapping[str, Any], path: tuple[str, ...]) -> None:
        self._held = held
        self._path = path

    def __getitem__(self, key: str) -> Any:
        return _known(self._held[key], (*self._path, str(key)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class _List(Sequence[Any]):
    """A list of an ApplicationSet's template."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: Sequence[Any], path: tuple[str, ...]) -> None:
        self._held = held
        self._path = path

    def __getitem__(self, index: Any) -> Any:
        return _known(self._held[index], (*self._path, str(index)))

    def __len__(self) -> int:
        return len(self._held)


def _known(value: Any, path: tuple[str, ...]) -> Any:
    """A value of a template. Raises UnknownValueError for a text with a placeholder."""
    if isinstance(value, str):
        if "{{" in value:
            raise UnknownValueError(UNKNOWN_STRING_VALUE, list(path))
        return value
    if isinstance(value, Mapping):
        return _Object(value, path)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return _List(value, path)
    return value
