"""The shell commands that push an image to the registry of each region of a stack."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from fleet.facts.errors import InputError
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS, provider_of
from images.row import Built


def push_script(fleet: Fleet, tool: str, image: Built, repository: str, build: str) -> str:
    """Commands that log in, tag and push, for each region of a fleet's clusters in clouds with a registry.

    `build` distinguishes builds of one image, because the tags of a registry should not change. Raises InputError for a fleet in
    no such cloud.
    """
    clusters = [settings for _, settings in fleet.clusters_by_name() if provider_of(settings).push]
    regions = dict.fromkeys((settings.provider, settings.region) for settings in clusters)
    if not regions:
        raise InputError("the stack has no cluster on AWS or OCI, so no registry of a region; push to your own registry")
    return "\n".join(_scripts(regions, tool, image, repository, f"{image.tag}-{build}"))


def _scripts(regions: dict[tuple[str, str], None], tool: str, image: Built, repository: str, tag: str) -> Iterator[str]:
    for provider, region in regions:
        yield f"# {provider.upper()} in {region}\n" + PROVIDERS[provider].push.format(
            region=quote(region),
            tool=tool,
            local=quote(image.local),
            repository=quote(repository),
            tag=quote(tag),
            name=quote(f"{repository}:{tag}"),
        )
