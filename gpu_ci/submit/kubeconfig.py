"""Connects to the cluster of a kubeconfig, or of the pod that this process runs in.

Error texts of the client are never shown or chained: some contain a whole entry of the kubeconfig with its token, and those of
its YAML reader quote the file. Import this module late: loading the client takes a third of a second.
"""

import logging
import os
import shlex
from collections.abc import Mapping
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from fleet.facts.nested import part
from fleet.facts.yaml_text import YAMLError
from fleet.loading.files import listed
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import InputError
from gpu_ci.submit.objects import one_line, text

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token and the namespace of its service account."""
_UNUSABLE = (ConfigException, YAMLError, OSError, LookupError, TypeError, ValueError, AttributeError)
"""What the client raises for a kubeconfig that it cannot use."""


def connect(kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster of a kubeconfig; in a pod without a kubeconfig, the pod's own cluster.

    Without `kubeconfig` the files in KUBECONFIG are read, else ~/.kube/config. Defaults: the current context; the context's
    namespace, else `default`. Sends no request yet. Raises InputError.
    """
    configuration = Configuration()
    # `submit` retries itself, with pauses. The retries of the connection pool have none, and log to stderr.
    configuration.retries = False
    configuration.keep_alive = True
    # One connection per followed log, and some more.
    configuration.connection_pool_maxsize = 64
    paths = _paths(kubeconfig)
    if not paths and kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        default = _from_pod(configuration)
    else:
        default = _from_files(paths, context, configuration)
    flags = {"--kubeconfig": kubeconfig and str(kubeconfig), "--context": context}
    api = ApiClient(configuration)
    api.user_agent = "gpu-ci-submit"
    options = " ".join(f"{option} {shlex.quote(value)}" for option, value in flags.items() if value)
    return Cluster(api, namespace or default or "default", options)


def contexts() -> list[str]:
    """The names of the contexts in KUBECONFIG or ~/.kube/config. Raises InputError for a file that is not a kubeconfig."""
    return sorted(_contexts(_merged(paths))) if (paths := _paths(None)) else []


def _merged(paths: list[Path]) -> Any:
    """The files as the client merges them."""
    names = os.pathsep.join(map(str, paths))
    try:
        return KubeConfigMerger(names).config
    except _UNUSABLE:
        raise InputError(f"{names}: a kubeconfig is YAML with clusters, contexts and users; this one is not; fix it") from None


def _contexts(merged: Any) -> dict[str, Any]:
    """The contexts by name."""
    content = merged.value if merged is not None and isinstance(merged.value, Mapping) else {}
    return {entry.value["name"]: entry.value for entry in content.get("contexts", []) if text(entry.value, "name")}


def _paths(kubeconfig: Path | None) -> list[Path]:
    """The existing kubeconfig files; earlier ones have priority."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise InputError(f"--kubeconfig: {kubeconfig} is not a file; name another")
        return [kubeconfig]
    texts = (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    return [path for word in texts if word and (path := Path(word).expanduser()).is_file()]


def _from_pod(configuration: Any) -> str:
    """Load the server and the token of the pod's service account; gives its namespace."""
    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError):
        why = f"there is no kubeconfig, and the pod's service account in {ACCOUNT} cannot be used"
        raise InputError(f"{why}; give the pod one that may create Jobs, or name a file with --kubeconfig") from None
    try:
        return (ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def _from_files(paths: list[Path], context: str | None, configuration: Any) -> str:
    """Load server and credentials of a context; gives its namespace."""
    if not paths:
        how = "(aws eks update-kubeconfig, oci ce cluster create-kubeconfig), or set KUBECONFIG to its path"
        raise InputError(f"there is no kubeconfig: neither ~/.kube/config nor a file in KUBECONFIG; create one {how}")
    names = os.pathsep.join(map(str, paths))
    content = merged.value if (merged := _merged(paths)) is not None and isinstance(merged.value, Mapping) else {}
    known = _contexts(merged)
    if (chosen_context := context or content.get("current-context") or "") not in known:
        choices = listed(sorted(known))
        if context:
            raise InputError(f"the kubeconfig has no context {context!r}; give one of: {choices}")
        raise InputError(f"the kubeconfig names no current context; choose with --context one of: {choices}")
    chosen = part(known[chosen_context], "context")
    # The client only logs that a credential plugin failed, and goes on without credentials.
    errors = BufferingHandler(capacity=1000)
    errors.setLevel(logging.ERROR)
    logging.getLogger().addHandler(errors)
    try:
        # persist_config would write renewed tokens into the user's file.
        KubeConfigLoader(merged, active_context=chosen_context, config_base_path=None).load_and_set(configuration)
    except _UNUSABLE as error:
        why = _safe(error)
        raise InputError(f"{names}: context {chosen_context} cannot be used: {why}; check its cluster and user there") from None
    finally:
        logging.getLogger().removeHandler(errors)
    user = text(chosen, "user")
    users = {text(entry.value, "name"): entry.value for entry in content.get("users", [])}
    plugin = part(users.get(user), "user", "exec")
    if errors.buffer and plugin:
        command = text(plugin, "command")
        raise InputError(f"{names}: the credential plugin `{command}` of user {user} failed; run it by hand, or log in again")
    return text(chosen, "namespace")


def _safe(error: Exception) -> str:
    """The part of a client's error that can be shown: which file is missing."""
    words = str(error)
    if isinstance(error, OSError) and error.filename:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(words) if words.startswith("File does not exist: ") else "a part of it is missing or invalid"
