"""The provider of the component package: finds the components, infers their schema and constructs them.

It serves every concrete subclass of `PackagedComponent`. The version is the project's, from pyproject.toml. For a package that is
installed from Git, the CLI replaces it with the tag.
"""

import importlib
import inspect
import json
import pkgutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from pulumi.output import Unknown
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.analyzer import ComponentDefinition, PropertyDefinition
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

import components
from components.component import PackagedComponent

NAME = "gpu-ci"
"""Name of the package. Type tokens start with it."""
NAMESPACE = "gpu-ci"
"""Without a namespace, the names of generated SDKs depend on who owns the Git repository."""
_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
VERSION: str = _PROJECT["version"]
_PULUMI = next(entry for entry in _PROJECT["optional-dependencies"]["kubernetes"] if entry.startswith("pulumi>"))
LANGUAGES: Mapping[str, Mapping[str, Any]] = {
    # Older SDKs pass only one of several providers to a component (pulumi/pulumi#24423).
    "python": {"packageName": "gpu_ci_components", "requires": {"pulumi": _PULUMI.removeprefix("pulumi")}},
    "nodejs": {"packageName": "@gpu-ci/components"},
    # Without it, Go's SDK lacks the types of elements of plain lists (pulumi/pulumi#10077).
    "go": {"generateExtraInputTypes": True},
    "csharp": {"rootNamespace": "GpuCi", "namespaces": {NAME: "Components"}},
    "java": {"basePackage": "com.gpuci", "packages": {NAME: "components"}},
}
"""What generated SDKs are called, and what they need. The names by default have `gpu-ci` twice."""

REGISTRY: Mapping[str, Any] = {
    "description": _PROJECT["description"],
    "keywords": ["category/infrastructure", "kind/component"],
    "license": _PROJECT["license"],
    "publisher": NAME,
}
"""What Pulumi's registry reads (pulumi/registry, tools/resourcedocsgen/cmd/metadata.go). `publisher` is required."""

_ANY = PropertyDefinition()


def packaged(*folders: str) -> list[type[PackagedComponent[Any]]]:
    """Every component of the package, by name. With `folders` only those in these folders of `components`."""

    def of_folder(module: str) -> bool:
        return not folders or module.split(".")[1] in folders

    for module in pkgutil.walk_packages(components.__path__, f"{components.__name__}."):
        if of_folder(module.name):
            importlib.import_module(module.name)
    kinds = [kind for base in PackagedComponent.__subclasses__() for kind in _concrete(base) if of_folder(kind.__module__)]
    return sorted(kinds, key=lambda kind: kind.__name__)


def _concrete(base: type[PackagedComponent[Any]]) -> list[type[PackagedComponent[Any]]]:
    below = [part for kind in base.__subclasses__() for part in _concrete(kind)]
    return below if inspect.isabstract(base) else [base, *below]


class PackageProvider(ComponentProvider):
    """Differs from the SDK's provider where that one has a defect or lacks a feature for this package.

    - The SDK calls `int()` on integers, which fails for outputs, and drops unknown keys. Here the SDK's step only renames the
      keys, and the component checks the values, as it does in a Python program.
    - Wrong arguments are property errors, so that the engine shows the argument and the rule without a stack trace.
    - Descriptions have no indentation of the source, and types no suffix `Args`: code generators add their own.

    With `folders` it serves only the components of these folders, and imports the SDKs of no other cloud.
    """

    def __init__(self, *folders: str) -> None:
        super().__init__(list(packaged(*folders)), NAME, NAMESPACE, VERSION)
        schema = _published(json.loads(self.schema or "{}"))
        # `pulumi package gen-sdk` then writes the same SDK as `pulumi package add`: Go's has a go.mod and imports that resolve.
        schema |= {"meta": {"supportPack": True}, **REGISTRY}
        for language, own in LANGUAGES.items():
            schema["language"][language] |= own
        self.schema = json.dumps(schema)

    def map_inputs(self, inputs: pulumi.Inputs, component_def: ComponentDefinition) -> pulumi.Inputs:
        """The inputs with the names that the component's TypedDict has."""
        return {str(key): one for key, one in self._renamed(inputs, component_def.inputs, component_def.inputs_mapping).items()}

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Raises InputPropertyError for a wrong argument."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, pulumi.InputPropertyError | pulumi.InputPropertiesError):
                raise error.inner from None
            raise

    def _renamed(
        self, values: Mapping[str, Any], properties: Mapping[str, PropertyDefinition], names: Mapping[str, str]
    ) -> dict[str, Any]:
        return {names.get(key, key): self._value(value, properties.get(key, _ANY)) for key, value in values.items()}

    def _value(self, value: Any, kind: PropertyDefinition) -> Any:
        if isinstance(value, Unknown):  # the SDK makes an output of other unknowns
            return pulumi.Output.from_input(value)
        if isinstance(value, list) and kind.items:
            return [self._value(entry, kind.items) for entry in value]
        if isinstance(value, Mapping) and kind.additional_properties:
            return {key: self._value(entry, kind.additional_properties) for key, entry in value.items()}
        if isinstance(value, Mapping) and kind.ref and (definition := self.get_type_definition(kind)):
            return self._renamed(value, definition.properties, definition.properties_mapping)
        return value


def _published(value: Any) -> Any:
    """The schema as programs see it."""
    if isinstance(value, list):
        return [_published(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    published = {key.removesuffix("Args") if key.startswith(f"{NAME}:") else key: _published(one) for key, one in value.items()}
    if isinstance(text := published.get("description"), str):
        published["description"] = inspect.cleandoc(text)
    if isinstance(reference := published.get("$ref"), str):
        published["$ref"] = reference.removesuffix("Args")
    return published
