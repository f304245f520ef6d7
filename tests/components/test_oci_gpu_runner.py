"""Runner sets of OCI machines: what the launchers get, what they may do, and what standing machines are made of."""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from components.oci.rights import NETWORK, PER_JOB, STANDING, allowed, calls
from fleet.providers.oke.launcher_set import LAUNCHER
from fleet.providers.oke.machine import launcher
from fleet.providers.oke.machine.launch import LAUNCHER_SOURCE
from gpu_ci.offline.recording import Recording
from tests.builders import THERE, vm, vm_per_job
from tests.components.oke import CNCF, KEY, MACHINES, POLICY, RULE, TAGS, made, planned, the, updated
from tests.components.recorded import ROOT, before, named, of_type
from tests.components.test_removed_sets import IDLE, count, state_of

RELEASE = "kubernetes:helm.sh/v3:Release"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
ACCOUNT = "kubernetes:core/v1:ServiceAccount"
CRON_JOB = "kubernetes:batch/v1:CronJob"
CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"
INSTANCE_POOL = "oci:Core/instancePool:InstancePool"
OF = {"vm": "standing", "job": "per-job"}
"""Sets of the fleets below, by name, and the launcher's mode in each."""


@pytest.fixture(scope="module")
def preview():
    return planned(**MACHINES)


@pytest.fixture(scope="module")
def update():
    return made(**MACHINES)


@pytest.fixture(scope="module")
def apart():
    """Machines in a compartment of their own: of each kind of shape, and with a label."""
    shapes = {name: vm(shapes=[shape]) for name, shape in {"vm": "VM.GPU.A10.2", "metal": "BM.GPU.A10.4"}.items()}
    runners = shapes | {"job": vm_per_job(labels=["gpu-a10"])}
    return made(runners=runners, machineCompartment="ocid1.compartment.oc1..examplemachines", homeRegion=THERE)


def details(recording, name="vm"):
    return named(recording, f"sjc-{name}-machine", CONFIGURATION).inputs["instanceDetails"]["launchDetails"]


def settings(recording, name):
    return json.loads(named(recording, f"sjc-{name}-launcher", CONFIG_MAP).inputs["data"]["launcher.json"])


# -- standing machines -------------------------------------------------------------------------------------------------


def test_a_pool_keeps_as_many_machines_as_the_settings_say_and_owns_its_size_from_then_on(update):
    pool = the(update, INSTANCE_POOL)
    assert pool.inputs["size"] == 2
    assert pool.ignore_changes == ("size",), "a lower size would end the oldest machine, busy or not"
    assert pool.inputs["instanceConfigurationId"] == "ocid1.instanceconfiguration.oc1..sjc-vm-machine-id"


def test_a_pool_tries_the_domains_in_their_order_in_the_private_subnet():
    domains = ["abcd:US-ASHBURN-AD-2", "abcd:US-ASHBURN-AD-1"]
    images = {kind: {"id": f"ocid1.image.oc1.iad.example{kind[-3:]}"} for kind in ("system", "oke-gpu")}
    recording = made(
        region=THERE,
        zones=sorted(domains),
        nodeImages=images,
        pools={},
        runners={"vm": vm(availabilityDomains=domains, image={"id": "ocid1.image.oc1.iad.examplevm", "driver": "580.159.03"})},
    )
    assert the(recording, INSTANCE_POOL).inputs["placementConfigurations"] == [
        {"availabilityDomain": domain, "primaryVnicSubnets": {"subnetId": "ocid1.subnet.oc1..sjc-network-nodes-id"}}
        for domain in domains
    ]


def test_a_machine_admits_nobody_and_has_neither_key_nor_address_nor_agent(update):
    found = details(update)
    assert found["createVnicDetails"] == {
        "assignPublicIp": False,
        "nsgIds": ["ocid1.networksecuritygroup.oc1..sjc-security-machines-id"],
    }
    assert found["metadata"].keys() == {"user_data"}, "no SSH key"
    assert found["agentConfig"] == {
        "areAllPluginsDisabled": True,
        "isManagementDisabled": True,
        "isMonitoringDisabled": True,
    }
    assert found["instanceOptions"] == {"areLegacyImdsEndpointsDisabled": True}


@pytest.mark.parametrize(("name", "shape", "encrypted"), [("vm", "VM.GPU.A10.2", True), ("metal", "BM.GPU.A10.4", None)])
def test_a_machines_disk_is_encrypted_on_the_wire_where_the_shape_can(apart, name, shape, encrypted):
    found = details(apart, name)
    assert found["shape"] == shape
    assert found.get("isPvEncryptionInTransitEnabled") is encrypted


def test_a_machine_boots_the_named_image_with_its_bootstrap(update):
    found = details(update)
    assert found["sourceDetails"] == {
        "sourceType": "image",
        "imageId": "ocid1.image.oc1..examplevm",
        "bootVolumeSizeInGbs": "400",
    }
    assert base64.b64decode(found["metadata"]["user_data"]).startswith(b"#cloud-config\n")


def test_machines_and_what_makes_them_have_the_fleets_tags(update):
    assert details(update)["freeformTags"] == TAGS | {"gpu-ci-set": "gpu-ci-test-sjc-vm"}
    assert settings(update, "job")["tags"] == TAGS


def test_standing_machines_start_once_they_can_reach_the_internet(preview):
    rules = {rule.urn for rule in of_type(preview, RULE) if "-machines-to-" in rule.name}
    assert rules
    assert rules <= set(the(preview, INSTANCE_POOL).dependencies)


def test_a_machine_a_job_has_no_pool_and_no_configuration(preview):
    assert [each.name for each in of_type(preview, INSTANCE_POOL)] == ["sjc-vm-pool"], "of the standing machines alone"
    assert [each.name for each in of_type(preview, CONFIGURATION)] == ["sjc-vm-machine"]


# -- launchers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "mode"), OF.items())
def test_a_launcher_gets_its_program_and_the_ids_that_are_known_late(update, name, mode):
    config_map = named(update, f"sjc-{name}-launcher", CONFIG_MAP).inputs
    assert config_map["metadata"] == {"name": "launcher", "namespace": f"runners-{name}"}
    assert config_map["data"]["launcher.py"] == LAUNCHER_SOURCE
    held = settings(update, name)
    assert held["mode"] == mode
    assert held["set"] == f"gpu-ci-test-sjc-{name}", "machines of other clusters in the compartment are not this set's"
    assert held["compartment"] == "ocid1.compartment.oc1..example"


def test_a_launcher_of_standing_machines_knows_their_pool(update):
    assert settings(update, "vm")["pool"] == "ocid1.instancepool.oc1..sjc-vm-pool-id"
    assert settings(update, "vm")["region"] == "us-sanjose-1"


def test_a_machine_a_job_stands_in_the_clusters_network_or_in_that_of_its_place(update):
    here, there = settings(update, "job")["places"]
    assert (here["region"], here["subnet"]) == ("us-sanjose-1", "ocid1.subnet.oc1..sjc-network-nodes-id")
    assert here["securityGroups"] == ["ocid1.networksecuritygroup.oc1..sjc-security-machines-id"]
    assert (there["region"], there["subnet"]) == ("us-ashburn-1", "ocid1.subnet.oc1.iad.example")
    assert there["securityGroups"] == ["ocid1.networksecuritygroup.oc1.iad.example"]


def test_late_ids_are_unknown_in_a_first_plan_and_in_no_chart_value(preview):
    for name in OF:
        data = named(preview, f"sjc-{name}-launcher", CONFIG_MAP).inputs["data"]
        assert "[unknown]" in str(data["launcher.json"] if isinstance(data, dict) else data)
    for release in of_type(preview, RELEASE):
        assert "[unknown]" not in json.dumps(release.inputs["values"])


def test_no_key_and_no_registration_is_in_what_launchers_and_machines_get(update):
    for resource in (*of_type(update, CONFIG_MAP), *of_type(update, CONFIGURATION), *of_type(update, CRON_JOB)):
        assert KEY not in str(resource.wire)
        assert "PRIVATE KEY" not in str(resource.wire)
    assert "gpu-ci-jit" not in json.dumps([settings(update, name) for name in OF])


def test_the_launcher_is_a_service_account_without_rights_in_kubernetes(update):
    accounts = {account.name: account.inputs for account in of_type(update, ACCOUNT)}
    assert accounts.keys() == {"sjc-vm-launcher", "sjc-job-launcher"}
    for inputs in accounts.values():
        assert inputs["metadata"]["name"] == "launcher"
        assert inputs["automountServiceAccountToken"] is False, "its own pod mounts the token by itself"
    assert not [resource for resource in update.resources if resource.type.startswith("kubernetes:rbac")]


@pytest.mark.parametrize("name", OF)
def test_a_set_waits_for_controller_system_nodes_and_all_that_its_launchers_need(preview, name):
    release = named(preview, f"sjc-{name}-set-chart", RELEASE)
    stands = {urn.rpartition("::")[2] for urn in before(preview, release)}
    assert {
        "sjc-arc-chart",
        "sjc-system-nodes",
        "sjc-control-plane",
        f"sjc-{name}-launcher",
        f"sjc-{name}-rights",
        f"sjc-{name}-set-github-app",
        "sjc-security-machines-to-128.0.0.0/3",
    } <= stands
    assert ("sjc-vm-pool" in stands) is (name == "vm")


def test_what_lost_launchers_leave_is_removed(update):
    for name in OF:
        job = named(update, f"sjc-{name}-sweep", CRON_JOB).inputs
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["command"] == ["python3", "/etc/gpu-ci/launcher.py", "sweep"]
        assert pod["restartPolicy"] == "Never"
        assert pod["serviceAccountName"] == "launcher"
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        attempt = job["spec"]["jobTemplate"]["spec"]
        assert attempt["backoffLimit"] == 0, "the next sweep is soon enough"
        # The last console of a round is begun before SWEEP_READING is over. The rest is for the pod's start, lists and removals.
        rounds = 2 * (launcher.SWEEP_READING + launcher.CAPTURE_SECONDS)
        assert rounds + launcher.GRACE + 180 <= attempt["activeDeadlineSeconds"], "the second round removes machines"
        launchers = named(update, f"sjc-{name}-set-chart", RELEASE).inputs["values"]["template"]["spec"]
        assert pod["volumes"] == launchers["volumes"]
        assert pod["containers"][0]["image"] == launchers["containers"][0]["image"]
    assert len(of_type(update, CRON_JOB)) == len(OF), "CNCF's launcher has none of our own"


def test_labels_reach_the_set(apart):
    assert named(apart, "sjc-job-set-chart", RELEASE).inputs["values"]["scaleSetLabels"] == ["gpu-a10"]


# -- rights ------------------------------------------------------------------------------------------------------------

_STATEMENT = re.compile(r"Allow any-user to \{([A-Z_, ]+)\} in compartment id (\S+) where all \{(.*)\}")


def permissions(statement):
    found = _STATEMENT.fullmatch(statement)
    assert found, statement
    return set(found[1].split(", "))


@pytest.mark.parametrize("name", OF)
def test_a_launcher_may_act_as_its_own_account_of_its_own_cluster_in_its_own_compartment(update, name):
    (statement,) = named(update, f"sjc-{name}-rights", POLICY).inputs["statements"]
    found = _STATEMENT.fullmatch(statement)
    assert found, statement
    assert found[2] == "ocid1.compartment.oc1..example"
    assert found[3].split(", ") == [
        "request.principal.type = 'workload'",
        f"request.principal.namespace = 'runners-{name}'",
        "request.principal.service_account = 'launcher'",
        "request.principal.cluster_id = 'ocid1.cluster.oc1..sjc-control-plane-id'",
    ]


def test_only_a_launcher_a_job_may_create_machines_and_only_one_of_a_pool_may_change_them(update):
    job, vm = (permissions(named(update, f"sjc-{name}-rights", POLICY).inputs["statements"][0]) for name in ("job", "vm"))
    assert "INSTANCE_CREATE" in job - vm
    assert {"INSTANCE_UPDATE", "INSTANCE_POOL_READ", "INSTANCE_POOL_UPDATE", "INSTANCE_POOL_INSTANCE_DETACH"} == vm - job
    assert {"INSTANCE_READ", "INSTANCE_DELETE", "CONSOLE_HISTORY_CREATE", "CONSOLE_HISTORY_READ"} <= job & vm


def test_no_right_is_for_all_resources_or_for_moving_power_or_pools():
    for needed in (PER_JOB, STANDING):
        (statement,) = allowed("runners-x", LAUNCHER, [calls(needed)], "c", "ocid1.cluster.oc1..x")
        assert "all-resources" not in statement
        assert "manage" not in statement
        for denied in ("INSTANCE_MOVE", "INSTANCE_POOL_DELETE", "INSTANCE_CREATE_IMAGE", "SUBNET_CREATE"):
            assert denied not in permissions(statement)


# What Oracle asks for each call of the launcher: docs.oracle.com, details for the core services, permissions required for each
# API operation (a copy: jacklty/oci_doc_crawler@8e7bbd72 iaas/Content/Identity/Reference/corepolicyreference.md).
CALLS = {
    "get_instance": {"INSTANCE_READ"},
    "list_instances": {"INSTANCE_READ"},
    "update_instance": {"INSTANCE_UPDATE"},
    "launch_instance": {
        "INSTANCE_CREATE",
        "INSTANCE_IMAGE_READ",
        "VNIC_CREATE",
        "VNIC_ATTACH",
        "SUBNET_ATTACH",
        # Into a network security group.
        "NETWORK_SECURITY_GROUP_UPDATE_MEMBERS",
        "VNIC_ASSOCIATE_NETWORK_SECURITY_GROUP",
    },
    "terminate_instance": {
        "INSTANCE_DELETE",
        "VNIC_DELETE",
        "SUBNET_DETACH",
        # With a volume attached, and a machine has its boot volume.
        "VOLUME_ATTACHMENT_DELETE",
        "VOLUME_WRITE",
        "INSTANCE_DETACH_VOLUME",
        # Not in that row; the page's table of verbs asks for `use vnics`, and this is its other permission for leaving.
        "VNIC_DETACH",
    },
    "capture_console_history": {"CONSOLE_HISTORY_CREATE", "INSTANCE_READ", "INSTANCE_IMAGE_READ"},
    # The table of verbs asks for `inspect console-histories` instead of READ: both.
    "get_console_history": {"CONSOLE_HISTORY_READ", "CONSOLE_HISTORY_INSPECT", "INSTANCE_INSPECT"},
    "get_console_history_content": {"CONSOLE_HISTORY_READ", "INSTANCE_READ", "INSTANCE_IMAGE_READ"},
    "delete_console_history": {"CONSOLE_HISTORY_DELETE"},
    "get_instance_pool": {"INSTANCE_POOL_READ"},
    "list_instance_pool_instances": {"INSTANCE_POOL_READ"},
    "update_instance_pool": {"INSTANCE_POOL_UPDATE"},
    # It also terminates the machine; terminate_instance has what that takes.
    "detach_instance_pool_instance": {"INSTANCE_POOL_INSTANCE_DETACH"},
}
_CLIENTS = {"compute", "management"}


def _is_client(node: ast.expr) -> bool:
    """Whether an expression is `….cloud.compute(…)` or `….cloud.management(…)`, or a variable of one of these names."""
    if isinstance(node, ast.Name):
        return node.id in _CLIENTS
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CLIENTS


def _calls(node: ast.AST) -> Iterator[str]:
    """Methods of Oracle's clients that a piece of the launcher uses."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and _is_client(part.value):
            yield part.attr


def _used_by_mode() -> dict[str, set[str]]:
    """Methods of Oracle's clients that a launcher of each mode may call: its own class's and what both have in common."""
    parts = {node: getattr(node, "name", "") for node in ast.parse(LAUNCHER_SOURCE).body}
    own = {held.__name__: mode for mode, held in launcher.MODES.items()}
    common = {call for node, name in parts.items() if name not in own for call in _calls(node)}
    return {
        mode: common | {call for node, name in parts.items() if name == own_name for call in _calls(node)}
        for own_name, mode in own.items()
    }


def test_every_call_of_the_launcher_is_in_the_table_and_no_other():
    used = set().union(*_used_by_mode().values())
    assert used == CALLS.keys(), "look up what a new call needs"
    described = json.loads((ROOT / "tests" / "fleet" / "machine" / "sdk.json").read_text())
    known = {*described["compute"], *described["management"]}
    words = {node.attr for node in ast.walk(ast.parse(LAUNCHER_SOURCE)) if isinstance(node, ast.Attribute)}
    assert used == words & known, "no call by way of a variable of another name"


@pytest.mark.parametrize(("mode", "allowed"), [("per-job", PER_JOB), ("standing", STANDING)])
def test_a_launcher_may_do_what_its_calls_need_and_nothing_else(mode, allowed):
    assert set(allowed) == set().union(*(CALLS[call] for call in _used_by_mode()[mode]))


def test_what_the_networks_compartment_is_asked_for_is_of_subnets_groups_and_cards():
    of_network = ("SUBNET_", "VNIC_", "NETWORK_SECURITY_GROUP_")
    assert set(NETWORK) == {right for rights in CALLS.values() for right in rights if right.startswith(of_network)}


def test_there_is_no_dynamic_group(update):
    assert not of_type(update, "oci:Identity/dynamicGroup:DynamicGroup"), "machines have no rights, launchers have their own"


# -- CNCF's launcher ---------------------------------------------------------------------------------------------------


def test_with_cncfs_launcher_there_is_the_scale_set_alone(preview):
    ours = {resource.name for resource in preview.resources if resource.name.startswith("sjc-theirs")}
    assert ours == {
        "sjc-theirs",
        "sjc-theirs-set",
        "sjc-theirs-set-namespace",
        "sjc-theirs-set-network",
        "sjc-theirs-set-quota",
        "sjc-theirs-set-limits",
        "sjc-theirs-set-github-app",
        "sjc-theirs-set-chart",
        "sjc-theirs-keep",
    }


def test_cncfs_machines_need_no_group_of_ours():
    recording = planned(pools={}, runners={"theirs": CNCF})
    assert not [rule for rule in of_type(recording, RULE) if "machines" in rule.name]


# -- machines in a compartment of their own ----------------------------------------------------------------------------


def test_machines_of_their_own_compartment_are_launched_there(apart):
    for token in (CONFIGURATION, INSTANCE_POOL):
        places = [each.inputs["compartmentId"] for each in of_type(apart, token)]
        assert len(places) == 2
        assert all(place.endswith(".examplemachines") for place in places)
    assert settings(apart, "job")["compartment"].endswith(".examplemachines")


@pytest.mark.parametrize("name", OF)
def test_a_launcher_then_touches_the_clusters_compartment_for_its_network_alone(apart, name):
    own = named(apart, f"sjc-{name}-rights", POLICY)
    network = named(apart, f"sjc-{name}-network-rights-0", POLICY)
    assert own.inputs["compartmentId"].endswith(".examplemachines"), "a policy reaches no compartment beside its own"
    assert network.inputs["compartmentId"] == "ocid1.compartment.oc1..example"
    granted = permissions(network.inputs["statements"][0])
    assert granted
    assert not [right for right in granted if right.startswith(("INSTANCE", "VOLUME", "CONSOLE"))], "nodes are out of reach"


def test_policies_are_written_in_the_tenancys_home(apart, update):
    for policy in of_type(apart, POLICY):
        assert policy.provider_resource is not None
        assert policy.provider_resource.inputs["region"] == THERE, f"{policy.name}: OCI refuses it elsewhere"
    for name in OF:
        made = {each.provider_urn for each in of_type(apart, POLICY) if each.name.startswith(f"sjc-{name}-")}
        assert made == {named(apart, f"sjc-{name}-oci-home", "pulumi:providers:oci").urn}, "the set makes the provider"
    for policy in of_type(update, POLICY):
        assert policy.provider_urn.endswith("::sjc-oci"), "a cluster at home needs one provider"


# -- replacement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF)
def test_what_has_a_fixed_name_in_the_namespace_goes_before_its_successor_comes(preview, name):
    sets = [f"sjc-{name}-launcher", f"sjc-{name}-sweep", f"sjc-{name}-keep"]
    held = [each for each in preview.resources if each.name in sets and each.type.startswith("kubernetes:")]
    assert len(held) == 4, "account, program, CronJob, budget"
    assert [each.name for each in held if each.delete_before_replace is not True] == [], (
        "Kubernetes refuses a second of that name"
    )


# -- drains ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vm", "job", "theirs"])
def test_no_drain_ends_a_launcher_and_with_it_the_job_on_its_machine(preview, name):
    budget = named(preview, f"sjc-{name}-keep", "kubernetes:policy/v1:PodDisruptionBudget")
    assert budget.inputs["metadata"]["namespace"] == f"runners-{name}"
    assert budget.inputs["spec"] == {
        "maxUnavailable": 0,
        "selector": {"matchLabels": {"actions-ephemeral-runner": "True"}},
    }
    release = named(preview, f"sjc-{name}-set-chart", RELEASE)
    assert budget.urn in release.dependencies, "it exists before the first launcher and goes after the last"


# -- another registration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pods", ["1", "0"])
def test_sets_with_other_labels_keep_their_registration_until_no_launcher_is_left(monkeypatch, pods):
    asked = count(monkeypatch, {"pods": pods})

    def runners(label: str) -> dict[str, Any]:
        return {"vm": vm(labels=[f"{label}-vm"]), "job": vm_per_job(labels=[label])}

    def values(recording: Recording) -> dict[str, Any]:
        return {name: named(recording, f"sjc-{name}-set-chart", RELEASE).inputs["values"] for name in OF}

    was = updated({}, {}, runners=runners("a10"))
    recorded = was.outputs["generations"]
    first = updated(recorded, state := state_of(was), runners=runners("gpu-a10"))
    assert values(first) == {name: old | IDLE for name, old in values(was).items()}
    assert (asked, first.outputs["generations"]) == ([], recorded)
    idle = {urn: {**state[urn], "outputs": {**state[urn]["outputs"], **row["outputs"]}} for urn, row in state_of(first).items()}
    second = updated(recorded, idle, runners=runners("gpu-a10"))
    assert sorted(asked) == [f"runners-{name}/runners" for name in sorted(OF)]
    made_now = updated({}, {}, runners=runners("gpu-a10"))
    assert values(second) == values(made_now if pods == "0" else first)
    assert second.outputs["generations"] == (made_now if pods == "0" else was).outputs["generations"]
