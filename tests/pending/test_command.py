"""`gpu-ci pending` against moto and an API server on loopback."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gpu_ci.cli import app
from gpu_ci.pending import findings
from tests.doctor.loopback import serve
from tests.pending.states import AWS, CLUSTER, KUBERNETES, SECRET, STACK, pending, resource, state, urn
from tests.simulated_aws import simulated_aws

VPC, ROLE, RELEASE = "aws:ec2/vpc:Vpc", "aws:iam/role:Role", "kubernetes:helm.sh/v3:Release"
TAGS = [{"Key": "gpu-ci/stack", "Value": "staging"}]
CLEAR = "pulumi refresh --stack staging --clear-pending-creates --yes"
Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No credentials, no kubeconfig and no CLI of this machine."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "KUBE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    findings.connect.cache_clear()
    yield
    findings.connect.cache_clear()


@pytest.fixture
def cloud() -> Iterator[Any]:
    with simulated_aws() as client:
        yield client


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command on a state."""

    def run(content: dict[str, Any], *options: str) -> Result:
        path = tmp_path / "state.json"
        path.write_text(json.dumps(content))
        return CliRunner().invoke(app, ["pending", "--state", str(path), *options, "staging"])

    return run


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Puts releases, (namespace, name, status, version), into a cluster with staging's name, which has the Secret arc/key."""
    answers: dict[str, tuple[Any, ...]] = {}

    def put(*releases: tuple[str, str, str, int]) -> None:
        items = [
            {
                "metadata": {
                    "namespace": namespace,
                    "labels": {"owner": "helm", "name": name, "status": status, "version": str(version)},
                }
            }
            for namespace, name, status, version in releases
        ]
        answers["/api/v1/secrets?"] = (200, {"items": items})

    with serve(answers) as server:
        context = f"arn:aws:eks:us-west-2:123456789012:cluster/{CLUSTER}"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        put()
        answers["/api/v1"] = (200, {"resources": [{"name": "secrets", "kind": "Secret", "namespaced": True}]})
        answers["/api/v1/namespaces/"] = (404, {"kind": "Status", "reason": "NotFound", "message": "not found"})
        answers["/api/v1/namespaces/arc/secrets/key"] = (200, {"metadata": {"name": "key"}})
        yield put


def vpc(ec2: Any, name: str) -> str:
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "Name", "Value": name}, *TAGS]}]
    made: str = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags)["Vpc"]["VpcId"]
    return made


def commands(result: Result) -> list[str]:
    """The printed commands."""
    return [line.strip() for line in result.stdout.splitlines() if line.startswith("  ") and not line.startswith("  look:")]


def test_a_settled_stack_is_one_line(run: Run, cloud: Any, helm: Any) -> None:
    result = run(state())
    assert (result.exit_code, result.stdout) == (0, "nothing is pending\n")


@pytest.mark.parametrize("deployment", [None, {}, {"resources": None, "pending_operations": None}])
def test_a_stack_that_was_never_updated_has_nothing(run: Run, cloud: Any, deployment: Any) -> None:
    assert run({"version": 3, "deployment": deployment}).exit_code == 0


def test_what_exists_is_imported_and_what_does_not_is_cleared(run: Run, cloud: Any, tmp_path: Path) -> None:
    made = vpc(cloud("ec2"), "net")
    file = tmp_path / "import me.json"
    wanted = state(pending(VPC, "usw2-vpc", {"tags": {"Name": "net"}}), pending(ROLE, "usw2-role", {"name": "role-a1"}))
    result = run(wanted, "--import-file", str(file))
    assert result.exit_code == 1
    assert f"creating: usw2-vpc ({VPC}): exists as {made}: import\n" in result.stdout
    assert f"creating: usw2-role ({ROLE}): nothing of it exists: clear\n" in result.stdout
    options = "--yes --generate-code=false --protect=false"
    assert commands(result) == [f"pulumi import --stack staging --file {shlex.quote(str(file))} {options}", CLEAR]
    assert json.loads(file.read_text()) == {
        "nameTable": {STACK: STACK, AWS: AWS},
        "resources": [
            {
                "type": VPC,
                "name": urn(VPC, "usw2-vpc"),
                "logicalName": "usw2-vpc",
                "id": made,
                "parent": STACK,
                "provider": AWS,
                "version": "7.51.1",
            }
        ],
    }


def test_without_a_name_for_the_import_file_the_list_begins_with_writing_it(run: Run, cloud: Any) -> None:
    vpc(cloud("ec2"), "net")
    first, second, _ = commands(run(state(pending(VPC, "v", {"tags": {"Name": "net"}}))))
    assert first == "gpu-ci pending staging --import-file pending.json"
    assert " --file pending.json " in second


def test_of_two_with_the_same_tags_one_is_imported_and_one_deleted(run: Run, cloud: Any) -> None:
    both = {vpc(cloud("ec2"), "net") for _ in range(2)}
    document = json.loads(run(state(pending(VPC, "v", {"tags": {"Name": "net"}})), "--json").stdout)
    assert sorted(each["needs"] for each in document["pending"]) == ["delete", "import"]
    assert {each["id"] for each in document["pending"]} == both
    (deleted,) = [each["id"] for each in document["pending"] if each["needs"] == "delete"]
    assert document["commands"][0] == f"aws ec2 delete-vpc --vpc-id {deleted} --region us-west-2"


def test_what_the_state_has_under_the_same_urn_is_deleted(run: Run, cloud: Any) -> None:
    """A later update has created the resource once more."""
    ec2 = cloud("ec2")
    old, new = vpc(ec2, "net"), vpc(ec2, "net")
    result = run(state(pending(VPC, "v", {"tags": {"Name": "net"}}), resources=(resource(VPC, "v", id=new),)))
    assert commands(result) == [f"aws ec2 delete-vpc --vpc-id {old} --region us-west-2", CLEAR]


def test_an_association_that_the_state_has_by_another_id_is_not_deleted(run: Run, cloud: Any) -> None:
    ec2, kind = cloud("ec2"), "aws:ec2/routeTableAssociation:RouteTableAssociation"
    home = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=home, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=home)["RouteTable"]["RouteTableId"]
    made = ec2.associate_route_table(SubnetId=subnet, RouteTableId=table)["AssociationId"]
    inputs = {"subnetId": subnet, "routeTableId": table}
    assert f"{subnet}/{table}: import" in run(state(pending(kind, "a", inputs))).stdout
    assert commands(run(state(pending(kind, "a", inputs), resources=(resource(kind, "a", id=made, inputs=inputs),)))) == [CLEAR]


def test_what_has_the_tag_and_no_state_is_deleted_and_what_nodes_made_stays(run: Run, cloud: Any) -> None:
    ec2 = cloud("ec2")
    lost, kept = vpc(ec2, "lost"), vpc(ec2, "kept")
    for kind, tags in (("volume", TAGS), ("launch-template", [*TAGS, {"Key": "eks:nodegroup-name", "Value": "t4"}])):
        spec = [{"ResourceType": kind, "Tags": tags}]
        if kind == "volume":
            ec2.create_volume(AvailabilityZone="us-west-2a", Size=1, TagSpecifications=spec)
        else:
            ec2.create_launch_template(LaunchTemplateName="eks-1", LaunchTemplateData={}, TagSpecifications=spec)
    arn = f"arn:aws:ec2:us-west-2:123456789012:vpc/{kept}"
    result = run(state(resources=(resource(VPC, "v", id="another name", outputs={"arn": arn}),)))
    assert result.exit_code == 1
    assert commands(result) == [f"aws ec2 delete-vpc --vpc-id {lost} --region us-west-2", CLEAR]


def test_without_credentials_it_says_what_may_exist_and_offers_no_clearing(run: Run) -> None:
    result = run(state(pending(VPC, "v", {"tags": {"Name": "net"}})))
    assert result.exit_code == 1
    assert "not asked: AWS: Unable to locate credentials\n" in result.stdout
    assert f"not asked: {CLUSTER}: there is no kubeconfig" in result.stdout
    assert "  look: aws ec2 describe-vpcs --filters Name=tag:Name,Values=net " in result.stdout
    assert "1 may exist." in result.stdout
    assert commands(result) == []


def test_credentials_of_another_account_ask_nothing(run: Run, cloud: Any) -> None:
    own = resource(ROLE, "r", id="r", outputs={"arn": "arn:aws:iam::987600001234:role/r"})
    result = run(state(pending(VPC, "v", {"tags": {"Name": "net"}}), resources=(own,)))
    assert "not asked: AWS: the credentials are of account 123456789012" in result.stdout
    assert commands(result) == []


@pytest.mark.parametrize("operation", ["updating", "deleting", "importing", "reading"])
def test_another_operation_needs_only_the_refresh(run: Run, cloud: Any, operation: str) -> None:
    result = run(state(pending(VPC, "v", {}, operation=operation)))
    assert f"{operation}: v ({VPC}): the refresh reads what exists: refresh\n" in result.stdout
    assert commands(result) == [CLEAR]


def test_a_component_and_a_provider_exist_in_no_cloud(run: Run) -> None:
    component = pending("gpu-ci:index:EksNetwork", "n", {})
    component["resource"]["custom"] = False
    assert commands(run(state(component, pending("pulumi:providers:aws", "p", {})))) == [CLEAR]


def test_a_half_created_resource_of_a_cloud_is_replaced_after_the_refresh(run: Run, cloud: Any) -> None:
    group = resource("aws:eks/nodeGroup:NodeGroup", "g", id="c:g", initErrors=["NodeCreationFailure"])
    object_ = resource("kubernetes:apps/v1:Deployment", "d", KUBERNETES, id="a/d", initErrors=["not ready"])
    result = run(state(resources=(group, object_)))
    assert commands(result) == [CLEAR, f"pulumi up --stack staging --replace {group['urn']}"]


@pytest.mark.parametrize(
    ("status", "verb"), [("pending-install", "uninstall"), ("pending-upgrade", "rollback"), ("pending-rollback", "rollback")]
)
def test_a_release_that_waits_is_ended_also_if_the_state_has_it(run: Run, cloud: Any, helm: Any, status: str, verb: str) -> None:
    helm(("arc", "set", status, 10), ("arc", "set", "deployed", 9), ("arc", "other", "deployed", 10))
    result = run(state(resources=(resource(RELEASE, "s", KUBERNETES, id="arc/set"),)))
    assert f"release: arc/set: is {status}: delete\n" in result.stdout
    assert commands(result)[0] == (
        f"helm {verb} set --namespace arc --kube-context arn:aws:eks:us-west-2:123456789012:cluster/{CLUSTER}"
    )


def test_an_install_that_was_killed_is_uninstalled_once_and_one_that_ended_is_imported(run: Run, cloud: Any, helm: Any) -> None:
    create = pending(RELEASE, "s", {"namespace": "arc", "name": "set"}, KUBERNETES)
    helm(("arc", "set", "pending-install", 1))
    uninstall, clear = commands(run(state(create)))
    assert (uninstall.split()[:3], clear) == (["helm", "uninstall", "set"], CLEAR)
    helm(("arc", "set", "deployed", 1))
    document = json.loads(run(state(create), "--json").stdout)
    assert [(each["needs"], each["id"]) for each in document["pending"]] == [("import", "arc/set")]
    helm(("elsewhere", "set", "deployed", 1))
    assert commands(run(state(create))) == [CLEAR]


def test_an_object_of_kubernetes_is_looked_up_by_its_name(run: Run, cloud: Any, helm: Any) -> None:
    def secret(name: str) -> dict[str, Any]:
        inputs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "arc"}, "stringData": SECRET}
        return pending("kubernetes:core/v1:Secret", name, inputs, KUBERNETES)

    absent = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "q", "namespace": "arc"}}
    queue = pending("kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue", "q", absent, KUBERNETES)
    result = run(state(secret("key"), secret("lost"), queue), "--json")
    document = json.loads(result.stdout)
    assert [(each["name"], each["needs"], each["id"]) for each in document["pending"]] == [
        ("key", "import", "arc/key"),
        ("lost", "clear", ""),
        ("q", "clear", ""),
    ]
    assert "cipher" not in result.stdout, "no input is printed"
    kept = resource("kubernetes:core/v1:Secret", "key", KUBERNETES, id="arc/key")
    assert commands(run(state(secret("key"), resources=(kept,)))) == [CLEAR]
    other = resource("kubernetes:core/v1:ConfigMap", "key", KUBERNETES, id="arc/key")
    assert "exists as arc/key: import" in run(state(secret("key"), resources=(other,))).stdout


def test_a_cluster_that_does_not_answer_is_asked_once(run: Run, cloud: Any, helm: Any, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(path.read_text().replace("http://127.0.0.1:", "http://127.0.0.1:9/"))
    result = run(state(pending(RELEASE, "s", {"namespace": "arc", "name": "set"}, KUBERNETES)))
    assert result.stdout.count(f"not asked: {CLUSTER}: ") == 1
    assert "  look: helm list --all --namespace arc --filter '^set$'" in result.stdout


# -- wrong input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty: delete the empty .json.attrs"),
        ("{", "it starts with '{'"),
        ("[]", "it starts with '[]'"),
        ('{"version": 3}', "must be the JSON that pulumi stack export prints"),
        ('{"deployment": {"resources": [{}]}}', "must be the JSON that pulumi stack export prints"),
        ('{"deployment": {"pending_operations": [{"type": "creating"}]}}', "must be the JSON that pulumi stack export prints"),
    ],
)
def test_a_text_that_is_no_export_is_one_error(text: str, said: str) -> None:
    result = CliRunner().invoke(app, ["pending", "--state", "-", "staging"], input=text)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


def test_a_file_that_is_not_there_and_one_that_cannot_be_written(run: Run, cloud: Any, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pending", "--state", str(tmp_path / "no.json"), "staging"])
    assert (result.exit_code, "--state: cannot read" in result.stderr) == (2, True)
    result = run(state(), "--import-file", str(tmp_path / "no" / "file.json"))
    assert (result.exit_code, "--import-file: cannot write" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("error: no stack named 'staging' found", "error: no stack named 'staging' found; put the CLI on PATH"),
        ("error: failed to load checkpoint: EOF", "a killed run can leave an empty .json.attrs"),
        (None, "the Pulumi CLI is not on PATH"),
    ],
)
def test_an_export_that_fails_is_one_error(tmp_path: Path, printed: str | None, said: str) -> None:
    if printed is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "pulumi").write_text(f'#!/bin/sh\necho "{printed}" >&2\nexit 255\n')
        (tmp_path / "bin" / "pulumi").chmod(0o755)
    result = CliRunner().invoke(app, ["pending", "staging"])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


def test_the_export_never_shows_secrets(tmp_path: Path, cloud: Any) -> None:
    (tmp_path / "bin").mkdir()
    script = f"#!/bin/sh\necho \"$@\" > '{tmp_path}/words'\necho '{json.dumps(state())}'\n"
    (tmp_path / "bin" / "pulumi").write_text(script)
    (tmp_path / "bin" / "pulumi").chmod(0o755)
    assert CliRunner().invoke(app, ["pending", "staging"]).exit_code == 0
    assert (tmp_path / "words").read_text() == "stack export --stack staging --non-interactive\n"


def test_a_provider_without_a_cluster_asks_no_cluster(run: Run, helm: Callable[..., None]) -> None:
    helm()
    gone = urn("pulumi:providers:kubernetes", "gone")
    inputs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "arc"}}
    found = run(state(pending("kubernetes:core/v1:Secret", "key", inputs, gone)))
    assert "creating: key (kubernetes:core/v1:Secret): it may exist: unknown" in found.output
    assert "not asked: :" not in found.output


def test_a_name_that_is_secret_is_not_printed(run: Run) -> None:
    secret = pending("kubernetes:core/v1:Secret", "key", {"apiVersion": "v1", "kind": "Secret", "metadata": SECRET}, KUBERNETES)
    release = pending(RELEASE, "set", {"name": SECRET, "namespace": SECRET}, KUBERNETES)
    found = run(state(secret, release))
    assert found.output.count("it may exist; this program knows no call that finds it: unknown") == 2
    assert "cipher" not in found.output
    assert "look:" not in found.output


def test_two_contexts_of_a_cluster_need_a_choice(run: Run, helm: Callable[..., None], tmp_path: Path) -> None:
    helm(("arc", "set", "pending-install", 1))
    file = tmp_path / "kubeconfig"
    config = json.loads(file.read_text())
    (first,) = config["contexts"]
    config["contexts"].append(first | {"name": f"other/{CLUSTER}"})
    file.write_text(json.dumps(config))
    refused = run(state()).output.replace("\n", " ")
    assert f"not asked: {CLUSTER}: the kubeconfig has several contexts for {CLUSTER}: arn:aws:eks" in refused
    assert f"kubectl config rename-context OLD {CLUSTER}" in refused
    findings.connect.cache_clear()
    config["contexts"].append(first | {"name": CLUSTER})
    file.write_text(json.dumps(config))
    assert f"--kube-context {CLUSTER}" in run(state()).output
