"""From a kubeconfig, or from within a pod, to a cluster.

Texts of the client's own errors are never shown: some hold a whole entry of the kubeconfig, token and all, as the place of the
fault, and those of its YAML reader quote the file. Nor are they chained, for a traceback would show them. Import this module
late: the client takes a third of a second to load.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from fleet.facts.yaml_text import YAMLError
from submit.cluster import Cluster
from submit.errors import InputError
from submit.objects import Object, listed, one_line, part, text

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account's token and namespace."""
_UNUSABLE = (ConfigException, YAMLError, OSError, LookupError, TypeError, ValueError, AttributeError)
"""What the client raises over a kubeconfig that it cannot use."""


def connect(kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster that a kubeconfig leads to; within a pod that has none, the pod's own.

    Without `kubeconfig` the files in KUBECONFIG are read, else ~/.kube/config; without `context` the current one; without
    `namespace` the context's, else `default`. Nothing is asked of the cluster yet. Raises InputError.
    """
    configuration = Configuration()
    # We count and space retries ourselves: the pool's own come at once and log to stderr.
    configuration.retries = False
    configuration.keep_alive = True
    # One connection for each log that is followed, and some.
    configuration.connection_pool_maxsize = 64
    paths = _paths(kubeconfig)
    if not paths and kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        home = _of_pod(configuration)
    else:
        home = _of_files(paths, context, configuration)
    given = {"--kubeconfig": kubeconfig and str(kubeconfig), "--context": context}
    api = ApiClient(configuration)
    api.user_agent = "gpu-ci-submit"
    options = " ".join(f"{option} {shlex.quote(value)}" for option, value in given.items() if value)
    return Cluster(api, namespace or home or "default", options)


def _paths(kubeconfig: Path | None) -> list[Path]:
    """The kubeconfig files that there are, the first of them the strongest."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise InputError(f"--kubeconfig: there must be a file; {kubeconfig} is none; name another")
        return [kubeconfig]
    named = os.environ.get("KUBECONFIG")
    texts = named.split(os.pathsep) if named else ["~/.kube/config"]
    return [path for word in texts if word and (path := Path(word).expanduser()).is_file()]


def _of_pod(configuration: Any) -> str:
    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError):
        raise InputError(
            f"there is no kubeconfig, and the pod's service account in {ACCOUNT} cannot be used; give the pod one that may "
            "create Jobs, or name a file with --kubeconfig"
        ) from None
    try:
        return (ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def _of_files(paths: list[Path], context: str | None, configuration: Any) -> str:
    """Reads server and credentials into the configuration; the context's namespace."""
    if not paths:
        raise InputError(
            "there is no kubeconfig: neither ~/.kube/config nor a file in KUBECONFIG; make one "
            "(aws eks update-kubeconfig, oci ce cluster create-kubeconfig) or name it with --kubeconfig"
        )
    shown = os.pathsep.join(map(str, paths))
    try:
        merged = KubeConfigMerger(shown).config
    except _UNUSABLE:
        raise InputError(f"{shown}: a kubeconfig is YAML with clusters, contexts and users; this one is not; mend it") from None
    held = merged.value if merged is not None and isinstance(merged.value, Mapping) else {}
    contexts = {entry.value["name"]: entry.value for entry in held.get("contexts", []) if text(entry.value, "name")}
    wanted = context or held.get("current-context") or ""
    if wanted not in contexts:
        what = f"--context: the kubeconfig has no context {wanted!r}" if context else "the kubeconfig names no current context"
        raise InputError(f"{what}; choose with --context one of: {listed(sorted(contexts))}")
    chosen = part(contexts[wanted], "context")
    with _complaints() as complaints:
        try:
            # persist_config would write renewed tokens into the user's file.
            KubeConfigLoader(merged, active_context=wanted, config_base_path=None).load_and_set(configuration)
        except _UNUSABLE as error:
            raise InputError(
                f"{shown}: context {wanted} cannot be used: {_safe(error)}; look at its cluster and user there"
            ) from None
    plugin = _plugin(held, text(chosen, "user"))
    if complaints and plugin is not None:
        raise InputError(
            f"{shown}: the credential plugin `{text(plugin, 'command')}` of user {text(chosen, 'user')} failed; run it by hand, "
            "or log in again"
        )
    return text(chosen, "namespace")


def _plugin(held: Mapping[str, Any], user: str) -> Object | None:
    """The program that a user's credentials come from, if they come from one."""
    users = {text(entry.value, "name"): entry.value for entry in held.get("users", [])}
    return part(users.get(user), "user", "exec") or None


def _safe(error: Exception) -> str:
    """What may be shown of an error of the client's: that a file is missing, and which."""
    words = str(error)
    if isinstance(error, OSError) and error.filename:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(words) if words.startswith("File does not exist: ") else "a part of it is missing or is not what it should be"


class _Collector(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def _complaints() -> Iterator[list[logging.LogRecord]]:
    """Collects what is logged as an error meanwhile: the client tells a failed credential plugin in no other way."""
    handler = _Collector(logging.ERROR)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.records
    finally:
        root.removeHandler(handler)
