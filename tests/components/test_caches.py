"""Caches as resources: what each cloud has for them, the class after it, the claims after that; and who may mount what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest

from components.eks.iam import POD_IDENTITY_TRUST
from components.oci.rights import file_system_network_rights, file_system_rights
from fleet.facts.scheduling import REGION
from fleet.facts.versions import KUBERNETES
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording, Resource
from policies.rules import RULES
from tests.builders import cluster, oke_cluster, oke_pool, pool
from tests.cases import cases
from tests.components import oke
from tests.components.built import TAGS, built, planned
from tests.components.recorded import before, named, of_type
from tests.day import AS_OF
from tests.fleet.test_isolation import MINORS

CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
NAMESPACE = "kubernetes:core/v1:Namespace"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
ADDON = "aws:eks/addon:Addon"
FILES = "aws:efs/fileSystem:FileSystem"
TARGET = "aws:efs/mountTarget:MountTarget"
ROLE = "aws:iam/role:Role"
RIGHTS = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
OCI_TARGET = "oci:FileStorage/mountTarget:MountTarget"

OF_NETWORK = "ocid1.compartment.oc1..examplenetwork"
DISK = {"storage": "ebs", "size": "200Gi", "namespaces": ["research"], "iops": 4000, "throughput": 250, "retain": False}
EKS_CACHES: dict[str, Any] = {"models": {"storage": "efs", "size": "500Gi", "namespaces": ["research", "speech"]}, "work": DISK}
BLOCK = {"storage": "block", "size": "200Gi", "namespaces": ["research"], "vpus": 20}
OKE_CACHES: dict[str, Any] = {"models": {"storage": "fss", "size": "500Gi", "namespaces": ["research", "speech"]}, "work": BLOCK}


LONGEST = "c" * 28
"""A cluster's name."""
SUBNETS = {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}


def made(**clusters: dict[str, Any]) -> Recording:
    """As an update: ids are `<name>-id`."""
    return built(preview=False, clusters=clusters, tags=TAGS)


def of_both(**changes: Any) -> dict[str, Any]:
    """A cluster of each cloud, each with a cache of each storage."""
    on_eks = cluster(caches=EKS_CACHES, runners={}, **changes)
    return {"usw2": on_eks, "sjc": oke_cluster(caches=OKE_CACHES, runners={}, **changes)}


@pytest.fixture(scope="module")
def updated() -> Recording:
    return made(**of_both())


@pytest.fixture(scope="module")
def protected() -> Recording:
    return planned(**of_both(protect=True))


@pytest.fixture(scope="module", params=["protected", "updated"])
def cached(request: pytest.FixtureRequest) -> Recording:
    """That fleet in preview, and as an update."""
    recording: Recording = request.getfixturevalue(request.param)
    return recording


@pytest.fixture(scope="module")
def in_given_subnets() -> Recording:
    """A cluster in subnets that exist already, with a pool in one zone and one in both, and a file system alone."""
    network = {"vpcId": "vpc-01234567", "privateSubnets": SUBNETS}
    pools = {"t4": pool(zones=["us-west-2b"]), "t4-wide": pool()}
    caches = {"models": EKS_CACHES["models"]}
    return planned(**{LONGEST: cluster(caches=caches, network=network, pools=pools, runners={})})


@pytest.fixture(scope="module")
def with_disks() -> Recording:
    """Disks alone."""
    return planned(**{LONGEST: cluster(caches={"work": DISK}, runners={})})


@pytest.fixture(scope="module")
def on_metal() -> Recording:
    """Block volumes alone, for machines of bare metal."""
    pools = {"a10": oke_pool(instanceTypes=["BM.GPU.A10.4"])}
    return planned(sjc=oke_cluster(caches={"work": BLOCK}, pools=pools, runners={}))


@pytest.fixture(scope="module")
def in_given_network() -> Recording:
    """Caches in a network of another compartment, whose mounts are encrypted."""
    given = {"vcn": "ocid1.vcn.oc1..example", "endpointSubnet": "ocid1.subnet.oc1..one", "nodeSubnet": "ocid1.subnet.oc1..two"}
    caches = OKE_CACHES | {"models": OKE_CACHES["models"] | {"encryptInTransit": True}}
    return made(sjc=oke_cluster(caches=caches, network=given | {"compartment": OF_NETWORK}, runners={}))


@pytest.fixture(scope="module")
def shared() -> Recording:
    """Workloads on the classes of caches, and namespaces that several parts of a cluster use."""
    classes = {"models": "cache-models", "work": "cache-work", "plain": "fast"}
    storages = {name: {"size": "100Gi", "storageClass": storage_class} for name, storage_class in classes.items()}
    workloads = {name: {"kind": "ollama", "storage": storage} for name, storage in storages.items()}
    chat = {"kind": "tf-notebook", "namespace": "speech", "pool": "t4"}
    return planned(
        usw2=cluster(
            caches=EKS_CACHES,
            runners={},
            queues={"teams": {"ml": {"namespaces": ["research"], "quotas": [{"pool": "t4", "nominal": 1}]}}},
            workloads={name: each | {"pool": "t4"} for name, each in workloads.items()} | {"chat": chat},
            jobs={"train": {"namespace": "research", "image": "docker.io/library/python:3.13", "pool": "t4"}},
        ),
        sjc=oke_cluster(
            caches=OKE_CACHES, runners={}, workloads={name: each | {"pool": "a10"} for name, each in workloads.items()}
        ),
    )


def claims(recording: Recording, storage_class: Resource) -> list[Resource]:
    return [
        each
        for each in of_type(recording, CLAIM)
        if each.provider_urn == storage_class.provider_urn
        and each.inputs["spec"]["storageClassName"] == storage_class.inputs["metadata"]["name"]
    ]


# -- every cloud -------------------------------------------------------------------------------------------------------


def test_each_cache_has_a_class_and_a_claim_of_its_name_in_each_namespace(cached: Recording) -> None:
    classes = of_type(cached, CLASS)
    assert sorted(each.name for each in classes) == ["sjc-models-class", "sjc-work-class", "usw2-models-class", "usw2-work-class"]
    for each in classes:
        cache = each.name.split("-")[1]
        found = {claim.inputs["metadata"]["namespace"]: claim for claim in claims(cached, each)}
        assert list(found) == (["research", "speech"] if cache == "models" else ["research"])
        assert {claim.inputs["metadata"]["name"] for claim in found.values()} == {cache}
        assert each.inputs["metadata"]["name"] == f"cache-{cache}"


def test_a_claim_waits_for_its_class_and_its_namespace_and_a_class_for_what_makes_its_volumes(cached: Recording) -> None:
    for each in of_type(cached, CLASS):
        for claim in claims(cached, each):
            assert each.urn in claim.dependencies
            home = next(
                space
                for space in of_type(cached, NAMESPACE)
                if space.provider_urn == claim.provider_urn
                and space.inputs["metadata"]["name"] == claim.inputs["metadata"]["namespace"]
            )
            assert home.urn in before(cached, claim)
    stands = {each.name: {urn.rpartition("::")[2] for urn in before(cached, each)} for each in of_type(cached, CLASS)}
    assert {"usw2-caches-efs-addon", "usw2-caches.models-files", "usw2-caches.models-us-west-2a"} <= stands["usw2-models-class"]
    assert "usw2-caches-ebs-addon" in stands["usw2-work-class"]
    assert {"sjc-caches-files", "sjc-caches-rights", "sjc-caches-network-rights"} <= stands["sjc-models-class"]
    assert "sjc-caches-nfs-ingress-tcp-2048" in stands["sjc-models-class"]
    assert "sjc-system-nodes" in stands["sjc-work-class"]


def test_a_new_class_takes_no_claim_with_it(cached: Recording) -> None:
    """Pulumi replaces a resource if one of its inputs is an output of a resource that is deleted first and made again."""
    assert of_type(cached, CLAIM)
    for each in of_type(cached, CLASS):
        assert each.delete_before_replace is True, "its name is fixed"
        assert set(each.replace_on_changes) == {"reclaimPolicy", "volumeBindingMode"}
        for claim in claims(cached, each):
            assert not any(each.urn in urns for urns in claim.property_dependencies.values())


def test_shared_storages_are_mounted_by_many_nodes_and_their_size_is_never_changed(cached: Recording) -> None:
    for each in of_type(cached, CLASS):
        shared = each.name.endswith("models-class")
        assert each.inputs["allowVolumeExpansion"] is not shared
        for claim in claims(cached, each):
            assert claim.inputs["spec"]["accessModes"] == ["ReadWriteMany" if shared else "ReadWriteOnce"]
            assert claim.inputs["spec"]["resources"] == {"requests": {"storage": "500Gi" if shared else "200Gi"}}
            assert tuple(claim.ignore_changes) == (("spec.resources",) if shared else ())


def test_a_disk_is_made_where_its_first_pod_is(cached: Recording) -> None:
    for each in of_type(cached, CLASS):
        if each.name.endswith("work-class"):
            assert each.inputs["volumeBindingMode"] == "WaitForFirstConsumer", "else in a zone that may have no node for it"


def test_volumes_stay_unless_the_settings_say_otherwise(cached: Recording) -> None:
    kept = {each.name: each.inputs["reclaimPolicy"] for each in of_type(cached, CLASS)}
    assert kept == {
        "usw2-models-class": "Retain",
        "usw2-work-class": "Delete",
        "sjc-models-class": "Retain",
        "sjc-work-class": "Retain",
    }
    assert named(cached, "usw2-caches.models-files", FILES).retain_on_delete is True


def test_a_class_says_for_a_bill_where_its_volumes_are(cached: Recording) -> None:
    regions = {each.name[:4]: each.inputs["metadata"]["annotations"][REGION] for each in of_type(cached, CLASS)}
    assert regions == {"usw2": "us-west-2", "sjc-": "us-sanjose-1"}


def test_namespaces_of_caches_are_held_to_the_strictest_standard_and_walled_once(cached: Recording) -> None:
    for name in ("usw2", "sjc"):
        for namespace in ("research", "speech"):
            home = named(cached, f"{name}-namespaces.{namespace}", NAMESPACE)
            assert home.inputs["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
            (wall,) = [
                each
                for each in of_type(cached, NETWORK)
                if each.provider_urn == home.provider_urn and each.inputs["metadata"]["namespace"] == namespace
            ]
            assert wall.inputs["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_a_namespace_that_a_queue_a_cache_a_job_and_a_workload_share_is_declared_once(shared: Recording) -> None:
    for provider in {each.provider_urn for each in of_type(shared, NAMESPACE)}:
        homes, walled = (
            [each.inputs["metadata"][key] for each in of_type(shared, token) if each.provider_urn == provider]
            for token, key in ((NAMESPACE, "name"), (NETWORK, "namespace"))
        )
        assert len(homes) == len(set(homes)) > 2, "the API server has one of a name, and would refuse or share a second"
        assert sorted(each for each in walled if each in ("research", "speech")) == ["research", "speech"], "one wall each"


def test_a_workload_on_a_caches_class_goes_before_what_makes_and_ends_its_volume(shared: Recording) -> None:
    """A claim whose driver or mount target is gone first is never deleted."""
    stands: dict[str, set[str]] = {}
    for each in of_type(shared, CLAIM):
        if each.name.endswith("-volume"):
            stands[each.name] = {urn.rpartition("::")[2] for urn in before(shared, each)}
    eks = {"usw2-models-class", "usw2-caches-efs-addon", "usw2-caches.models-files", "usw2-caches.models-us-west-2a"}
    assert eks <= stands["usw2-models-volume"]
    assert {"usw2-work-class", "usw2-caches-ebs-addon"} <= stands["usw2-work-volume"]
    assert {"sjc-models-class", "sjc-caches-files", "sjc-caches-rights"} <= stands["sjc-models-volume"]
    assert "sjc-work-class" in stands["sjc-work-volume"]
    for cloud in ("usw2", "sjc"):
        assert not [name for name in stands[f"{cloud}-plain-volume"] if name.endswith("-class")], "it waits for no cache"


@cases("minor", MINORS)
def test_the_objects_are_kubernetes_own_in_every_minor(updated: Recording, minor: str) -> None:
    found = [each for token in (CLASS, CLAIM, NAMESPACE, NETWORK) for each in of_type(updated, token)]
    assert len({each.type for each in found}) == 4
    for each in found:
        kubernetes_validate.validate(dict(each.inputs), minor, strict=True)


def test_protection_is_of_file_systems_and_claims_too(protected: Recording) -> None:
    for token in (FILES, OCI_TARGET, CLAIM):
        found = of_type(protected, token)
        assert found
        assert all(each.protect for each in found), "what is in a cache goes with it"
    assert not any(each.protect for each in of_type(protected, CLASS)), "a class holds nothing"


def test_without_caches_there_is_nothing_of_them() -> None:
    on_eks = planned(usw2=cluster())
    for token in (CLASS, CLAIM, FILES, OCI_TARGET):
        assert of_type(on_eks, token) == of_type(oke.planned(), token) == ()
    assert not any("csi-driver" in str(each.inputs["addonName"]) for each in of_type(on_eks, ADDON))


def test_our_own_policies_have_nothing_against_them(protected: Recording) -> None:
    of_caches = ("cache", "efs-", "ebs-", "research", "speech")
    verdicts = judge(protected, configure(RULES, {"all": "mandatory"}, AS_OF))
    assert [each for each in verdicts if any(word in str(each.urn) for word in of_caches)] == []


# -- EKS ---------------------------------------------------------------------------------------------------------------


def test_a_driver_is_installed_once_where_a_cache_needs_it_by_its_pinned_version(cached: Recording) -> None:
    drivers = {each.inputs["addonName"]: each for each in of_type(cached, ADDON) if "csi" in str(each.inputs["addonName"])}
    assert set(drivers) == {"aws-ebs-csi-driver", "aws-efs-csi-driver"}
    for name, each in drivers.items():
        assert each.inputs["addonVersion"] == KUBERNETES["1.34"].drivers[name]
        assert "serviceAccountRoleArn" not in each.inputs, "Pod Identity instead"
        assert "configurationValues" not in each.inputs, "its DaemonSet tolerates every taint by itself"


def test_a_driver_that_no_cache_needs_is_not_there(with_disks: Recording, in_given_subnets: Recording) -> None:
    for recording, storage in ((with_disks, "ebs"), (in_given_subnets, "efs")):
        drivers = {each.inputs["addonName"] for each in of_type(recording, ADDON) if "csi" in str(each.inputs["addonName"])}
        assert drivers == {f"aws-{storage}-csi-driver"}
        assert bool(of_type(recording, FILES)) is (storage == "efs")
        assert bool(of_type(recording, GROUP)) is (storage == "efs")


def test_a_driver_has_rights_of_its_own_before_its_pods_start(cached: Recording) -> None:
    policies = {
        "ebs": "arn:aws:iam::aws:policy/AmazonEBSCSIDriverEKSClusterScopedPolicy",
        "efs": "arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy",
    }
    for short, policy in policies.items():
        role = named(cached, f"usw2-caches-{short}-role", ROLE)
        assert role.inputs["assumeRolePolicy"] == POD_IDENTITY_TRUST
        rights = named(cached, f"usw2-caches-{short}-rights", RIGHTS)
        assert rights.inputs["policyArn"] == policy
        identity = named(cached, f"usw2-caches-{short}-identity", IDENTITY)
        assert (identity.inputs["namespace"], identity.inputs["serviceAccount"]) == ("kube-system", f"{short}-csi-controller-sa")
        # Outputs of an update are its inputs, and a role's ARN is none of them.
        assert role.urn in before(cached, identity) or not cached.preview
        addon = named(cached, f"usw2-caches-{short}-addon", ADDON)
        assert {rights.urn, identity.urn} <= set(addon.dependencies)
        assert {"usw2-system-nodes", "usw2-addon-coredns"} <= {urn.rpartition("::")[2] for urn in before(cached, addon)}


def test_a_role_has_a_name_that_iam_takes(with_disks: Recording, in_given_subnets: Recording) -> None:
    for recording in (with_disks, in_given_subnets):
        assert max(len(each.name) for each in of_type(recording, ROLE) if "caches" in each.name) + 8 <= 64, "Pulumi adds eight"


def test_an_ebs_class_makes_encrypted_gp3_volumes_that_say_whose_they_are(cached: Recording) -> None:
    found = named(cached, "usw2-work-class", CLASS).inputs
    assert found["provisioner"] == "ebs.csi.aws.com"
    parameters = dict(found["parameters"])
    tags = [parameters.pop(key) for key in sorted(parameters) if key.startswith("tagSpecification_")]
    assert parameters == {"type": "gp3", "encrypted": "true", "iops": "4000", "throughput": "250"}
    expected = {"gpu-ci/stack": "test", "gpu-ci/cluster": "usw2"}
    assert dict(tag.split("=", 1) for tag in tags) == expected, "an owner tag that changes would replace the class"


def test_a_file_system_is_encrypted_and_reached_from_nodes_alone(updated: Recording) -> None:
    files = named(updated, "usw2-caches.models-files", FILES)
    assert (files.inputs["encrypted"], files.inputs["throughputMode"]) == (True, "elastic")
    assert all(len(policy) == 1 for policy in files.inputs["lifecyclePolicies"]), "EFS takes one key an entry"
    targets = of_type(updated, TARGET)
    subnets = [each.inputs["subnetId"] for each in targets]
    assert len(set(subnets)) == len(subnets) == 2, "one a zone"
    assert {each.inputs["fileSystemId"] for each in targets} == {f"{files.name}-id"}
    (group,) = of_type(updated, GROUP)
    assert {tuple(each.inputs["securityGroups"]) for each in targets} == {(f"{group.name}-id",)}
    assert "ingress" not in group.inputs
    assert "egress" not in group.inputs, "it answers, and never asks"
    (door,) = [each for each in of_type(updated, INGRESS) if each.inputs["securityGroupId"] == f"{group.name}-id"]
    assert (door.inputs["ipProtocol"], door.inputs["fromPort"], door.inputs["toPort"]) == ("tcp", 2049, 2049)
    assert not {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(door.inputs), "the cluster's own group, no range"
    assert all(door.urn in each.dependencies for each in targets)


def test_mount_targets_stand_in_the_subnets_of_nodes(in_given_subnets: Recording) -> None:
    assert {each.inputs["subnetId"] for each in of_type(in_given_subnets, TARGET)} == set(SUBNETS.values())
    assert of_type(in_given_subnets, GROUP)[0].inputs["vpcId"] == "vpc-01234567"


def test_a_pool_may_stand_in_one_zone_where_its_jobs_disks_are(in_given_subnets: Recording) -> None:
    groups = {each.name: each.inputs["subnetIds"] for each in of_type(in_given_subnets, "aws:eks/nodeGroup:NodeGroup")}
    assert groups.pop(f"{LONGEST}-system-nodes") == list(SUBNETS.values())
    assert groups == {
        f"{LONGEST}-t4-us-west-2b-nodes": ["subnet-89abcdef"],
        f"{LONGEST}-t4-wide-us-west-2a-nodes": ["subnet-01234567"],
        f"{LONGEST}-t4-wide-us-west-2b-nodes": ["subnet-89abcdef"],
    }


def test_an_efs_class_gives_each_claim_a_folder_that_is_found_again(updated: Recording) -> None:
    found = named(updated, "usw2-models-class", CLASS).inputs
    assert found["provisioner"] == "efs.csi.aws.com"
    assert found["parameters"]["provisioningMode"] == "efs-ap"
    assert found["parameters"]["fileSystemId"] == "usw2-caches.models-files-id"
    assert found["parameters"]["ensureUniqueDirectory"] == "false", "else a claim that is made anew begins empty"
    assert found["parameters"]["subPathPattern"] == "/${.PVC.namespace}/${.PVC.name}", "namespaces share no data"
    assert (found["parameters"]["uid"], found["parameters"]["gid"]) == ("1001", "1001"), "who jobs are"


# -- OKE ---------------------------------------------------------------------------------------------------------------


def test_a_block_class_attaches_as_its_nodes_can(cached: Recording) -> None:
    found = named(cached, "sjc-work-class", CLASS).inputs
    assert found["provisioner"] == "blockvolume.csi.oraclecloud.com"
    assert (found["parameters"]["attachment-type"], found["parameters"]["vpusPerGB"]) == ("paravirtualized", "20")
    assert told_tags(found) == {"gpu-ci/stack": "test", **TAGS}


def told_tags(inputs: Mapping[str, Any]) -> dict[str, str]:
    tags: dict[str, str] = json.loads(inputs["parameters"]["oci.oraclecloud.com/initial-freeform-tags-override"])
    return tags


def test_bare_metal_attaches_by_iscsi(on_metal: Recording) -> None:
    assert named(on_metal, "sjc-work-class", CLASS).inputs["parameters"]["attachment-type"] == "iscsi"


def test_block_volumes_need_neither_mount_target_nor_rights(on_metal: Recording) -> None:
    assert of_type(on_metal, OCI_TARGET) == ()
    assert not [each for each in of_type(on_metal, oke.POLICY) if "caches" in each.name]


def test_file_systems_share_one_mount_target(updated: Recording) -> None:
    (target,) = of_type(updated, OCI_TARGET)
    assert target.inputs["nsgIds"] == ["ocid1.networksecuritygroup.oc1..sjc-caches-nfs-id"]
    found = named(updated, "sjc-models-class", CLASS).inputs
    assert found["provisioner"] == "fss.csi.oraclecloud.com"
    parameters = found["parameters"]
    assert parameters["mountTargetOcid"] == target.id
    assert parameters["availabilityDomain"] == target.inputs["availabilityDomain"]
    assert "mountTargetSubnetOcid" not in parameters, "the driver would make one a claim"
    assert parameters["encryptInTransit"] == "false"
    (export,) = json.loads(parameters["exportOptions"])
    assert (export["source"], export["identitySquash"], export["anonymousUid"]) == ("10.0.0.0/16", "ALL", 0), "no pod is root"
    assert told_tags(found) == {"gpu-ci/stack": "test", **TAGS}


def test_nfs_is_open_between_nodes_and_mount_target_alone(updated: Recording) -> None:
    rules = [
        each.inputs
        for each in of_type(updated, oke.RULE)
        if each.inputs["networkSecurityGroupId"] == "ocid1.networksecuritygroup.oc1..sjc-caches-nfs-id"
    ]
    ends = {each.get("source") or each.get("destination") for each in rules}
    assert ends == {"ocid1.networksecuritygroup.oc1..sjc-security-workers-id"}
    assert {each.get("sourceType") or each.get("destinationType") for each in rules} == {"NETWORK_SECURITY_GROUP"}
    opened = {
        (each["direction"], each["protocol"], ports["min"], ports["max"])
        for each in rules
        for options in (each.get("tcpOptions") or each["udpOptions"],)
        for ports in (options["destinationPortRange" if each["direction"] == "INGRESS" else "sourcePortRange"],)
    }
    each_way = {("6", 111, 111), ("6", 2048, 2050), ("17", 111, 111), ("17", 2048, 2048)}
    assert opened == {(way, *port) for way in ("INGRESS", "EGRESS") for port in each_way}


def test_encrypted_mounts_need_one_more_port(in_given_network: Recording) -> None:
    assert named(in_given_network, "sjc-models-class", CLASS).inputs["parameters"]["encryptInTransit"] == "true"
    door = named(in_given_network, "sjc-caches-nfs-ingress-tcp-2051", oke.RULE).inputs
    assert door["tcpOptions"] == {"destinationPortRange": {"min": 2051, "max": 2051}}


def test_the_cluster_may_make_file_systems_where_it_is_and_see_the_network_where_that_is(in_given_network: Recording) -> None:
    recording, network = in_given_network, OF_NETWORK
    own = "ocid1.compartment.oc1..example"
    for name, where, statement in (
        ("sjc-caches-rights", own, file_system_rights("ocid1.cluster.oc1..sjc-control-plane-id", own)),
        ("sjc-caches-network-rights", network, file_system_network_rights("ocid1.cluster.oc1..sjc-control-plane-id", network)),
    ):
        found = named(recording, name, oke.POLICY).inputs
        assert (found["compartmentId"], found["statements"]) == (where, [statement])
    (export,) = json.loads(named(recording, "sjc-models-class", CLASS).inputs["parameters"]["exportOptions"])
    assert export["source"] == "0.0.0.0/0", "the range of a given network is not known; the security group is the wall"


def test_the_statements_name_the_cluster_itself() -> None:
    asked = "where all {request.principal.type = 'cluster', request.principal.id = 'ocid1.cluster.oc1..one'}"
    assert file_system_rights("ocid1.cluster.oc1..one", "ocid1.compartment.oc1..two") == (
        f"Allow any-user to manage file-family in compartment id ocid1.compartment.oc1..two {asked}"
    )
    assert file_system_network_rights("ocid1.cluster.oc1..one", "ocid1.compartment.oc1..two") == (
        f"Allow any-user to use virtual-network-family in compartment id ocid1.compartment.oc1..two {asked}"
    )
