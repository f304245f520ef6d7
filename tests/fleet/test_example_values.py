"""Which values of a stack file are examples, and where they are."""

from __future__ import annotations

from fleet.facts.example_values import meaning
from fleet.loading.example_values import example_values, remarks
from fleet.loading.stackfile import load
from tests.builders import ROOT
from tests.cases import cases

EXAMPLES = [
    ("appId", "123456"),
    ("installationId", "12345678"),
    ("url", "https://github.com/example"),
    ("url", "https://github.com/Example/tools"),
    ("repositories", "example/app"),
    ("compartment", "ocid1.compartment.oc1..example"),
    ("id", "ocid1.image.oc1.us-sanjose-1.examplegpu"),
    ("zones", "abcd:US-SANJOSE-1-AD-1"),
    ("emails", "ci@example.com"),
    ("emails", "ci@alerts.example.org"),
    ("emails", "ci@Example.NET"),
    ("emails", "ci@corp.test"),
    ("emails", "ci@mail.invalid"),
    ("publicCidrs", "203.0.113.0/24"),
    ("publicCidrs", "100.64.0.0/16"),
    ("address", "198.51.100.7"),
    ("address", "2001:db8::1"),
    ("endpoint", "https://192.0.2.11:6443"),
    ("endpoint", "https://[2001:db8::1]:6443"),
    ("account", "111122223333"),
    ("nodeRoleArn", "arn:aws:iam::123456789012:role/nodes"),
    ("id", "cr-0123456789abcdef0"),
    ("us-west-2a", "subnet-0aaaaaaaaaaaaaaa1"),
]
REAL = [
    ("group", "123456"),
    ("appId", "1047291"),
    ("url", "https://github.com/examples"),
    ("url", "https://ghe.example.net/acme"),
    ("compartment", "ocid1.compartment.oc1..aaaaexample"),
    ("zones", "bzBe:US-SANJOSE-1-AD-1"),
    ("emails", "ops@gpu-ci.dev"),
    ("emails", "ci@examples.com"),
    ("emails", "example.com@mail.de"),
    ("emails", "ci@contest.io"),
    ("publicCidrs", "93.184.216.0/24"),
    ("cidr", "10.0.0.0/16"),
    ("address", "192.168.178.11"),
    ("endpoint", "https://fleet.acme.io:6443"),
    ("account", "987600001234"),
    ("size", "11112222333344"),
    ("id", "cr-0f1e2d3c4b5a69788"),
]


@cases(("key", "value"), EXAMPLES)
def test_an_example_has_a_meaning(key, value):
    assert meaning(key, value)


@cases(("key", "value"), REAL)
def test_a_value_of_your_own_has_none(key, value):
    assert meaning(key, value) == ""


def test_the_shipped_stack_names_every_example_with_its_line():
    text = (ROOT / "Pulumi.staging.yaml").read_text().splitlines()
    found = list(example_values(load("staging", ROOT)))
    assert [each.key for each in found] == [
        "github.url",
        "github.appId",
        "github.installationId",
        "permissionsBoundary",
        "clusters.usw2.endpoint.publicCidrs[0]",
        "clusters.usw2.budget.emails[0]",
    ]
    for each in found:
        assert each.value in text[each.line - 1]


def test_the_remark_names_six_settings_and_counts_the_others():
    (remark,) = remarks(load("prod", ROOT))
    assert remark.startswith("example values: github.url, github.appId, github.installationId, permissionsBoundary, ")
    assert remark.count(", ") == 5
    assert remark.endswith(" and 20 more (gpu-ci doctor prod lists them); set your own before pulumi up")


def test_a_stack_without_examples_has_no_remark(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: gpu-ci\nruntime: python\n")
    (tmp_path / "Pulumi.own.yaml").write_text("config:\n  gpu-ci:github: {url: https://github.com/acme, appId: '1'}\n")
    assert list(remarks(load("own", tmp_path))) == []
