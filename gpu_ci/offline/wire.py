"""Property values in wire form, and plain Python views of them.

On the wire (protobuf Struct) numbers are doubles, an unknown is a sentinel string, and a secret, an asset, an archive
or a reference to a resource is an object that carries a signature. Facts: pulumi/pulumi,
sdk/go/common/resource/properties.go (signatures) and pkg/resource/plugin/rpc.go (what an analyzer is sent).
"""

import sys
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from fleet.facts.places import dotted, leaves
from policies.rules.record import SECRET, SIGNATURE, UNKNOWN as _UNKNOWN_TEXT, UNKNOWNS

if TYPE_CHECKING:
    from google.protobuf import struct_pb2

ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
RESOURCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"

SENTINELS: Final[frozenset[str]] = frozenset(UNKNOWNS)
"""The strings that stand for an unknown value, one for each type."""


class Unknown(str):
    """A value that only the cloud decides. It prints and serializes as "[unknown]". Compare with `is UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[unknown]"


UNKNOWN: Final = Unknown("[unknown]")


class Secret(str):
    """A secret value. As text, repr and JSON it is "[secret]". `reveal()` returns the value, for comparisons and tests."""

    __slots__ = ("_inner",)
    _inner: object

    def __new__(cls, value: object) -> "Secret":
        secret = super().__new__(cls, "[secret]")
        secret._inner = value
        return secret

    def __repr__(self) -> str:
        return "[secret]"

    def __reduce__(self) -> "tuple[type[Secret], tuple[None]]":
        return Secret, (None,)  # a pickle or copy loses the value and never shows it

    def reveal(self) -> object:
        """The value inside."""
        return self._inner


def raw(struct: "struct_pb2.Struct | dict[str, Any]") -> dict[str, object]:
    """The Struct as json_format.MessageToDict returns it (floats, sentinels, signatures), with sorted keys.

    A dictionary is what `as_sent` returned: manifests are data, and need no SDK.
    """
    if isinstance(struct, dict):
        return struct
    fields = struct.fields
    # A Struct makes a new text of a key each time, and thousands of resources have the same few keys.
    return {sys.intern(key): _raw(fields[key]) for key in sorted(fields)}


def _raw(value: "struct_pb2.Value") -> object:
    if (kind := value.WhichOneof("kind")) == "struct_value":
        return raw(value.struct_value)
    if kind == "list_value":
        return [_raw(item) for item in value.list_value.values]
    return None if kind in (None, "null_value") else getattr(value, kind)


def as_sent(value: Any) -> Any:
    """Plain data as a policy gets it over gRPC: every number is a float. Raises OverflowError for a number that no float is."""
    if isinstance(value, Mapping):
        return {key: as_sent(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return list(map(as_sent, value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def analyzed(properties: Mapping[str, object]) -> dict[str, object]:
    """Raw properties as the engine sends them to a policy pack to be analyzed.

    As `remediable`, without the keys at the top that start with two underscores.
    """
    return {key: value for key, value in remediable(properties).items() if not key.startswith("__")}


def remediable(properties: Mapping[str, object]) -> dict[str, object]:
    """Raw properties as the engine sends them to a policy pack to be remediated.

    A reference to a resource becomes that resource's id, or its URN where it has none.
    """
    return {key: _analyzed(value) for key, value in properties.items()}


def _analyzed(value: object) -> object:
    if isinstance(value, dict):
        if value.get(SIGNATURE) == RESOURCE:
            # An empty id is one that only the cloud decides.
            return value["urn"] if value.get("id") is None else value["id"] or _UNKNOWN_TEXT
        return {key: _analyzed(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    if isinstance(value, list):
        return [_analyzed(item) for item in value]
    return value


def view(properties: Mapping[str, object]) -> dict[str, object]:
    """Raw properties for reading and printing: whole floats as ints, UNKNOWN, Secret, assets as {"asset": …}."""
    return {key: _view(value) for key, value in properties.items()}


def _view(value: object) -> object:
    if isinstance(value, str):
        return UNKNOWN if value in SENTINELS else value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_view(item) for item in value]
    return _object_view(value) if isinstance(value, dict) else value


def is_reserved(value: object) -> bool:
    """Whether plain data has a value that the wire format reserves: the key of a signature, a sentinel."""
    if isinstance(value, dict):
        return SIGNATURE in value or any(is_reserved(item) for item in value.values())
    if isinstance(value, list):
        return any(is_reserved(item) for item in value)
    return isinstance(value, str) and value in SENTINELS


def _object_view(value: dict[str, object]) -> object:
    if (signature := value.get(SIGNATURE)) is None:
        return view(value)
    if signature == SECRET:
        return Secret(_view(value.get("value")))
    if signature == RESOURCE:
        return _view(_analyzed(value))
    rest = view({key: item for key, item in value.items() if key != SIGNATURE})
    return {{ASSET: "asset", ARCHIVE: "archive"}.get(str(signature), str(signature)): rest}


def hidden(value: object) -> Iterator[tuple[str, object]]:
    """Path and value of each secret and each unknown value of a view."""
    return ((dotted(path), leaf) for path, leaf in leaves(value) if isinstance(leaf, Secret | Unknown))


ABSENT: Final = object()
"""Stands for a value that one of two views does not have."""


def differing(before: object, after: object, path: str = "", *, lists: bool) -> Iterator[tuple[str, object, object]]:
    """Path and both values of each difference of two views. With `lists` an item of a list is a value, else a whole list is."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            inner = f"{path}.{key}" if path else str(key)
            yield from differing(before.get(key, ABSENT), after.get(key, ABSENT), inner, lists=lists)
    elif lists and isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=ABSENT)):
            yield from differing(old, new, f"{path}[{index}]", lists=lists)
    elif isinstance(before, Secret) and isinstance(after, Secret):
        if before.reveal() != after.reveal():
            yield path, before, after
    elif before != after or type(before) is not type(after):
        yield path, before, after
