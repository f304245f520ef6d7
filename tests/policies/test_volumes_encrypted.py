"""volumes-encrypted: each kind with and without its flag, and what bare metal and image volumes are."""

from __future__ import annotations

from policies.rules.kinds import SPOT_REQUEST, STORAGE_CLASS
from policies.rules.volumes_encrypted import EBS_VOLUME, FILE_SYSTEM, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import EC2_INSTANCE, LAUNCH_TEMPLATE, NODE_CLASS, OCI_CONFIGURATION, OCI_INSTANCE, OKE_POOL
from tests.policies.harness import judge, remedied, said
from tests.policies.suite import Suite

TRANSIT = "isPvEncryptionInTransitEnabled"
REST = "is {}: data that a job leaves on the disk can be read from a snapshot; write true"
WAY = "is {}: the machine's disk data crosses the network unencrypted; write true"
KMS = "is not set: this stack requires its own key; set the ARN of a KMS key"


EBS_CLASS = {"provisioner": "ebs.csi.aws.com", "parameters": {"type": "gp3"}}


def template(**disk: object) -> dict[str, object]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100, **disk}}]}


SUITE = Suite(
    RULE,
    passing=(
        Case(LAUNCH_TEMPLATE, template(encrypted="true")),
        Case(LAUNCH_TEMPLATE, template(encrypted="true", kmsKeyId="arn:aws:kms:us-west-2:1:key/1"), config={"requireKms": True}),
        Case(EC2_INSTANCE, {"rootBlockDevice": {"encrypted": True}, "ebsBlockDevices": [{"encrypted": True}]}),
        Case(EC2_INSTANCE, {"launchTemplate": {"id": "lt-1"}}),
        Case(SPOT_REQUEST, {"rootBlockDevice": {"encrypted": True}}),
        Case(NODE_CLASS, {"spec": template(encrypted=True)}),
        Case(NODE_CLASS, {"spec": {"role": "node"}}),
        Case(EBS_VOLUME, {"encrypted": True, "size": 10}),
        Case(FILE_SYSTEM, {"encrypted": True, "throughputMode": "elastic"}),
        Case(STORAGE_CLASS, EBS_CLASS | {"parameters": {"type": "gp3", "encrypted": "true"}}),
        Case(STORAGE_CLASS, {"provisioner": "efs.csi.aws.com", "parameters": {"fileSystemId": "fs-1"}}),
        Case(STORAGE_CLASS, {"provisioner": "blockvolume.csi.oraclecloud.com"}),
        Case(OCI_INSTANCE, {"shape": "VM.GPU.A10.1", TRANSIT: True}),
        Case(OCI_INSTANCE, {"shape": "VM.GPU.A10.1", "launchOptions": {TRANSIT: True}}),
        Case(OCI_INSTANCE, {"shape": "BM.GPU.A10.4"}),
        Case(OCI_CONFIGURATION, {"instanceDetails": {"launchDetails": {"shape": "VM.GPU.A10.1", TRANSIT: True}}}),
        Case(OCI_CONFIGURATION, {"instanceDetails": {"options": [{"launchDetails": {TRANSIT: True}}]}}),
        Case(OKE_POOL, {"nodeShape": "VM.GPU.A10.1", "nodeConfigDetails": {TRANSIT: True}}),
        Case(OKE_POOL, {"nodeShape": "BM.GPU4.8"}),
    ),
    violating=(
        Case(LAUNCH_TEMPLATE, template(), (f"blockDeviceMappings[0].ebs.encrypted {REST.format('not set')}",)),
        Case(LAUNCH_TEMPLATE, template(encrypted="false"), ("blockDeviceMappings[0].ebs.encrypted " + REST.format('"false"'),)),
        *(
            Case(
                LAUNCH_TEMPLATE,
                {"imageId": "ami-1", "blockDeviceMappings": mappings},
                (
                    "blockDeviceMappings has no volume: nodes then get the image's own volume, which may not be encrypted; "
                    "write a mapping with ebs.encrypted true",
                ),
                unremedied=True,
            )
            for mappings in ([], [{"deviceName": "/dev/sdb", "virtualName": "ephemeral0"}])
        ),
        Case(
            LAUNCH_TEMPLATE,
            template(encrypted="true"),
            (f"blockDeviceMappings[0].ebs.kmsKeyId {KMS}",),
            config={"requireKms": True},
            unremedied=True,
        ),
        Case(EC2_INSTANCE, {"rootBlockDevice": {}}, (f"rootBlockDevice.encrypted {REST.format('not set')}",)),
        Case(
            EC2_INSTANCE,
            {"launchTemplate": {"id": "lt-1"}, "ebsBlockDevices": [{"encrypted": False}]},
            (f"ebsBlockDevices[0].encrypted {REST.format('false')}",),
        ),
        Case(SPOT_REQUEST, {"instanceType": "g5.xlarge"}, (f"rootBlockDevice.encrypted {REST.format('not set')}",)),
        Case(NODE_CLASS, {"spec": template()}, (f"spec.blockDeviceMappings[0].ebs.encrypted {REST.format('not set')}",)),
        Case(EBS_VOLUME, {"size": 10}, (f"encrypted {REST.format('not set')}",)),
        Case(FILE_SYSTEM, {"throughputMode": "elastic"}, (f"encrypted {REST.format('not set')}",)),
        Case(FILE_SYSTEM, {"encrypted": True}, (f"kmsKeyId {KMS}",), config={"requireKms": True}, unremedied=True),
        Case(STORAGE_CLASS, EBS_CLASS, (f"parameters.encrypted {REST.format('not set')}",)),
        Case(STORAGE_CLASS, {"provisioner": "kubernetes.io/aws-ebs"}, (f"parameters.encrypted {REST.format('not set')}",)),
        Case(OCI_INSTANCE, {"shape": "VM.GPU.A10.1"}, (f"{TRANSIT} {WAY.format('not set')}",)),
        Case(
            OCI_CONFIGURATION,
            {"instanceDetails": {"launchDetails": {"shape": "VM.GPU.A10.1", TRANSIT: False}}},
            (f"instanceDetails.launchDetails.{TRANSIT} {WAY.format('false')}",),
        ),
        Case(
            OCI_CONFIGURATION,
            {"instanceDetails": {"options": [{"launchDetails": {TRANSIT: True}}, {"launchDetails": {}}]}},
            (f"instanceDetails.options[1].launchDetails.{TRANSIT} {WAY.format('not set')}",),
        ),
        Case(OKE_POOL, {"nodeShape": "VM.GPU.A10.1"}, (f"nodeConfigDetails.{TRANSIT} {WAY.format('not set')}",)),
    ),
)


def test_each_of_several_disks_is_told_and_mended() -> None:
    props = {"blockDeviceMappings": [{"ebs": {"encrypted": "true"}}, {"ebs": {}}, {"ebs": {"encrypted": "no"}}]}
    assert judge(RULE, LAUNCH_TEMPLATE, props) == said(
        f"blockDeviceMappings[1].ebs.encrypted {REST.format('not set')}",
        "blockDeviceMappings[2].ebs.encrypted " + REST.format('"no"'),
    )
    assert remedied(RULE, LAUNCH_TEMPLATE, props) == {"blockDeviceMappings": [{"ebs": {"encrypted": "true"}}] * 3}
