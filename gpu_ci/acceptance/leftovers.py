"""The scan for resources that a destroyed stack left in its clouds."""

from __future__ import annotations

from fleet.providers.fleet import Fleet
from fleet.providers.provider import Left
from gpu_ci.acceptance.shell import StepError


class Scan:
    """Lists what the stack has in its clouds, as each provider finds it."""

    def __init__(self, project: str, stack: str, fleet: Fleet) -> None:
        self._clouds = [provider.leftovers(project, stack, clusters) for provider, clusters in fleet.by_provider()]

    def __call__(self) -> list[Left]:
        """Everything that exists, each once. Raises StepError if a cloud's SDK is missing."""
        try:
            return list(dict.fromkeys(each for cloud in self._clouds for each in cloud))
        except ImportError as error:
            raise StepError(f"{error.name} is not installed; make acceptance installs it") from None

    def delete_late(self) -> None:
        """Delete what the clouds create again after the stack is gone."""
        for cloud in self._clouds:
            cloud.delete_late()
