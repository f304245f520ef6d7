"""A stack's policy config: what is read, and what is refused with file and line."""

import json
import os
from datetime import date

import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts.errors import InputError
from gpu_ci.offline.policyconfig import configured_for, policy_settings, policy_values
from policies.rules import RULES
from tests.examples import examples

NAME = "policies/config/dev.json"


def place(root):
    path = root / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def read(root, text):
    place(root).write_bytes(text if isinstance(text, bytes) else text.encode())
    return policy_settings("dev", root)


def test_the_entries_are_given_as_they_stand(tmp_path):
    text = '{"all": "advisory", "spot-required-nonprod": {"enforcementLevel": "mandatory", "roles": ["burst"]}}'
    assert read(tmp_path, text) == json.loads(text)


def test_without_a_file_every_policy_has_its_defaults(tmp_path):
    assert policy_settings("dev", tmp_path) == {}


def test_a_file_of_another_stack_counts_for_nothing(tmp_path):
    read(tmp_path, '{"all": "disabled"}')
    assert policy_settings("prod", tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b'{\n"a": "\xff"}', 2, ["UTF-8", "0xff"]),
        ('{\n\n"a": }', 3, ["must be JSON", "column 6"]),
        ("", 1, ["must be JSON"]),
        ('{"a": NaN}', 1, ["NaN"]),
        ("[" * 100_000, 1, ["must be JSON"]),
        ('{"a": 1' + "0" * 5000 + "}", 1, ["must be JSON"]),
        ("\n\n[]", 3, ["object with policies as keys", "a list"]),
        ("null", 1, ["object with policies as keys"]),
        ('{"a": "mandatory",\n"b": {},\n"a": "disabled"}', 1, ["may appear once", "'a'"]),
        ('{"a": {"x": [{"y": 1,\n"y": 2}]}}', 1, ["may appear once", "'y'"]),
        ('{"a": 1,\n"\\u0061" : 2}', 1, ["may appear once", "'a'"]),
    ],
)
def test_a_wrong_file_is_one_error_with_file_line_and_rule(tmp_path, text, line, words):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{NAME}:{line}: "), message
    assert "\n" not in message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


def test_a_folder_is_no_file(tmp_path):
    place(tmp_path).mkdir()
    with pytest.raises(InputError, match=rf"^{NAME}: must be a file; got a folder"):
        policy_settings("dev", tmp_path)


def test_a_link_that_leads_nowhere_is_not_taken_for_no_file(tmp_path):
    place(tmp_path).symlink_to("gone.json")
    with pytest.raises(InputError, match=rf"^{NAME}: is a link to gone\.json"):
        policy_settings("dev", tmp_path)


def test_a_link_to_a_file_is_that_file(tmp_path):
    place(tmp_path).symlink_to(tmp_path / "real.json")
    (tmp_path / "real.json").write_text('{"all": "advisory"}')
    assert policy_settings("dev", tmp_path) == {"all": "advisory"}


def test_what_cannot_be_read_is_an_input_error(tmp_path, monkeypatch):
    read(tmp_path, "{}")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=rf"^{NAME}: cannot be read \(Permission denied\)"):
        policy_settings("dev", tmp_path)


TEXTS = st.text('{}[]:",\\/ a\n\0é\u2028😀', max_size=6)
TREES = st.dictionaries(
    TEXTS,
    st.recursive(
        st.booleans() | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("root")


@settings(max_examples=examples(60))
@given(tree=TREES, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_whatever_json_writes_is_read_back(folder, tree, indent, ascii_only):
    assert read(folder, json.dumps(tree, indent=indent, ensure_ascii=ascii_only)) == tree, "braces and colons in texts are texts"


# -- entries that no policy accepts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{\n"all": "advisory",\n"spot-diversifed": "disabled"}',
            ":3: spot-diversifed: no policy has this name; got 'spot-diversifed'; did you mean spot-diversified?",
        ),
        (
            '{"stack-gpu-ceiling": {\n"enforcementLevel": "mandatory",\n"maxGpu": 3}}',
            ":3: stack-gpu-ceiling.maxGpu: the policy does not have this property; got 3; did you mean maxGpus?",
        ),
        ('{\n"scale-to-zero": "mandatry"}', ":2: scale-to-zero: a level is one of "),
        ('{\n"scale-to-zero": "mandatry"}', "; got 'mandatry'; did you mean mandatory?"),
    ],
)
def test_a_wrong_entry_is_an_error_at_its_line_with_the_similar_name(tmp_path, text, said):
    settings = read(tmp_path, text)
    with pytest.raises(InputError) as caught:
        configured_for(RULES, settings, "dev", tmp_path, date(2026, 11, 23))
    assert str(caught.value).startswith(NAME)
    assert said in str(caught.value)


def test_a_stack_without_a_config_hears_of_a_similar_table(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "stacks.toml").write_text('[stagin]\nkind = "staging"\n[other]\nkind = "dev"\n')
    said = "no entry for staging: the strictest levels and default limits; add [staging] to policies/stacks.toml"
    said += " (gpu-ci init)"
    note = "; policies/stacks.toml has [stagin]: rename it to [staging] if it is for this stack"
    assert policy_values("staging", tmp_path) == said + note
    (tmp_path / "Pulumi.stagin.yaml").write_text("config: {}\n")
    assert policy_values("staging", tmp_path) == said, "the table is another stack's"
