"""Environment variables that settings may give to a container."""

from typing import Annotated

from fleet.facts.credentials import mask
from fleet.settings.model import QuotedText
from fleet.settings.refusals import accepted, matching, refuse, refuse_if, refuses

ENV_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
"""Kubernetes' envVarNameFmt (apimachinery, pkg/util/validation)."""
_OURS = ("NVIDIA_", "ACTIONS_", "RUNNER_", "GITHUB_", "GPU_CI_")
_PROXY_NAMES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


def refuse_ours(name: str) -> None:
    """Refuse the name of a variable that others set. Raises a settings problem."""
    # Names of Linux are case-sensitive, and GitHub's are all in capitals.
    refuse_if("env_ours", name.startswith(_OURS), value=name, starts=", ".join(_OURS))


def _env_name(name: str) -> None:
    refuse(env_proxy=name.lower() in _PROXY_NAMES)
    refuse_ours(name)


EnvName = Annotated[str, matching("env_name", ENV_NAME), refuses(_env_name)]
"""Name of an environment variable that a class may set."""
EnvValue = Annotated[QuotedText, accepted("env_credential", lambda value: mask(value) == value, private=True)]
"""Value of an environment variable, without the form of a credential."""
