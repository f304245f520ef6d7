"""schema/stack.schema.json: the JSON Schema of a stack file, from the settings models and the docstrings of their fields.

The examples are those of the docstrings, else values in the files of this repository. `use_attribute_docstrings` of pydantic is
not used, because it reads the source of each class at every import.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from fleet.facts.yaml_text import kubernetes_documents, read_yaml, scalar
from fleet.loading.config import read_fleet
from fleet.loading.home import ROOT
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.model import Model

FIRST = "x-first"
"""The keyword of a setting that comes first: it is required, or has the mark."""


class Text(NamedTuple):
    """The docstring of a field. `Unit:`, `Source:`, `Example:` and `Mark:` are its last sentences.

    The example is YAML in backticks. `Mark: first.` is on a setting that a new stack should have although it may be left out.
    """

    description: str = ""
    unit: str = ""
    source: str = ""
    example: str = ""
    mark: str = ""

    @classmethod
    def read(cls, docstring: str) -> "Text":
        """The parts of a docstring."""
        description, *parts = re.split(r"\s(?=(?:Unit|Source|Example|Mark): )", " ".join(docstring.split()))
        values = dict(part.split(": ", 1) for part in parts)
        names = ("Unit", "Source", "Example", "Mark")
        return cls(description, *(values.get(name, "").removesuffix(".").strip("`") for name in names))

    @property
    def examples(self) -> list[object]:
        """The example as a value."""
        return [document.value for document in kubernetes_documents("example", self.example)]

    @property
    def whole(self) -> str:
        """All but the example, as one text."""
        extras = ((name, text) for name, text in (("Unit", self.unit), ("Source", self.source)) if text)
        return " ".join([self.description, *(f"{name}: {text}." for name, text in extras)])


def text_of(model: type[BaseModel], field: str) -> Text:
    """The text of a field: that of the class itself, or of its nearest base that has one."""
    return next((found[field] for each in model.__mro__ if field in (found := _texts(each))), Text())


@cache
def _texts(model: type) -> dict[str, Text]:
    if not issubclass(model, BaseModel) or not model.__module__.startswith(("fleet.", "gpu_ci.")):
        return {}
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    texts = {}
    for pair in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(docstring))):
                texts[field] = Text.read(docstring)
    return texts


# -- examples ------------------------------------------------------------------------------------------------------------


def stack_files() -> tuple[Path, ...]:
    """The stack files and the examples."""
    return (*sorted(ROOT.glob("Pulumi.*.yaml")), *sorted((ROOT / "examples").glob("Pulumi.*.yaml")))


def config_of(path: Path) -> dict[str, object]:
    """The settings in a stack file as written, by key without namespace."""
    content: Any = read_yaml(path).value
    return {key.removeprefix(f"{NAMESPACE}:"): value for key, value in content["config"].items()}


def example_of(model: type[BaseModel], field: str) -> list[object]:
    """The first value of a field in a file, as a list for the keyword `examples`: of the model itself, else of a similar one."""
    owner = next(base for base in model.__mro__ if field in inspect.get_annotations(base))
    similar = (values[field] for other_model, values in _examples().items() if field in values and issubclass(other_model, owner))
    return (_examples().get(model, {}).get(field) or next(similar, []))[:1]


@cache
def _examples() -> dict[type, dict[str, list[object]]]:
    values: dict[type, dict[str, list[object]]] = {}
    for path in stack_files():
        for owner, field, value in written_settings(read_fleet(path.name.split(".")[1], path), config_of(path)):
            # Longer mappings are written key by key.
            if len(str(value)) <= 70:
                values.setdefault(owner, {}).setdefault(field, []).append(value)
    return values


def written_settings(settings: object, written: object) -> Iterator[tuple[type[BaseModel], str, object]]:
    """Class, field and value of every setting that a file has. `settings` is the model of the values in `written`."""
    if isinstance(settings, BaseModel) and isinstance(written, dict):
        for name, field in type(settings).model_fields.items():
            if (key := field.alias or name) in written:
                yield type(settings), name, written[key]
                yield from written_settings(getattr(settings, name), written[key])
    elif isinstance(settings, dict) and isinstance(written, dict):
        for key, value in settings.items():
            yield from written_settings(value, written.get(key))
    elif isinstance(settings, tuple) and isinstance(written, list):
        for value, item in zip(settings, written, strict=True):
            yield from written_settings(value, item)


class Secret(Model):
    """An encrypted value, as the Pulumi CLI writes it."""

    secure: str
    """Ciphertext. `pulumi config set --secret` writes it. Example: `"v1:6a1b2c3d4e5f6071:pXk0c2VjcmV0"`"""


class Config(Fleet):
    """The keys below `config`. Keys of other namespaces, such as `aws:region`, configure Pulumi's providers."""

    model_config = ConfigDict(
        alias_generator=lambda name: f"{NAMESPACE}:{to_camel(name)}",
        json_schema_extra={"patternProperties": {f"^(?!{NAMESPACE}:)[^:]+:": True}},
    )

    github_private_key: Secret | None = None
    """Private key of the GitHub App, encrypted. Set it with `pulumi config set --secret gpu-ci:githubPrivateKey < key.pem`.
    `pulumi up` needs it unless the secret of every cluster comes another way (`gitops.secrets`). Offline commands never decrypt
    it. Example: `{secure: "v1:6a1b2c3d4e5f6071:pXk0c2VjcmV0"}`"""
    disable_default_providers: tuple[Literal["*"], ...] = Field(
        min_length=1, max_length=1, alias="pulumi:disable-default-providers"
    )
    """Packages without a default provider: always `["*"]`, all of them. Each resource must then name its provider, so that none
    lands in the wrong account or region. Source: pulumi.com/docs/iac/concepts/resources/options/provider. Example: `["*"]`"""


class StackFile(Model):
    """A file `Pulumi.<stack>.yaml`: the settings of one stack."""

    model_config = ConfigDict(alias_generator=str.lower)

    config: Config
    """The settings. Each key has its namespace before a colon; those of this project start with `gpu-ci:`."""
    secretsprovider: str | None = None
    """How the CLI encrypts the secrets of the stack: `passphrase`, `default`, or the URL of a key. `pulumi stack init
    --secrets-provider` writes it. Source: pulumi.com/docs/iac/concepts/secrets. Example:
    `awskms://alias/gpu-ci?region=us-west-2`"""
    encryptedkey: str | None = None
    """The data key of the stack, encrypted by a cloud's key service. The CLI writes it. Example: `AQICAHhFbmNyeXB0ZWRLZXk=`"""
    encryptionsalt: str | None = None
    """Salt of the passphrase that encrypts the stack's secrets. The CLI writes it. Example: `"v1:c2FsdA==:v1:bm9uY2U="`"""
    environment: Any = None
    """Pulumi ESC environments whose values the CLI adds to the settings. Offline commands do not read them. Source:
    pulumi.com/docs/esc. Example: `[gpu-ci/staging]`"""
    main_environment: Any = Field(default=None, alias="mainEnvironment")
    """The ESC environment that belongs to the stack itself. The CLI writes it. Offline commands do not read it. Example:
    `gpu-ci/staging`"""


class _Schema(GenerateJsonSchema):
    """pydantic's JSON Schema with the texts of fields, and with only keywords that editors know.

    yaml-language-server sorts keys by name and snippets by `sortText` (1.25, yamlCompletion.ts). So a snippet has first settings.
    """

    classes: ClassVar[dict[str, type[BaseModel]]] = {}
    """The models by name."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        model_schema = super().model_schema(schema)
        model = schema["cls"]
        self.classes[model.__name__] = model
        model_schema.pop("title", None)
        model_schema["description"] = " ".join((inspect.getdoc(model) or "").partition("\n\n")[0].split())
        for name, field in model.model_fields.items():
            key, text = field.alias or name, text_of(model, name)
            if key not in model_schema["properties"]:
                continue
            plain: dict[str, Any] = model_schema["properties"][key]
            keywords = {word: value for word, value in plain.items() if word not in ("default", "ge", "title")}
            if "patternErrorMessage" in keywords:
                keywords["title"] = plain["title"]
            if (default := _default(field, keywords.get("title") == "duration")) is not None:
                keywords["default"] = default
            if examples := text.examples or example_of(model, name):
                keywords["examples"] = examples
            first = {FIRST: True} if text.mark or field.is_required() else {}
            model_schema["properties"][key] = {"description": text.whole, **first, **keywords}
        properties = dict(sorted(model_schema["properties"].items(), key=lambda row: FIRST not in row[1]))
        body = {key: row.get("examples", [row.get("default")])[0] for key, row in properties.items() if FIRST in row}
        if set(body) - set(model_schema.get("required", ())):
            # The editor pastes a text as it is, so a text that looks like a number has quotes here.
            pasted = {key: scalar(value) if isinstance(value, str) else value for key, value in body.items() if value}
            model_schema["defaultSnippets"] = [{"label": "first settings", "sortText": "!", "body": pasted}]
        return {**model_schema, "properties": properties}

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """Keep the order of fields and of examples."""
        return value

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        mapping = super().dict_schema(schema)
        # An error about a key that breaks a pattern is better than one about an unknown key.
        for pattern, value in mapping.pop("patternProperties", {}).items():
            mapping["additionalProperties"] = value
            mapping["propertyNames"]["pattern"] = pattern
        # pydantic drops the titles of keys and values.
        for part, word in (("keys_schema", "propertyNames"), ("values_schema", "additionalProperties")):
            # Any value is allowed where it is true.
            if isinstance(inner := mapping.get(word), dict) and "patternErrorMessage" in inner:
                inner["title"] = self.generate_inner(schema[part])["title"]
        return mapping

    def tagged_union_schema(self, schema: Any) -> JsonSchemaValue:
        union = super().tagged_union_schema(schema)
        return {"oneOf": [inner for part in union["oneOf"] for inner in part.get("oneOf", [part])]}


def _default(field: FieldInfo, duration: bool) -> Any:
    """The default of a field as a stack file would have it. None for a required field, and for one without a default value."""
    if (value := None if field.is_required() else field.get_default(call_default_factory=True)) in (None, ""):
        return None
    adapter = TypeAdapter(field.rebuild_annotation())
    written = adapter.dump_python(value, mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    if duration:
        return next(f"{value // length}{unit}" for length, unit in ((3600, "h"), (60, "m"), (1, "s")) if value % length == 0)
    return written


@cache
def stack_schema() -> dict[str, Any]:
    """The schema."""
    schema = StackFile.model_json_schema(schema_generator=_Schema)
    # Models are built with their first use, so their order is that of the process.
    schema["$defs"] = dict(sorted(schema["$defs"].items()))
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": "Stack file of gpu-ci", **schema}


def class_of(name: str) -> type[BaseModel]:
    """The settings model that has this name in the schema."""
    stack_schema()
    return _Schema.classes[name]


def schema_text() -> str:
    """The content of schema/stack.schema.json."""
    return json.dumps(stack_schema(), indent=1, ensure_ascii=False) + "\n"
