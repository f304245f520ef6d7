"""The config schema checker against the reference implementation of JSON Schema."""

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from gpu_ci.offline.configschema import faults
from tests.examples import examples

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from([0.5, 2.0, -1.5]), st.text("ab1", max_size=4))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
TYPES = st.sampled_from(["array", "boolean", "integer", "number", "object", "string"])
WORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES,
        "enum": st.lists(SCALARS, min_size=1, max_size=4),
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(-3, 3),
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["a", "^b", "1$"]),
        "minItems": st.integers(0, 3),
        "maxItems": st.integers(0, 3),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "default": SCALARS,
        "description": st.just("text"),
    },
)


def nested(inner):
    return st.builds(
        lambda words, items, properties, others: {**words, **items, **properties, **others},
        WORDS,
        st.just({}) | st.fixed_dictionaries({"items": inner}),
        st.just({}) | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2)}),
        st.just({}) | st.fixed_dictionaries({"additionalProperties": st.booleans()}),
    )


@settings(max_examples=examples(400))
@given(st.recursive(WORDS, nested, max_leaves=3), VALUES)
def test_it_finds_fault_with_the_values_that_the_reference_finds_fault_with(schema, value):
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    found = list(faults(schema, value, "p"))
    assert (not found) == valid, f"the two disagree; ours: {found}"


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "4", "p: must be of type integer; got '4'"),
        ({"type": "integer"}, True, "p: must be of type integer; got True"),
        ({"enum": ["a", "b"]}, "c", "p: must be one of ['a', 'b']; got 'c'"),
        ({"items": {"minimum": 1}}, [1, 0], "p[1]: must be at least 1; got 0"),
        ({"properties": {"q": {"maxLength": 1}}}, {"q": "xx"}, "p.q: must have at most 1 characters; got 'xx'"),
        ({"properties": {"q": {}}, "additionalProperties": False}, {"r": 1}, "p.r: is not known, there is q; got 1"),
        ({"required": ["q"]}, {}, "p.q: is required; got nothing"),
    ],
)
def test_a_fault_names_the_place_the_rule_and_the_value(schema, value, text):
    assert list(faults(schema, value, "p")) == [text]


@pytest.mark.parametrize("schema", [{"format": "date"}, {"const": 1}, {"uniqueItems": True}, {"items": {"$ref": "#"}}])
def test_a_schema_word_that_is_not_known_is_an_error_and_not_a_rule_silently_lost(schema):
    with pytest.raises(ValueError, match="does not support"):
        list(faults(schema, ["x"], "p"))
