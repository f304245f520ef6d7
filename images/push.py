"""The shell commands that push an image to the registry of each region of a stack."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from fleet.facts.errors import InputError
from fleet.providers.fleet import Fleet
from images.row import Built

# A password goes through a pipe: every user of the machine can read the arguments of a process.
_ECR = """\
account="$(aws sts get-caller-identity --query Account --output text)"
registry="$account.dkr.ecr.{region}.amazonaws.com"
aws ecr get-login-password --region {region} | {tool} login --username AWS --password-stdin "$registry"
{tool} tag {local} "$registry"/{name}
{tool} push "$registry"/{name}
aws ecr describe-images --region {region} --repository-name {repository} --image-ids imageTag={tag} \\
  --query 'imageDetails[0].imageDigest' --output text
"""
_OCIR = """\
namespace="$(oci os ns get --query data --raw-output)"
registry=ocir.{region}.oci.oraclecloud.com
printf '%s' "${{OCI_AUTH_TOKEN:?set it to an auth token of OCI_USER}}" |
  {tool} login --username "$namespace/${{OCI_USER:?}}" --password-stdin "$registry"
{tool} tag {local} "$registry/$namespace"/{name}
{tool} push "$registry/$namespace"/{name}
"""
_SCRIPTS = {"eks": _ECR, "oke": _OCIR}


def push_script(fleet: Fleet, tool: str, image: Built, repository: str, build: str) -> str:
    """Commands that log in, tag and push, for each region of a fleet's clusters on AWS and OCI.

    `build` distinguishes builds of one image, because the tags of a registry should not change. Raises InputError for a fleet in
    neither cloud.
    """
    regions = dict.fromkeys(
        (settings.provider, settings.region) for _, settings in fleet.clusters_by_name() if settings.provider in _SCRIPTS
    )
    if not regions:
        raise InputError("the stack has no cluster on AWS or OCI, so no registry of a region; push to your own registry")
    return "\n".join(_scripts(regions, tool, image, repository, f"{image.tag}-{build}"))


def _scripts(regions: dict[tuple[str, str], None], tool: str, image: Built, repository: str, tag: str) -> Iterator[str]:
    for provider, region in regions:
        yield f"# {provider.upper()} in {region}\n" + _SCRIPTS[provider].format(
            region=quote(region),
            tool=tool,
            local=quote(image.local),
            repository=quote(repository),
            tag=quote(tag),
            name=quote(f"{repository}:{tag}"),
        )
