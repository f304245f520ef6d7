"""From the settings of an AMI to the document and the recipe of EC2 Image Builder.

A document of AWSTOE has phases of steps (EC2 Image Builder user guide, use the AWSTOE component document framework). `build` and
`validate` run on the machine that builds the image. `test` runs on a second machine, which has booted the new image, before the
image is distributed.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

from fleet.facts import eks_images
from fleet.facts.yaml_text import yaml_text
from fleet.providers.eks.ami import GpuAmi

_PHASES = {"build": ("install", "pull", "reset"), "validate": ("validate",), "test": ("test",)}


def recipe(name: str, ami: GpuAmi, minor: str) -> tuple[str, str, str]:
    """The recipe of the AMI `name` for nodes of a Kubernetes minor: AWS' image, the component in YAML, and the recipe's version.

    The version follows from all of them and the root volume: Image Builder never changes a recipe, and refuses a second one of
    its name and version.
    """
    parent, text = f"ssm:{eks_images.parameter(ami.base(minor))}", document(name, ami, minor)
    # Each part of a version is below 2**30 (EC2 Image Builder API, CreateImageRecipe).
    digest = int(hashlib.sha256(f"{parent}\n{ami.disk // 1024}\n{text}".encode()).hexdigest()[:7], 16)
    return parent, text, f"1.0.{digest}"


def document(name: str, ami: GpuAmi, minor: str) -> str:
    """The document of the AMI's component, in YAML."""
    # Kubelet finds an image that a pod names by digest under that name without the tag.
    images = " ".join(re.sub(r":[^:/@]+@", "@", image) for image in ami.pre_pull)
    settings = {"TOOLKIT": ami.toolkit, "DRIVER": _driver(ami, minor), "IMAGES": images}
    run = {phase: [step for step in steps if images or step != "pull"] for phase, steps in _PHASES.items()}
    phases = [{"name": phase, "steps": [_step(step, settings) for step in steps]} for phase, steps in run.items()]
    about = f"GPU node image {name} for Kubernetes {minor}"
    return yaml_text({"name": name, "description": about, "schemaVersion": 1.0, "phases": phases})


def _driver(ami: GpuAmi, minor: str) -> str:
    """How the driver's version must begin: the whole version, a branch, or "" if neither settings nor sources name it."""
    return "" if (driver := ami.driver(minor)) is None else driver if "." in driver else f"{driver}."


def _step(name: str, settings: dict[str, str]) -> dict[str, Any]:
    """A step that runs a script of this folder. Any failing command ends it."""
    script = (Path(__file__).parent / f"{name}.sh").read_text(encoding="ascii")
    used = [f'{key}="{value}"' for key, value in settings.items() if f"${key}" in script or f"${{{key}" in script]
    return {"name": name, "action": "ExecuteBash", "inputs": {"commands": ["\n".join(("set -euo pipefail", *used, script))]}}
