"""Releases of charts, installed by Helm (a resource of Pulumi), by ArgoCD (an Application), by Flux or by K3s.

An Application has one source (`spec.source`) or several (`spec.sources`, which replace it). Each source that names a chart is a
release; one whose repository is `oci://…` is a release too. A source that is a path of a Git repository is not, because the
program does not have the files there. An ApplicationSet is read through its template. The placeholders that its generators fill
in (`{{…}}`) are unknown, like an output. A generator's own template is left out.

ArgoCD uses `valuesObject`, or, if that is not set, `values` (YAML text). `parameters` override both, and both override
`valueFiles`. The rules read neither `parameters` nor `valueFiles`: `unread` reports them. (argo-cd 3, docs/user-guide/helm.md and
multiple_sources.md; pkg/apis/application/v1alpha1)

A HelmRelease of Flux names its repository by an object beside it: `reference`. (fluxcd/helm-controller, api/v2;
k3s-io/helm-controller, pkg/apis/helm.cattle.io/v1)

Values, containers and metadata have objects and texts at any depth: `objects` and `texts` give them with their paths.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fleet.facts.credentials import mask
from fleet.facts.record import Record
from fleet.facts.tables import beside
from fleet.facts.yaml_text import helm_values

from .kinds import APPLICATION, APPLICATION_SET, RELEASE, SCALE_SET_CHART, kind_of
from .read import Data, Later, count, entries, items, keys, known, once, shown, text, walk
from .record import Step, Unknown, UnknownError, changed, steps

# What may follow a chart's name: the version in an archive's name, a tag or digest.
_CHART_VERSION = re.compile(r"(?:-v?[0-9][^/]*\.tgz)?(?:[:@].*)?$", re.DOTALL)
_TEMPLATE, _PATCH = ("spec", "template"), ("spec", "templatePatch")

_Path = tuple[str, ...]


class _Form(NamedTuple):
    """Where a kind has what it says of a release, in its source.

    `unread` are fields that set values and that the rules do not read, and the word for each.
    """

    version: _Path = ("version",)
    repository: _Path = ("repo",)
    chart: _Path = ("chart",)
    values: _Path = ("values",)
    text: _Path = ("values",)
    name: _Path = ("releaseName",)
    namespace: _Path = ("targetNamespace",)
    reference: _Path = ()
    unread: Mapping[_Path, str] = {}


def _form_of(row: Mapping[str, Any]) -> _Form:
    paths = {name: tuple(path.split(".")) for name, path in row.items() if name != "unread"}
    return _Form(**paths, unread={tuple(path.split(".")): word for path, word in row.get("unread", {}).items()})


_FORMS = {name: _form_of(row) for name, row in beside(__file__, "forms.toml").items()}
"""By group and kind those of any version, of other projects, that install a chart. Each has the source in its `spec`."""
_HELM, _ARGO, _FLUX = (_FORMS[name] for name in ("helm", "argo", "helm.toolkit.fluxcd.io/HelmRelease"))


def installs(token: str) -> bool:
    """Whether this is one of the other projects' kinds that install a chart."""
    return _form(token) is not None


def _form(token: str) -> _Form | None:
    return _FORMS.get(f"{token.partition('/')[0].removeprefix('kubernetes:')}/{kind_of(token)}")


class Release(Record):
    """A release of a chart. Every property that reads a value raises UnknownError.

    `source` is the object that names the chart: the resource's properties, or a source of an Application. `at` is the path of
    that source ("spec.source."). `application` is the whole Application, None for a Helm release of Pulumi. `form` says where the
    source has what.
    """

    source: Data
    at: str = ""
    application: Data = None
    form: _Form = _HELM

    @property
    def name(self) -> str:
        """The release's name. An Application gives its own name to the release unless the source has another."""
        return text(walk(self.source, *self.form.name)) or text(walk(self.application, "metadata", "name"))

    @property
    def namespace(self) -> str:
        """The namespace that the chart is installed in."""
        otherwise = ("spec", "destination") if self.form is _ARGO else ("metadata",)
        return text(walk(self.source, *self.form.namespace)) or text(walk(self.application, *otherwise, "namespace"))

    @property
    def is_here(self) -> bool:
        """Whether the release goes to the resource's own cluster, in which ArgoCD itself runs: it may deliver to others."""
        own = ("", "https://kubernetes.default.svc", "in-cluster")
        destination = walk(self.application, "spec", "destination")
        return all(text(walk(destination, key)) in own for key in ("server", "name"))

    @property
    def chart(self) -> str:
        """The chart by name, OCI reference or path, as it is written."""
        return text(walk(self.source, *self.form.chart)) or self.image or text(walk(self.source, "chartRef", "name"))

    @property
    def reference(self) -> Data:
        """The reference to an object that has the chart's repository, or is the chart; None where the release names it."""
        reference = walk(self.source, *self.form.reference) if self.form.reference else None
        return reference or (walk(self.source, "chartRef") if self.form is _FLUX else None)

    @property
    def image(self) -> str:
        """The repository, if it is a single chart (ArgoCD 3.1 and newer): its tag or digest is the version. Else ""."""
        if self.form is not _ARGO or text(walk(self.source, "chart")):
            return ""
        return address if (address := text(self.repository)).startswith("oci://") else ""

    @property
    def chart_path(self) -> str:
        """The path of the property that names the chart."""
        in_chart = self.form is not _ARGO or text(walk(self.source, "chart"))
        return self.path("chart") if in_chart else self.path("repository")

    @property
    def chart_name(self) -> str:
        """The chart's own name."""
        return _CHART_VERSION.sub("", self.chart.removesuffix("/").rpartition("/")[2], count=1)

    @property
    def is_scale_set(self) -> bool:
        """Whether it is a release of chart gha-runner-scale-set."""
        return self.chart_name == SCALE_SET_CHART

    @property
    def version(self) -> Data:
        """The value of the version field, of any type."""
        return walk(self.source, *self.form.version)

    @property
    def repository(self) -> Data:
        """The value of the chart's repository field, of any type. ArgoCD writes a registry of charts without `oci://`."""
        return walk(self.source, *self.form.repository)

    @property
    def values(self) -> Data:
        """The values that the resource gives. A text that is not plain YAML is unknown."""
        values = walk(self.source, *self.form.values)
        if self.application is None or values is not None:
            return values
        if not isinstance(parsed := helm_values(self._text()), Mapping):
            raise UnknownError(Unknown(steps(self.path("text"))))
        return parsed

    @property
    def values_path(self) -> str:
        """The path of the values, set or not."""
        written = self.application is not None and walk(self.source, *self.form.values) is None and self._text()
        return self.path("text" if written else "values")

    def path(self, field: str) -> str:
        """The path of a field of the form, such as "version", set or not."""
        return self.at + ".".join(getattr(self.form, field))

    def unread(self, may: str, later: Later) -> Iterator[str]:
        """The faults of everything else that sets values: what it `may` do is not read. `later` collects unknown values."""
        fix = f"move them to {self.form.values[-1]}"
        for path, noun in self.form.unread.items():
            if count(setters := later.walk(self.source, *path)) or keys(setters):
                yield f"{self.at}{'.'.join(path)}: {noun} may {may} and are not read; {fix}"
        with later:
            given = self.application is None or walk(self.source, *self.form.values) is not None
            if not (given or isinstance(helm_values(self._text()), Mapping)):
                what = "values that are not a plain YAML object"
                yield f"{self.path('text')}: {what} may {may} and are not read; write them as valuesObject"

    def _text(self) -> str:
        return text(walk(self.source, *self.form.text))


@once
def releases(token: str, props: Data, later: Later) -> Iterator[Release]:
    """The releases that a resource of `HELM` declares, none for any other. `later` collects unknown values."""
    if token == RELEASE:
        yield Release(props)
        return
    if (form := _form(token)) is not None:
        with later:
            release = Release(walk(props, "spec"), "spec.", props, form)
            if release.chart:
                yield release
        return
    any_chart = False
    for release in sources(token, props, later):
        with later:
            if release.chart:
                any_chart = True
                yield release
    with later:
        # Generators write the patch, and it may change every field.
        if any_chart and token == APPLICATION_SET and walk(props, *_PATCH):
            raise UnknownError(Unknown(_PATCH))


def sources(token: str, props: Data, later: Later) -> Iterator[Release]:
    """The sources of an Application, also those without a chart; none for any other resource. `later` collects unknown values."""
    if token not in (APPLICATION, APPLICATION_SET):
        return
    with later:
        base, application = "", props
        if token == APPLICATION_SET:
            base, application = f"{'.'.join(_TEMPLATE)}.", known(changed(walk(props, *_TEMPLATE), _filled_in, _TEMPLATE))
        spec = walk(application, "spec")
        if count(walk(spec, "sources")):
            for path, source in entries(application, "spec.sources", later):
                yield Release(source, f"{base}{path}.", application, _ARGO)
        elif keys(source := walk(spec, "source")):
            yield Release(source, f"{base}spec.source.", application, _ARGO)


def _filled_in(value: Data, path: tuple[Step, ...]) -> Data:
    """A value of an ApplicationSet's template. A text with a placeholder is unknown."""
    return Unknown(path) if isinstance(value, str) and "{{" in value else value


SCHEDULING = frozenset(("annotations", "labels", "env", "resources", "tolerations", "nodeSelector", "affinity"))
"""Keys of values that contain no pod, container or image, but often values that are unknown in a preview."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def passed_over(release: Release) -> frozenset[str]:
    """Keys of a release's values that `objects` skips. The scale-set chart's pod templates are judged as pods.

    Raises UnknownError.
    """
    return SCHEDULING | {"template", "listenerTemplate"} if release.is_scale_set else SCHEDULING


def objects(value: Data, path: str, later: Later, passing: frozenset[str]) -> Iterator[tuple[str, Data]]:
    """Path and body of each object in the value, without those under the keys `passing`. `later` collects unknown ones."""
    if isinstance(value, dict):
        yield path, value
    for inner, child in _children(value, path, later, passing):
        # Most values have nothing below them.
        if isinstance(child, (dict, list)):
            yield from objects(child, inner, later, passing)


def texts(value: Data, path: str, later: Later) -> Iterator[tuple[str, str]]:
    """Path and text of each string in the value. `later` collects unknown ones."""
    if isinstance(value, str):
        yield path, value
    for inner, child in _children(value, path, later, frozenset()):
        if isinstance(child, str):
            yield inner, child
        elif isinstance(child, (dict, list)):
            yield from texts(child, inner, later)


def _children(value: Data, path: str, later: Later, passing: frozenset[str]) -> Iterator[tuple[str, Data]]:
    if isinstance(value, dict):
        yield from ((step(path, key), later.walk(value, key)) for key in sorted(value) if key not in passing)
    else:
        yield from ((f"{path}[{index}]", item) for index, item in items(value, later))


def step(path: str, key: str) -> str:
    """The path of an object's key. A key may be a credential, so it is masked."""
    return path + _suffix(key)


@lru_cache(maxsize=1024)
def _suffix(key: str) -> str:
    key = mask(key)
    return f".{key}" if _PLAIN.fullmatch(key) else f"[{shown(key)}]"
