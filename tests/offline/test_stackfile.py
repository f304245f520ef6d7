"""What the loader hands the program, against what the Pulumi CLI would."""

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts.errors import Fault, InputError
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import STAND_IN, json_text, load, stacks, with_stand_ins
from tests.builders import ROOT
from tests.examples import examples

PROJECT = "name: gpu-ci\nruntime: python\n"


def write(folder, stack_text, project=PROJECT, stack="dev"):
    (folder / "Pulumi.yaml").write_text(project)
    (folder / f"Pulumi.{stack}.yaml").write_text(stack_text)
    return load(stack, folder)


def value_of(folder, text):
    """The text that the program gets for `key: <text>`."""
    return write(folder, f"config:\n  gpu-ci:key: {text}\n").values["gpu-ci:key"]


@pytest.mark.parametrize(
    ("yaml", "program"),
    [
        ("9:00", "9:00"),
        ("1:30:00", "1:30:00"),
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("true", "true"),
        ("True", "true"),
        ("FALSE", "false"),
        ('"true"', "true"),
        ("1.34", "1.34"),
        ("1.30", "1.3"),
        ('"1.30"', "1.30"),
        ("1.34.2", "1.34.2"),
        ("1.0", "1"),
        ("42", "42"),
        ("+42", "42"),
        ("-7", "-7"),
        ("1_000", "1000"),
        ("0777", "511"),
        ("0o17", "15"),
        ("0x1F", "31"),
        ("0b101", "5"),
        ("08", "8"),
        ("1e3", "1000"),
        ("12e4", "120000"),
        (".5", "0.5"),
        ("1e-7", "1e-7"),
        ("0.00001", "0.00001"),
        ("1e21", "1e+21"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709552000"),
        ("123456789012", "123456789012"),
        ("'0123'", "0123"),
        ("203.0.113.0/24", "203.0.113.0/24"),
        ("", ""),
        ("~", ""),
        ("null", ""),
        ("'null'", "null"),
        ("{a: null}", '{"a":null}'),
        ("[1, on, 9:00, 1.50]", '[1,"on","9:00",1.5]'),
        ("{b: 1, a: {z: true, y: x}}", '{"a":{"y":"x","z":true},"b":1}'),
        ("1e400", "1e400"),
        pytest.param("1" + "0" * 4999, "1" + "0" * 4999, id="5000-digits"),
        pytest.param("0o" + "0" * 4999 + "7", "7", id="5000-octal-digits"),
        (".36_1", "0.361"),
        ("._1", "._1"),
        ("2026-13-45", "2026-13-45"),
        ("2026-01-31T10:00:00", "2026-01-31T10:00:00"),
        ('{q: "<a href=\\"x\\">&</a>"}', '{"q":"\\u003ca href=\\"x\\"\\u003e\\u0026\\u003c/a\\u003e"}'),
        ("{name: Zürich}", '{"name":"Zürich"}'),
        ("!!str 12", "12"),
        ("!!float 3", "3"),
        ("|\n    two\n    lines", "two\nlines\n"),
        ("[]", "[]"),
        ("{}", "{}"),
    ],
)
def test_a_value_reaches_the_program_as_the_cli_writes_it(tmp_path, yaml, program):
    assert value_of(tmp_path, yaml) == program


def test_objects_are_what_the_program_parses_from_the_text(tmp_path):
    config = write(tmp_path, 'config:\n  gpu-ci:a: {n: 1.0, s: "2"}\n  gpu-ci:b: 3\n')
    assert config.objects == {"gpu-ci:a": {"n": 1, "s": "2"}, "gpu-ci:b": "3"}
    assert isinstance(config.objects["gpu-ci:a"]["n"], int), "JSON of a whole float has no point"


def test_keys_without_namespace_belong_to_the_project_and_the_old_spelling_still_counts(tmp_path):
    config = write(tmp_path, "config:\n  one: 1\n  gpu-ci:config:two: 2\n  aws:region: us-west-2\n")
    assert dict(config.values) == {"gpu-ci:one": "1", "gpu-ci:two": "2", "aws:region": "us-west-2"}


def test_a_secret_is_a_placeholder_and_its_ciphertext_goes_nowhere(tmp_path):
    config = write(
        tmp_path,
        "encryptionsalt: v1:abc=:v1:def\nconfig:\n  gpu-ci:key: {secure: v1:cipher}\n"
        "  gpu-ci:tree: {open: 1, list: [{secure: v1:cipher}]}\n  gpu-ci:no: {secure: 1}\n",
    )
    assert config.secret_keys == {"gpu-ci:key", "gpu-ci:tree"}, "a secret inside an object makes the whole key secret"
    assert config.values["gpu-ci:key"] == STAND_IN
    assert json.loads(config.values["gpu-ci:tree"]) == {"open": 1, "list": [STAND_IN]}
    assert config.values["gpu-ci:no"] == '{"secure":1}', "only a text under `secure` is a ciphertext"
    assert "cipher" not in repr(config)


def test_placeholders_stand_in_only_for_what_is_missing(tmp_path):
    config = with_stand_ins(write(tmp_path, "config:\n  gpu-ci:here: x\n"), ["here", "gpu-ci:githubPrivateKey", "token"])
    assert config.placed == ("gpu-ci:githubPrivateKey", "gpu-ci:token")
    assert config.secret_keys == set(config.placed)
    assert config.values["gpu-ci:here"] == "x"
    assert config.values["gpu-ci:token"] == config.objects["gpu-ci:token"] == STAND_IN


def test_the_project_fills_what_the_stack_lacks_and_the_stack_wins(tmp_path):
    project = PROJECT + (
        "config:\n  size: 3\n  gpu-ci:tags: {type: object, default: {b: 1, a: on}}\n  zones: [a, b]\n"
        "  aws:region: us-west-2\n  gpu-ci:set: {type: string, default: project}\n  note: {description: x, default: false}\n"
    )
    config = write(tmp_path, "config:\n  gpu-ci:set: stack\n", project)
    assert dict(config.values) == {
        "gpu-ci:set": "stack",
        "gpu-ci:size": "3",
        "gpu-ci:tags": '{"a":"on","b":1}',
        "gpu-ci:zones": '["a","b"]',
        "gpu-ci:note": "false",
        "aws:region": "us-west-2",
    }


def test_every_key_and_item_has_its_line(tmp_path):
    config = write(
        tmp_path,
        "# comment\nconfig:\n  gpu-ci:clusters:\n    usw2:\n      zones:\n        - a\n        - b\n"
        "      pools:\n        t4: {nodes: {min: 0}}\n  other: 1\n",
    )
    key = "gpu-ci:clusters"
    assert config.line_of(key) == 3
    assert config.line_of(key, "usw2", "zones", 1) == 7
    assert config.line_of(key, "usw2", "pools", "t4", "nodes", "min") == 9
    assert config.line_of(key, "usw2", "pools", "nope", "x") == 8, "an unknown path has its nearest ancestor's line"
    assert config.line_of("gpu-ci:other") == 10, "a key without namespace is found by its full name"
    assert config.line_of("gpu-ci:absent") is None


def test_merge_keys_and_aliases_are_resolved_with_their_lines(tmp_path):
    config = write(
        tmp_path,
        "config:\n  gpu-ci:base: &b\n    min: 0\n    max: 5\n  gpu-ci:pools:\n    t4:\n      <<: *b\n      max: 2\n"
        "    l4: {<<: [{x: 1}, {x: 2, y: 3}], z: 4}\n    same: *b\n",
    )
    pools = config.objects["gpu-ci:pools"]
    assert pools == {"t4": {"min": 0, "max": 2}, "l4": {"x": 1, "y": 3, "z": 4}, "same": {"min": 0, "max": 5}}
    assert config.line_of("gpu-ci:pools", "t4", "min") == 3
    assert config.line_of("gpu-ci:pools", "t4", "max") == 8, "an own key is on its own line, not on the merged one's"


@pytest.mark.parametrize("text", ["", "# nothing\n", "config:\n", "---\nconfig: {}\n"])
def test_a_stack_file_may_be_empty(tmp_path, text):
    assert dict(write(tmp_path, text).values) == {}


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    assert write(tmp_path, "\ufeffconfig: {a: 1}\n").values == {"gpu-ci:a": "1"}


def test_the_stack_folder_of_the_project_is_used(tmp_path):
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text("config: {a: 1}\n")
    (tmp_path / "Pulumi.yaml").write_text(PROJECT + "stackConfigDir: stacks\n")
    assert load("dev", tmp_path).values == {"gpu-ci:a": "1"}


@pytest.mark.parametrize("needed", [">=3.252.0 <4.0.0", "3.252.0", "!3.1.2", "<3.4.0 || >3.8.0", "3.x.x", ">=3.0.0-rc.1"])
def test_the_project_may_name_the_versions_of_the_cli(tmp_path, needed):
    project = f'{PROJECT}requiredPulumiVersion: "{needed}"\n'
    assert write(tmp_path, "config: {a: 1}\n", project).values == {"gpu-ci:a": "1"}


@pytest.mark.parametrize("needed", ["3.252", '">=3.252"', '"^3.252.0"', '""', '"latest"', '">=3.252.0,<4.0.0"', "[3.252.0]"])
def test_versions_that_the_cli_cannot_read_are_wrong_input(tmp_path, needed):
    rule = r"Pulumi\.yaml:3: requiredPulumiVersion: must be a range of versions of the Pulumi CLI; got .*; write it like"
    with pytest.raises(InputError, match=rule):
        write(tmp_path, "config: {a: 1}\n", f"{PROJECT}requiredPulumiVersion: {needed}\n")


def test_another_file_can_be_given_for_the_stack(tmp_path):
    write(tmp_path, "config: {a: 1}\n")
    other = tmp_path / "before.yaml"
    other.write_text("config: {a: 2}\n")
    config = load("dev", tmp_path, stack_file=other)
    assert (config.stack, config.path, config.values["gpu-ci:a"]) == ("dev", other, "2")


def test_the_stacks_of_a_folder_are_those_with_a_file(tmp_path):
    for name in ("Pulumi.yaml", "Pulumi.prod.yaml", "Pulumi.dev.yaml", "other.yaml"):
        (tmp_path / name).write_text("")
    assert stacks(tmp_path) == ("dev", "prod")


def test_esc_environments_are_told_for_their_values_are_not_seen(tmp_path):
    project = f"{PROJECT}config: {{needed: {{type: string}}}}\n"
    with pytest.raises(InputError, match="values of ESC environments are not seen offline; add it"):
        write(tmp_path, "environment: [aws/dev]\n", project)
    with pytest.raises(InputError, match="without a default; add it"):
        write(tmp_path, "config: {}\n", project)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("config: {a: 1}\nconfg: {b: 2}\n", 2, ["confg", "did you mean config?"]),
        ("clusters: {}\n", 1, ["clusters", "below `config:`"]),
        ('"a\\nb\\u2028c": {}\n', 1, [r"'a\nb\u2028c': a stack file has only"]),
        ("config:\n  a: 1\n  a: 2\n", 3, ["may appear once", "line 2", "'a'"]),
        ("config:\n  t:\n    x: 1\n    x: 1\n", 4, ["may appear once", "line 3"]),
        ("config:\n  a: 1\n  gpu-ci:a: 2\n", 3, ["gpu-ci:a is already on line 2"]),
        ("- config\n", 1, ["must be a mapping"]),
        ("config: [a]\n", 1, ["config: must be a mapping"]),
        ("config:\n  a:b:c: 1\n", 2, ["<namespace>:<name>", "'a:b:c'"]),
        ("config:\n  'gpu-ci:': 1\n", 2, ["<namespace>:<name>"]),
        ("config:\n  a: {b: 1\n", 3, ["not valid YAML"]),
        ("config:\n\ta: 1\n", 2, ["not valid YAML", "; indent by spaces, not by tabs"]),
        ("config:\n  a: 1\n b: 2\n", 3, ["not valid YAML", "; give all keys of a mapping the same indentation"]),
        ("config:\n  a: 2026-01-31\n", 2, ["unquoted date", "quote it"]),
        ("config:\n  a: {b: 2026-01-31T10:00:00Z}\n", 2, ["unquoted date"]),
        ("config:\n  a: .inf\n", 2, ["infinite", "quote it"]),
        ("config:\n  a: {1.5: x}\n", 2, ["key must be a string", "quote it"]),
        ("config:\n  1: x\n", 2, ["key must be a string", "got 1", "quote it"]),
        ("config:\n  a: {true: x}\n", 2, ["key must be a string"]),
        ("config:\n  a: 2026-1-31 1:2:3\n", 2, ["unquoted date"]),
        ("config:\n  a: {[x]: y}\n", 2, ["key must be a scalar"]),
        ("config:\n  a: !python/name:os.system x\n", 2, ["core tags"]),
        ("config:\n  a: !!int x\n", 2, ["!!int"]),
        ("config:\n  a: *nowhere\n", 2, ["anchor above it"]),
        ("config:\n  a: &x [*x]\n", 2, ["inside its own anchor"]),
        ("config:\n  a: {<<: text}\n", 2, ["<< needs a mapping"]),
        ('config:\n  a: "\\ud800"\n', 2, ["whole character"]),
        ("config:\n  a:\n    # nothing yet\n  a: 1\n", 4, ["may appear once", "line 2"]),
        ("config: {}\n---\nconfig: {}\n", 2, ["one document"]),
        pytest.param(f"config:\n  a: {'[' * 3000}{']' * 3000}\n", 2, ["at most 100 levels", "flatten"], id="deep-list"),
        pytest.param(f"config:\n  a: {'{x: ' * 3000}1{'}' * 3000}\n", 2, ["at most 100 levels"], id="deep-mapping"),
        pytest.param(
            "config:\n  a0: &a0 [x]\n" + "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
            7,
            ["aliases add at most 100,000 values", "write out"],
            id="many-aliases",
        ),
    ],
)
def test_a_wrong_stack_file_is_one_error_with_file_line_rule_and_mend(tmp_path, text, line, words):
    with pytest.raises(InputError) as caught:
        write(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'Pulumi.dev.yaml'}:{line}: "), message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


@pytest.mark.parametrize(
    ("declaration", "stack", "words"),
    [
        ("{type: integer}", "x: 1", ["gpu-ci:key must be set", "without a default", "Pulumi.yaml:4"]),
        ("{}", "x: 1", ["gpu-ci:key must be set"]),
        ("", "key: 1", ["must be a string, integer, boolean, list or mapping"]),
        ("{type: integer}", "key: many", ["must be of type integer", "'many'"]),
        ("{type: boolean}", "key: yes", ["must be of type boolean", "'yes'"]),
        ("{type: object}", "key: [1]", ["must be of type object"]),
        ("{type: array, items: {type: integer}}", "key: [1, x]", ["must be of type array<integer>"]),
        ("{type: string}", "key: {a: 1}", ["must be of type string"]),
        ("{type: string, secret: true}", "key: plain", ["must be encrypted", "--secret gpu-ci:key"]),
        ("{type: integer, default: x}", "key: 1", ["must be of type integer", "'x'"]),
        ("{type: float}", "key: 1", ["must be one of array, boolean"]),
        ("{type: array}", "key: [1]", ["needs the type of its items"]),
        ("{default: 1, value: 2}", "key: 1", ["either a default or a value"]),
        ("{typ: string}", "key: 1", ["'typ'", "did you mean type?"]),
        ("1.5", "key: 1", ["quote it"]),
    ],
)
def test_declared_keys_are_held_to_their_declaration(tmp_path, declaration, stack, words):
    with pytest.raises(InputError) as caught:
        write(tmp_path, f"config:\n  {stack}\n", PROJECT + f"config:\n  key: {declaration}\n")
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert "plain'" not in str(caught.value), "what ought to be secret is not shown"


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        ("{type: integer}", "'12'"),
        ("{type: integer}", "12"),
        ("{type: boolean}", "'true'"),
        ("{type: string}", "12"),
        ("{type: integer}", "{secure: c}"),
        ("{type: array, items: {type: array, items: {type: string}}}", "[[a], []]"),
        ("{type: object}", "{a: 1}"),
    ],
)
def test_a_value_of_the_declared_type_passes(tmp_path, declaration, value):
    config = write(tmp_path, f"config:\n  key: {value}\n", PROJECT + f"config:\n  key: {declaration}\n")
    assert "gpu-ci:key" in config.values


@pytest.mark.parametrize(
    ("declaration", "words"),
    [("aws:region: {type: string}", "takes only `value`"), ("aws:region: {}", "needs a value"), ("a.b: 1", "a whole key")],
)
def test_the_projects_declarations_are_checked(tmp_path, declaration, words):
    with pytest.raises(InputError, match=words):
        write(tmp_path, "", PROJECT + f"config:\n  {declaration}\n")


@pytest.mark.parametrize(
    ("text", "words"), [("[]", "must be a mapping"), ("runtime: python", "name: must be"), ("name: 3", "name: must be")]
)
def test_a_project_needs_a_name(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        write(tmp_path, "", text)


def test_a_missing_stack_lists_those_that_exist(tmp_path):
    write(tmp_path, "", stack="prod")
    with pytest.raises(InputError, match=r"Pulumi\.staging\.yaml does not exist.*prod"):
        load("staging", tmp_path)


def test_depth_that_aliases_build_is_depth(tmp_path):
    links = "".join(f"  a{n}: &a{n} {'[' * 50}*a{n - 1}{']' * 50}\n" for n in range(1, 40))
    with pytest.raises(InputError, match="at most 100 levels"):
        write(tmp_path, "config:\n  a0: &a0 x\n" + links)


def test_what_merged_lists_multiply_is_counted(tmp_path):
    parts = "".join(f"  a{n}: &a{n} {{{', '.join(f'k{k}: {{<<: [*a{n - 1}]}}' for k in range(10))}}}\n" for n in range(1, 9))
    with pytest.raises(InputError, match="aliases add at most 100,000 values"):
        write(tmp_path, "config:\n  a0: &a0 {x: 1}\n" + parts)


def test_a_hundred_levels_and_a_large_file_are_read(tmp_path):
    deep = write(tmp_path, f"config:\n  a: {'[' * 98}{']' * 98}\n")
    assert deep.values["gpu-ci:a"] == "[" * 98 + "]" * 98
    base = "config:\n  base: &b {x: 1, y: 2}\n  many:\n"
    config = write(tmp_path, base + "".join(f"    n{n}: {{<<: *b, z: {n}}}\n" for n in range(3000)))
    assert len(config.objects["gpu-ci:many"]) == 3000


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda path: path.mkdir(), "is a folder; "),
        (lambda path: path.symlink_to("gone"), "is a link to gone, which does not exist; "),
        (os.mkfifo, "is not a regular file; "),
        (lambda path: path.symlink_to("/dev/null"), "is not a regular file; "),
    ],
)
@pytest.mark.parametrize("name", ["Pulumi.yaml", "Pulumi.dev.yaml"])
def test_what_is_there_but_no_file_is_not_said_to_be_missing(tmp_path, name, make, fault):
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    with pytest.raises(InputError) as caught:
        load("dev", tmp_path)
    assert f"there must be a {'project file' if name == 'Pulumi.yaml' else 'file for the stack'}; " in str(caught.value)
    assert f"{tmp_path / name} {fault}" in str(caught.value)


def test_an_empty_name_is_not_said_to_be_missing(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    with pytest.raises(InputError, match=r"; \. is a folder \(an empty name means the current one\); "):
        load("dev", tmp_path, stack_file=Path())


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path, monkeypatch):
    write(tmp_path, "")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"Pulumi\.yaml cannot be read \(Permission denied\)"):
        load("dev", tmp_path)


def test_a_missing_project_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(InputError, match=r"Pulumi\.yaml does not exist"):
        load("dev", tmp_path)


@pytest.mark.parametrize("name", ["", "../prod", "a b", "org/dev", "x" * 101])
def test_a_stack_name_is_no_path(tmp_path, name):
    with pytest.raises(InputError, match="a stack name is"):
        load(name, tmp_path)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_survives_its_text(value):
    text = json_text(value)
    assert float(json.loads(text)) == value
    exponent = "e" in text
    assert exponent == (value != 0 and not 1e-6 <= math.fabs(value) < 1e21), "exponents begin where Go's encoder has them"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_json_text_is_json_with_sorted_keys_and_no_html(value):
    text = json_text(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


# JSON is YAML but for escaped surrogate pairs and for line ends and marks that only YAML knows.
YAML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn", "Zl", "Zp"), exclude_characters="\ufeff"),
    min_size=1,
    max_size=12,
)
YAML_TREES = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | YAML_TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(YAML_TEXT, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@settings(max_examples=examples(50))
@given(tree=YAML_TREES)
def test_what_is_written_as_json_is_read_back_for_json_is_yaml(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("stack")
    wanted = {f"gpu-ci:{key}": {"v": value} for key, value in tree.items()}
    config = write(folder, json.dumps({"config": wanted}, ensure_ascii=False))
    assert config.objects == wanted


# -- suggestions -------------------------------------------------------------------------------------------------------

DECLARED = PROJECT + "config:\n  clusters: {type: object}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "config:\n  gpuci:clusters: {}\n",
            ":2: gpuci:clusters: unknown namespace; got 'gpuci:clusters'; did you mean gpu-ci:clusters?",
        ),
        ("config:\n  gpu_ci:tags: {}\n", ":2: gpu_ci:tags: unknown namespace; got 'gpu_ci:tags'; did you mean gpu-ci:tags?"),
        (
            "config:\n  a: 1\n  gpu-ci:cluster: {}\n",
            ":3: gpu-ci:cluster: unknown key; got 'gpu-ci:cluster'; did you mean clusters?",
        ),
        ("config:\n  Clusters: {}\n", ":2: gpu-ci:Clusters: unknown key; got 'gpu-ci:Clusters'; did you mean clusters?"),
    ],
)
def test_a_slip_in_a_namespace_or_a_declared_key_is_an_error_at_its_line(tmp_path, text, said):
    with pytest.raises(InputError) as caught:
        write(tmp_path, text, DECLARED)
    assert str(caught.value) == f"{tmp_path / 'Pulumi.dev.yaml'}{said}"


def test_namespaces_of_other_packages_are_left_alone(tmp_path):
    config = write(tmp_path, "config:\n  aws:region: a\n  oci:region: b\n  kubernetes:context: c\n  gpu-ci-deployments:x: d\n")
    assert len(config.values) == 4


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ("stagin", "did you mean staging?"),
        ("nothing", "create it or give one of: prod, staging"),
        ("other/Pulumi.acme.yaml", "give the stack's name and its file: acme --file other/Pulumi.acme.yaml"),
    ],
)
def test_an_unknown_stack_gets_the_similar_one(tmp_path, stack, said):
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    for name in ("staging", "prod"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("config: {}\n")
    with pytest.raises(InputError) as caught:
        load(stack, tmp_path)
    assert str(caught.value).endswith(f"; {said}")


def test_a_path_in_an_error_is_relative_to_the_current_folder_or_as_given(tmp_path, monkeypatch):
    text = "config: 1\n"
    with pytest.raises(InputError) as elsewhere:
        write(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as here:
        write(tmp_path, text)
    assert str(elsewhere.value) == f"{tmp_path}/{here.value}"
    assert str(here.value).startswith("Pulumi.dev.yaml:1: config: must be a mapping")


def test_errors_of_the_settings_are_in_the_order_of_lines_and_have_their_parts(tmp_path):
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    for old, new in (("role: burst", "rol: burst"), ("region: us-west-2", "regoin: us-west-2"), ('appId: "123456"', "appId: 1")):
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "Pulumi.staging.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        fleet_of(load("staging", ROOT, stack_file=path))
    faults = caught.value.faults
    numbers = [fault.line or 0 for fault in faults]
    assert numbers == sorted(numbers)
    assert len({fault.line for fault in faults}) > 3
    assert str(caught.value).splitlines() == list(map(str, faults))
    slip = next(fault for fault in faults if fault.path.endswith("regoin"))
    assert (slip.file, slip.rule, slip.value) == (str(path), "extra_forbidden", '"us-west-2"')
    assert slip.message == "unknown key; did you mean region?"


def test_an_error_line_that_is_only_text_is_taken_apart():
    assert Fault.of("a/b.yaml:3: key.name: must be x; got 'y'") == Fault("must be x; got 'y'", "a/b.yaml", 3, "key.name")
    assert Fault.of("--as-of: must be a day") == Fault("must be a day", path="--as-of")
    assert Fault.of("no key: here") == Fault("no key: here")
