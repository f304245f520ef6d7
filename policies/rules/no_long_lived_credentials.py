"""no-long-lived-credentials: a stack has no credentials that stay valid until somebody revokes them.

Judged: AWS and OCI resources that are such a credential, and all places that can contain one in plain text:

- containers of every kind with a pod spec and of ARC's runner set (environment, commands, probes), and annotations of pods
- values of Helm releases, Secrets, ConfigMaps, user data of machines and nodes
- all of an object of another kind

The rule reads texts as they are and decoded from base64, compressed or not. A variable that is named as a token or a password,
with letters and digits as its value, is one, too. A GitHub App's private key belongs in a Secret, under the key that ARC reads; a
file of manifests has none.

No message shows a value. If a preview does not know a value under `lateKeys`, the rule is not undeterminable: the update knows
the value, and judges it before it creates the resource.
"""

import re
from collections.abc import Collection, Iterator

from fleet.facts.credentials import AWS_KEY_ID, GITHUB_FINE_GRAINED_TOKEN, GITHUB_TOKEN, PRIVATE_KEY
from fleet.facts.tables import beside

from . import kinds
from .pods import containers_of, pod_specs
from .read import Data, Faults, Later, entries, keys, line, strings, text, walk
from .releases import Release, releases, sources, step, texts
from .rule import Args, Rule, facts, in_files, said
from .userdata import readings

FORBIDDEN: dict[str, str] = beside(__file__, "forbidden.toml")
"""Kinds that are a credential, or a user who needs one."""

_PRIVATE_KEY = "a private key"
_KINDS = {"github": "a GitHub token", "aws": "an AWS access key id", "hub": "a Hugging Face token", "key": _PRIVATE_KEY}
_CREDENTIAL = re.compile(
    rf"(?P<github>\b(?:{GITHUB_TOKEN}[A-Za-z0-9]{{36}}|{GITHUB_FINE_GRAINED_TOKEN}[A-Za-z0-9_]{{22}}))"
    rf"|(?P<aws>\b{AWS_KEY_ID}\b)"
    r"|(?P<hub>\bhf_[A-Za-z0-9]{34}\b)"
    rf"|(?P<key>{PRIVATE_KEY})"
)
_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type of Secrets
_NAMED = re.compile(r"(?i)(.*_)?(token|password|passwd|secret|api_?key)")
_OPAQUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.~-]{16,}")
# Fields of a container without free text. A preview often does not know their values.
_IDLE = frozenset(("name", "image", "imagePullPolicy", "resources", "securityContext", "ports", "volumeMounts"))


def _check(args: Args, later: Later) -> Faults:
    token = args.type
    if token in FORBIDDEN:
        yield f"{FORBIDDEN[token]}: this credential works for anybody who has it, and never expires"
        return
    if token in kinds.SECRETS and text(later.walk(args.props, "type")) == _ACCOUNT_TOKEN:
        yield f"type is {_ACCOUNT_TOKEN}: the token of a service account in it never expires; let pods ask for theirs"
    allowed, late = (frozenset(strings(args.config, name)) for name in ("secretKeys", "lateKeys"))
    for release in releases(token, args.props, later):
        with later:
            if release.is_scale_set and keys(walk(release.values, "githubConfigSecret")):
                yield said("secret_in_values", release=release)
    if in_files(args.urn):
        allowed = frozenset()
    for path, key, content in _texts(token, args.props, late, later):
        for kind in _credentials(content):
            if not (kind == _PRIVATE_KEY and token in kinds.SECRETS and key in allowed):
                yield said("long_lived", path=path, kind=kind)
    yield from _named(token, args.props, later)


def _named(token: str, props: Data, later: Later) -> Faults:
    """The variables that are named as a token or a password, and have one as their value."""
    for pod in pod_specs(token, props, later):
        for container in containers_of(pod, later):
            for path, variable in entries(container.body, "env", later):
                name, value = (text(later.walk(variable, key)) for key in ("name", "value"))
                if _NAMED.fullmatch(name) and _OPAQUE.fullmatch(value) and not _credentials(value):
                    yield said("secret_in_variable", pod=pod, container=container, path=path, name=name)


def _texts(token: str, props: Data, late: frozenset[str], later: Later) -> Iterator[tuple[str, str, str]]:
    """Path, key (of a Secret or ConfigMap, else "") and text of every place for a credential. `later` collects unknown ones."""
    if token in kinds.SECRETS | kinds.CONFIG_MAPS:
        for prefix, holder in kinds.each(token, props, later):
            for field in ("data", "stringData", "binaryData"):
                yield from _entries(f"{prefix}{field}", holder, field, late, later)
    elif token == kinds.RELEASE:
        yield from _of_values(Release(props), later)
    elif token in kinds.HELM:
        for source in sources(token, props, later):
            yield from _of_source(source, later)
    elif token in _FIELDS:
        for prefix, holder in kinds.bodies(token, props, later):
            for way in _FIELDS[token]:
                yield from _below(f"{prefix}{'.'.join(way)}", later.walk(holder, *way), later)
    elif kinds.may_have_pods(token):
        # A preview often does not know a value of such an object. An update knows it, and judges it again.
        for name in keys(props):
            yield from _below(name, Later().walk(props, name), Later())
    else:
        yield from _of_pods(token, props, later)


def _of_values(release: Release, later: Later) -> Iterator[tuple[str, str, str]]:
    with later:
        given = later.walk(release.values, "githubConfigSecret") if release.is_scale_set else None
        yield from _inside(release.values_path, release.values, ("githubConfigSecret",) if keys(given) else (), later)


def _of_source(source: Release, later: Later) -> Iterator[tuple[str, str, str]]:
    """The Helm settings of an Application's source, which names a chart or a path of a Git repository."""
    yield from _inside(f"{source.at}helm", later.walk(source.source, "helm"), ("values", "valuesObject"), later)
    unread = Later()
    yield from _of_values(source, unread)
    if unread:
        # Text that is not YAML may contain a credential, too.
        yield from _below(f"{source.at}helm.values", unread.walk(source.source, "helm", "values"), unread)
    later.join(unread)


def _of_pods(token: str, props: Data, later: Later) -> Iterator[tuple[str, str, str]]:
    for pod in pod_specs(token, props, later):
        for name in keys(pod.annotations):
            yield f"{pod.path}: annotation {line(name)}", "", text(Later().walk(pod.annotations, name))
        for container in containers_of(pod, later):
            yield from _inside(f"{pod.path}.{container.path}", container.body, _IDLE, later)


def _entries(path: str, holder: Data, field: str, late: frozenset[str], later: Later) -> Iterator[tuple[str, str, str]]:
    entries = later.walk(holder, field)
    yield from ((step(path, key), key, text((Later() if key in late else later).walk(entries, key))) for key in keys(entries))


def _inside(path: str, holder: Data, passing: Collection[str], later: Later) -> Iterator[tuple[str, str, str]]:
    """The texts in an object without those under the keys `passing`."""
    for name in keys(holder):
        if name not in passing:
            yield from _below(step(path, name), later.walk(holder, name), later)


def _below(path: str, value: Data, later: Later) -> Iterator[tuple[str, str, str]]:
    yield from ((where, "", content) for where, content in texts(value, path, later))


def _credentials(content: str) -> list[str]:
    """The kinds of credentials in a text, however it is encoded, in the order of `_KINDS`."""
    # The shortest credential has so many characters.
    if len(content) < 20:
        return []
    groups = {match.lastgroup for read in readings(content) for match in _CREDENTIAL.finditer(read)}
    return [kind for group, kind in _KINDS.items() if group in groups]


_FIELDS = kinds.fields("texts")

_TYPES = frozenset((*FORBIDDEN, *_FIELDS)) | kinds.PODS | kinds.SECRETS
RULE = Rule(**facts(__name__), types=_TYPES, others=kinds.may_have_pods, check=_check)
