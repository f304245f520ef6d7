"""The comparison of engine and plan finds each kind of difference."""

from __future__ import annotations

import pytest

from gpu_ci.offline.wire import UNKNOWN, Secret
from tests.engine.compare import Node, deployed, graph_differences, input_differences, on_default_provider

AWS = {"urn": "u::aws", "type": "pulumi:providers:aws", "custom": True}


def resource(name, parent="", dependencies=(), **more):
    return {"urn": f"u::{name}", "type": "aws:ec2/vpc:Vpc", "parent": parent, "dependencies": list(dependencies), **more}


def test_equal_graphs_do_not_differ_and_the_order_of_dependencies_is_none():
    plan = {"u::a": Node("aws:ec2/vpc:Vpc", "", ("u::b", "u::c"))}
    assert graph_differences(plan, deployed([resource("a", dependencies=["u::c", "u::b"])], [])) == []


def test_children_of_remote_components_are_left_out_with_what_depends_on_them():
    state = [
        resource("component"),
        resource("child", "u::component"),
        resource("grandchild", "u::child"),
        resource("other", dependencies=["u::component", "u::grandchild"]),
    ]
    kept = deployed(state, ["u::component"])
    assert kept.keys() == {"u::component", "u::other"}
    assert kept["u::other"].dependencies == ("u::component",)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([], "only in the plan: u::a"),
        ([resource("a", "u::p", ["u::b"]), resource("x")], "only in the state: u::x"),
        ([resource("a", "u::q", ["u::b"])], "parent u::p and u::q"),
        ([resource("a", "u::p")], "depends only in the plan on ['u::b']"),
        ([resource("a", "u::p", ["u::b", "u::c"])], "only in the state on ['u::c']"),
    ],
)
def test_each_difference_of_graphs_is_told(state, words):
    plan = {"u::a": Node("aws:ec2/vpc:Vpc", "u::p", ("u::b",))}
    [line] = graph_differences(plan, deployed(state, []))
    assert words in line


def test_a_resource_without_an_explicit_provider_of_its_package_is_found():
    default = {"urn": "u::default_7_51_1", "type": "pulumi:providers:aws", "custom": True}
    good = resource("good", custom=True, provider="u::aws::id")
    wrong = [
        resource("none", custom=True),
        resource("default", custom=True, provider="u::default_7_51_1::id"),
        resource("foreign", custom=True, provider="u::aws::id", type="oci:Core/instance:Instance"),
    ]
    component = resource("component", custom=False)
    assert on_default_provider([AWS, good, component]) == []
    assert on_default_provider([AWS, default, good, *wrong]) == [default["urn"], *(found["urn"] for found in wrong)]


def test_unknown_inputs_may_become_anything_in_an_update_and_nothing_else_in_a_preview():
    plan = {"id": UNKNOWN, "ids": [UNKNOWN], "key": Secret("[secret]")}
    assert input_differences(plan, {"id": {"a": 1}, "ids": ["x"], "key": Secret("pem")}, exact=False) == []
    assert input_differences(plan, plan, exact=True) == []
    assert len(input_differences(plan, {**plan, "id": "x", "ids": ["y"]}, exact=True)) == 2


@pytest.mark.parametrize(
    ("seen", "place"),
    [
        ({}, "a: only in the plan"),
        ({"a": {"b": [1, 2]}, "x": 1}, "x: only in the engine"),
        ({"a": {"b": [1]}}, "a.b: "),
        ({"a": {"b": [1, 3]}}, "a.b[1]: 2 in the plan, 3 in the engine"),
        ({"a": {"b": [1, "2"]}}, "a.b[1]: "),
        ({"a": {"b": [True, 2]}}, "a.b[0]: 1 in the plan, True in the engine"),
        ({"a": Secret({"b": [1, 2]})}, "a: "),
    ],
)
def test_each_difference_of_inputs_is_told_with_its_place(seen, place):
    [line] = input_differences({"a": {"b": [1, 2]}}, seen, exact=False)
    assert line.startswith(place)
