"""The checks of AWS: moto answers STS and EC2; botocore's stubs, which check each answer by the service's model, the others."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError
from botocore.stub import Stubber

from fleet.facts import versions
from fleet.facts.eks_images import parameter
from fleet.loading.config import load
from fleet.providers.eks.cluster import EksPools
from fleet.providers.eks.doctor import findings
from fleet.providers.finding import Finding
from fleet.providers.fleet import Fleet
from tests.builders import ROOT, config, existing_eks, pool, runner
from tests.docs.test_cloud_commands import aws_faults
from tests.doctor.fleets import edited, fixes, lines, shipped
from tests.simulated_aws import simulated_aws

MINOR = versions.KUBERNETES["1.36"]
CODES = {"L-3819A6DF": "All G and VT Spot Instance Requests", "L-DB2E81BA": "Running On-Demand G and VT instances"}


def checked(fleet: Fleet, session: Any = None) -> Iterator[Finding]:
    """The findings for the EKS clusters of a fleet."""
    return findings({name: each for name, each in fleet.clusters_by_name() if isinstance(each, EksPools)}, session)


class Cloud:
    """A boto3 session whose clients of some services have stubs. `called` are the operations of all clients."""

    def __init__(self) -> None:
        self._session = boto3.Session()
        self.called: list[str] = []
        self.quotas: dict[str, float | str] = dict.fromkeys(CODES, 400.0)
        self.addons: dict[str, list[str]] = {name: [version, "v0.0.1"] for name, version in MINOR.addons.items()}
        self.images: dict[str, str] = {parameter(MINOR.ami_release, each): "ami-0a" for each in ("standard", "nvidia")}

    def client(self, name: str, **options: Any) -> Any:
        client = self._session.client(name, **options)
        client.meta.events.register("before-parameter-build", lambda model, **_: self.called.append(model.name))
        fill: dict[str, Callable[[Stubber], None]] = {"service-quotas": self._quotas, "eks": self._addons, "ssm": self._images}
        if name in fill:
            stubber = Stubber(client)
            fill[name](stubber)
            stubber.activate()
        return client

    def _quotas(self, stubber: Stubber) -> None:
        for code, value in self.quotas.items():
            asked = {"ServiceCode": "ec2", "QuotaCode": code}
            if isinstance(value, str):
                stubber.add_client_error("get_service_quota", value, "not allowed", expected_params=asked)
            else:
                quota = {"QuotaCode": code, "QuotaName": CODES[code], "Value": value}
                stubber.add_response("get_service_quota", {"Quota": quota}, asked)

    def _addons(self, stubber: Stubber) -> None:
        for name, offered in self.addons.items():
            addon = {"addonName": name, "addonVersions": [{"addonVersion": each} for each in offered]}
            asked = {"kubernetesVersion": "1.36", "addonName": name}
            stubber.add_response("describe_addon_versions", {"addons": [addon] if offered else []}, asked)

    def _images(self, stubber: Stubber) -> None:
        for name, image in self.images.items():
            if image:
                stubber.add_response("get_parameter", {"Parameter": {"Name": name, "Value": image}}, {"Name": name})
            else:
                stubber.add_client_error("get_parameter", "ParameterNotFound", expected_params={"Name": name})


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with simulated_aws():
        yield Cloud()


def test_a_fleet_that_fits_its_account_is_ok(cloud: Cloud) -> None:
    found = list(checked(shipped("staging"), cloud))
    assert {each.state for each in found} == {"ok"}
    assert sorted(lines(found)) == [
        "ok: credentials: arn:aws:sts::123456789012:user/moto",
        "ok: us-west-2: quota L-3819A6DF (All G and VT Spot Instance Requests): full pools need 80 vCPUs, the account has 400",
        "ok: us-west-2: quota L-DB2E81BA (Running On-Demand G and VT instances): full pools need 32 vCPUs, the account has 400",
        "ok: usw2: EKS offers all 6 add-ons for Kubernetes 1.36",
        f"ok: usw2: node image AL2023 nvidia {MINOR.ami_release} is on offer",
        f"ok: usw2: node image AL2023 standard {MINOR.ami_release} is on offer",
        "ok: usw2: pool t4-ondemand: us-west-2a, us-west-2b offers g4dn.2xlarge",
        "ok: usw2: pool t4-release: us-west-2a, us-west-2b offers g4dn.2xlarge",
        "ok: usw2: pool t4-spot: us-west-2a, us-west-2b, us-west-2c offers g4dn.2xlarge or g4dn.4xlarge",
        "ok: usw2: system pool: us-west-2a, us-west-2b, us-west-2c offers m6i.large",
    ]


def test_every_call_only_reads(cloud: Cloud) -> None:
    list(checked(shipped("staging"), cloud))
    assert {"GetCallerIdentity", "GetServiceQuota", "DescribeInstanceTypeOfferings", "GetParameter"} <= set(cloud.called)
    assert [name for name in cloud.called if not name.startswith(("Get", "Describe", "List"))] == []


def test_the_page_names_each_action_that_the_calls_need(cloud: Cloud, tmp_path: Path) -> None:
    fleet = edited("staging", tmp_path, ("          role: burst", "          role: burst\n          ami: ami-0f0f0f0f"))
    list(checked(fleet, cloud))
    listed = re.findall(r'"(?:ec2|eks|servicequotas|ssm):(\w+)"', (ROOT / "docs" / "doctor.md").read_text())
    assert {*cloud.called, "DescribeClusterVersions"} == {*listed, "GetCallerIdentity"}, "the area freshness asks for the minors"


def test_the_fixes_are_calls_that_the_clis_have(cloud: Cloud, tmp_path: Path) -> None:
    cloud.quotas = dict.fromkeys(CODES, 0.0)
    cloud.addons = {name: [] for name in MINOR.addons}
    cloud.images = dict.fromkeys(cloud.images, "")
    own = ("          role: release", "          role: release\n          ami: ami-0f0f0f0f")
    found = fixes(checked(edited("staging", tmp_path, ("us-west-2c", "us-west-2d"), own), cloud))
    calls = [shlex.split(each.partition(", then ")[0]) for each in found]
    assert {(service, command) for _, service, command, *_ in calls} == {
        ("service-quotas", "request-service-quota-increase"),
        ("ec2", "describe-instance-type-offerings"),
        ("eks", "describe-addon-versions"),
        ("ssm", "get-parameters-by-path"),
        ("ec2", "describe-images"),
    }
    assert [fault for call in calls for fault in aws_faults(tuple(call[1:]))] == []


def test_a_quota_that_is_too_small_names_the_command_that_requests_more(cloud: Cloud) -> None:
    cloud.quotas["L-DB2E81BA"] = 0.0
    found = list(checked(shipped("staging"), cloud))
    assert [each for each in lines(found) if each.startswith("wrong")] == [
        "wrong: us-west-2: quota L-DB2E81BA (Running On-Demand G and VT instances): full pools need 32 vCPUs, the account has 0"
    ]
    assert fixes(found) == [
        "aws service-quotas request-service-quota-increase --region us-west-2 --service-code ec2 --quota-code L-DB2E81BA "
        "--desired-value 32"
    ]


def test_a_quota_of_exactly_the_need_is_enough(cloud: Cloud) -> None:
    cloud.quotas |= {"L-3819A6DF": 80.0, "L-DB2E81BA": 32.0}
    assert {each.state for each in checked(shipped("staging"), cloud)} == {"ok"}


def test_a_call_that_is_not_allowed_is_skipped_with_its_name_and_the_rest_is_checked(cloud: Cloud) -> None:
    cloud.quotas = {"L-3819A6DF": "AccessDeniedException"}
    found = lines(checked(shipped("staging"), cloud))
    (reason,) = [each for each in found if each.startswith("skipped")]
    assert reason.startswith("skipped: us-west-2: quotas: An error occurred (AccessDeniedException)")
    assert "GetServiceQuota" in reason
    assert "ok: usw2: EKS offers all 6 add-ons for Kubernetes 1.36" in found


def test_an_answer_without_a_field_is_skipped_and_the_rest_is_checked(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "_quotas", lambda stubber: stubber.add_response("get_service_quota", {"Quota": {}}))
    found = lines(checked(shipped("staging"), cloud))
    (reason,) = [each for each in found if each.startswith("skipped")]
    assert reason == "skipped: us-west-2: quotas: an answer does not have the expected form (KeyError: 'QuotaName')"
    assert "ok: usw2: EKS offers all 6 add-ons for Kubernetes 1.36" in found


def test_a_zone_without_the_type_is_wrong(cloud: Cloud, tmp_path: Any) -> None:
    fleet = edited("staging", tmp_path, ("us-west-2c", "us-west-2d"))
    found = list(checked(fleet, cloud))
    wrong = [each for each in found if each.state == "wrong"]
    assert [each.said for each in wrong] == ["usw2: pool t4-spot: us-west-2d does not offer g4dn.2xlarge or g4dn.4xlarge"]
    assert wrong[0].fix.startswith("aws ec2 describe-instance-type-offerings --region us-west-2 ")


def test_a_zone_that_offers_one_of_the_types_of_a_pool_is_enough(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Auto Scaling group starts any of its types. Here us-west-2c lacks the second type of the pool."""
    real = cloud.client

    def client(name: str, **options: Any) -> Any:
        made = real(name, **options)
        if name == "ec2":
            lack = {"InstanceType": "g4dn.4xlarge", "Location": "us-west-2c"}

            def drop(parsed: dict[str, Any], **_: Any) -> None:
                kept = [each for each in parsed["InstanceTypeOfferings"] if not lack.items() <= each.items()]
                assert len(kept) < len(parsed["InstanceTypeOfferings"])
                parsed["InstanceTypeOfferings"] = kept

            made.meta.events.register("after-call.ec2.DescribeInstanceTypeOfferings", drop)
        return made

    monkeypatch.setattr(cloud, "client", client)
    assert {each.state for each in checked(shipped("staging"), cloud)} == {"ok"}


def test_an_addon_version_that_is_not_on_offer_is_wrong(cloud: Cloud) -> None:
    cloud.addons["coredns"] = ["v0.0.1"]
    found = list(checked(shipped("staging"), cloud))
    (wrong,) = [each for each in found if each.state == "wrong"]
    assert wrong.said == f"usw2: EKS does not offer coredns {MINOR.addons['coredns']} for Kubernetes 1.36"
    assert "aws eks describe-addon-versions --region us-west-2 --kubernetes-version 1.36 --addon-name coredns" in wrong.fix


def test_a_release_of_the_node_image_that_is_not_on_offer_is_wrong(cloud: Cloud) -> None:
    cloud.images[parameter(MINOR.ami_release)] = ""
    found = list(checked(shipped("staging"), cloud))
    (wrong,) = [each for each in found if each.state == "wrong"]
    assert wrong.said == f"usw2: node image AL2023 nvidia {MINOR.ami_release} is not on offer"
    assert "--path /aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia " in wrong.fix


@pytest.mark.parametrize(
    ("exists", "said"), [(True, "ok: usw2: image {} exists"), (False, "wrong: usw2: us-west-2 has no image {}")]
)
def test_an_image_of_your_own_exists_or_not(cloud: Cloud, tmp_path: Any, exists: bool, said: str) -> None:
    image = boto3.client("ec2", region_name="us-west-2").register_image(Name="own")["ImageId"] if exists else "ami-0f0f0f0f"
    fleet = edited("staging", tmp_path, ("          role: burst", f"          role: burst\n          ami: {image}"))
    assert any(each.startswith(said.format(image)) for each in lines(checked(fleet, cloud)))


def test_another_account_than_that_of_the_settings_is_wrong(cloud: Cloud, tmp_path: Any) -> None:
    registry = "      zones: [us-west-2a, us-west-2b, us-west-2c]\n      registry: {account: '987600001234', prefix: ci}"
    changes = (("123456789012", "987600001234"), ("      zones: [us-west-2a, us-west-2b, us-west-2c]", registry))
    found = list(checked(edited("staging", tmp_path, *changes), cloud))
    assert found[0].state == "wrong"
    assert "the settings name account 987600001234" in found[0].said
    assert found[0].fix == "export AWS_PROFILE=<a profile of account 987600001234>"


def test_without_credentials_one_line_is_wrong_and_the_rest_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    first, second = checked(shipped("staging"))
    assert (first.state, first.said) == ("wrong", "credentials: Unable to locate credentials")
    assert first.fix.startswith("aws configure sso")
    assert second.state == "skipped"


def test_a_cloud_that_cannot_be_reached_is_skipped() -> None:
    class Silent:
        def client(self, *_: object, **__: object) -> Any:
            raise ConnectTimeoutError(endpoint_url="https://sts.us-west-2.amazonaws.com")

    (only,) = checked(shipped("staging"), Silent())
    assert only.state == "skipped"
    assert only.said.startswith("AWS cannot be reached")


def test_without_boto3_everything_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    (only,) = checked(shipped("staging"))
    assert only.state == "skipped"
    assert only.said.endswith("make doctor installs it")


def test_a_stack_without_eks_asks_aws_nothing() -> None:
    assert [list(provider.findings(clusters)) for provider, clusters in shipped("homelab").by_provider()] == [[]]


def test_a_pool_without_gpus_needs_the_plain_image_and_no_other(cloud: Cloud) -> None:
    pools = {"t4": pool(instanceTypes=["m6i.2xlarge"])}
    fleet = load(config(clusters={"usw2": existing_eks(kubernetesVersion="1.36", pools=pools, runners={"a": runner(gpus=0)})}))
    cloud.quotas, cloud.images = {"L-1216C47A": "AccessDeniedException"}, {parameter(MINOR.ami_release, "standard"): "ami-0a"}
    images = [line for line in lines(list(checked(fleet, cloud))) if "node image" in line]
    assert images == [f"ok: usw2: node image AL2023 standard {MINOR.ami_release} is on offer"]
