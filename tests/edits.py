"""Edits of the shipped stack files and of an example, as texts that are replaced once each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleet.loading.home import ROOT

Edits = Mapping[str, tuple[tuple[str, str], ...]]

STAGING: Edits = {
    "tag value": (("owner: ci-platform", "owner: ml"),),
    "tag added": (("    cost-center: ci\n", ("    cost-center: ci\n    team: one\n")),),
    "type added": (("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.2xlarge, g4dn.4xlarge, g4dn.8xlarge]"),),
    "type removed": (("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.2xlarge]"),),
    "types reordered": (("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.4xlarge, g4dn.2xlarge]"),),
    "zone removed": (
        (
            "zones: [us-west-2a, us-west-2b, us-west-2c]",
            ("zones: [us-west-2a, us-west-2b]\n      controlPlaneZones: [us-west-2a, us-west-2b, us-west-2c]"),
        ),
    ),
    "region": (
        ("region: us-west-2\n", "region: us-east-1\n"),
        ("zones: [us-west-2a, us-west-2b, us-west-2c]", "zones: [us-east-1a, us-east-1b, us-east-1c]"),
    ),
    "zone added": (
        (
            "zones: [us-west-2a, us-west-2b, us-west-2c]",
            (
                "zones: [us-west-2a, us-west-2b, us-west-2c, us-west-2d]\n"
                "      controlPlaneZones: [us-west-2a, us-west-2b, us-west-2c]"
            ),
        ),
    ),
    "zones reordered": (("zones: [us-west-2a, us-west-2b, us-west-2c]", "zones: [us-west-2b, us-west-2a, us-west-2c]"),),
    "zones of the control plane": (("zones: [us-west-2a, us-west-2b, us-west-2c]", "zones: [us-west-2a, us-west-2b]"),),
    "zones of a pool": (("          role: burst\n", ("          role: burst\n          zones: [us-west-2a, us-west-2b]\n")),),
    "nodes.max 5 to 6": (("max: 5}", "max: 6}"),),
    "nodes.max 5 to 4": (("max: 5}", "max: 4}"),),
    "nodes.max 5 to 2": (("max: 5}", "max: 2}"),),
    "nodes.max 2 to 3": (
        (
            (
                "          nodes: {min: 0, max: 2}\n"
                "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"
                "      runners"
            ),
            (
                "          nodes: {min: 0, max: 3}\n"
                "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"
                "      runners"
            ),
        ),
    ),
    "nodes.min 0 to 1": (("nodes: {min: 0, max: 5}", "nodes: {min: 1, max: 5}"),),
    "pool renamed": (
        ("t4-spot", "t4-cheap"),
        ("t4-spot", "t4-cheap"),
    ),
    "node config removed": ((("\n          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}"), ""),),
    "placement group": (
        (
            "          role: burst\n",
            ("          role: burst\n          zones: [us-west-2a]\n          placementGroup: {strategy: cluster}\n"),
        ),
    ),
    "disk": (("          role: burst\n", ("          role: burst\n          disk: 150Gi\n")),),
    "warm": (("          role: release\n", ("          role: release\n          warm: {maxPrepared: 1}\n")),),
    "placeholders": (("          role: burst\n", ("          role: burst\n          placeholders: 1\n")),),
    "idle delay": (("idleDelay: 5m", "idleDelay: 6m"),),
    "pool labels": (("          role: burst\n", ("          role: burst\n          labels: {team: one}\n")),),
    "health off": (("      health: {}\n", ""),),
    "system nodes": (("nodes: {min: 2, max: 4}", "nodes: {min: 2, max: 5}"),),
    "system types": (("m6i.large", "m6i.xlarge"),),
    "system types added": (("[m6i.large]", "[m6i.large, m6i.xlarge]"),),
    "url": (("https://github.com/example", "https://github.com/other"),),
    "runner labels": (("gpu, cuda]", "gpu, cuda, t4]"),),
    "runner labels reordered": (("gpu, cuda]", "cuda, gpu]"),),
    "group": (("group: gpu", "group: other"),),
    "app id": (('"123456"', '"1234567"'),),
    "cpu": (("request: 4, limit: 8", "request: 5, limit: 8"),),
    "memory": (("request: 16Gi", "request: 17Gi"),),
    "runner min": (("scale: {min: 0, max: 10}", "scale: {min: 1, max: 10}"),),
    "runner max": (("scale: {min: 0, max: 10}", "scale: {min: 0, max: 9}"),),
    "runner lifetime": (
        (
            ("          memory: {request: 16Gi, limit: 32Gi}\n          labels"),
            ("          maxLifetime: 5h\n          memory: {request: 16Gi, limit: 32Gi}\n          labels"),
        ),
    ),
    "runner renamed": (("gpu-t4-release:", "gpu-t4-deploy:"),),
    "cluster renamed": (("    usw2:\n", "    usw3:\n"),),
    "pool renamed with was": (
        ("        t4-spot:\n", "        t4-cheap:\n          was: t4-spot\n"),
        ("[t4-spot, t4-ondemand]", "[t4-cheap, t4-ondemand]"),
    ),
    "runner renamed with was": (("        gpu-t4-release:\n", "        gpu-t4-deploy:\n          was: gpu-t4-release\n"),),
    "cluster renamed with was": (("    usw2:\n", "    oregon:\n      was: usw2\n"),),
    "operator": (('      kubernetesVersion: "1.36"\n', ('      kubernetesVersion: "1.36"\n      enablement: gpu-operator\n')),),
    "schedule of a pool": (
        (
            "          role: burst\n",
            (
                "          role: burst\n"
                "          schedules:\n"
                "            timeZone: Etc/UTC\n"
                "            windows: {work: {days: [mon], start: '09:00', end: '18:00', nodes: 2}}\n"
            ),
        ),
    ),
    "monitoring": (
        ('      kubernetesVersion: "1.36"\n', ('      kubernetesVersion: "1.36"\n      monitoring: {prometheus: install}\n')),
    ),
    "registry": (
        (
            '      kubernetesVersion: "1.36"\n',
            (
                '      kubernetesVersion: "1.36"\n'
                "      registry: {account: '123456789012', pushRole: 'arn:aws:iam::123456789012:role/gpu-ci-images'}\n"
            ),
        ),
    ),
    "queues": (
        (
            '      kubernetesVersion: "1.36"\n',
            (
                '      kubernetesVersion: "1.36"\n'
                "      queues: {cohort: gpu, teams: {a: {namespaces: [a], quotas: [{pool: t4-spot, nominal: 1}]}}}\n"
            ),
        ),
    ),
    "cache": (
        (
            '      kubernetesVersion: "1.36"\n',
            ('      kubernetesVersion: "1.36"\n      caches: {models: {storage: efs, size: 100Gi, namespaces: [research]}}\n'),
        ),
    ),
    "NAT per zone": (
        ('      kubernetesVersion: "1.36"\n', ('      kubernetesVersion: "1.36"\n      network: {natGateways: per-zone}\n')),
    ),
    "budget": (("monthlyUsd: 1500", "monthlyUsd: 1600"),),
    "boundary": (("policy/gpu-ci-staging-boundary", "policy/other-boundary"),),
    "admins": (
        (
            '      kubernetesVersion: "1.36"\n',
            ("      kubernetesVersion: \"1.36\"\n      admins: ['arn:aws:iam::123456789012:role/ops']\n"),
        ),
    ),
    "logs": (('      kubernetesVersion: "1.36"\n', ('      kubernetesVersion: "1.36"\n      logTypes: [api]\n')),),
    "endpoint": (("203.0.113.0/24", "198.51.100.0/24"),),
    "protect": (('      kubernetesVersion: "1.36"\n', ('      kubernetesVersion: "1.36"\n      protect: true\n')),),
    "network": (
        ('      kubernetesVersion: "1.36"\n', ('      kubernetesVersion: "1.36"\n      network: {cidr: 10.40.0.0/16}\n')),
    ),
    "version down": (('"1.36"', '"1.35"'),),
    "version skips": (('"1.36"', '"1.34"'),),
    "capacity": (
        (
            (
                "        t4-ondemand:\n"
                "          instanceTypes: [g4dn.2xlarge]\n"
                "          capacity: on-demand\n"
                "          role: fallback\n"
                "          nodes: {min: 0, max: 2}\n"
                "          idleDelay: 5m\n"
                "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"
            ),
            "",
        ),
        ("capacity: spot", "capacity: on-demand"),
        ("          role: burst\n", "          role: release\n"),
        ("pools: [t4-spot, t4-ondemand]", "pool: t4-spot"),
    ),
    "fallback removed": (
        (
            (
                "        t4-ondemand:\n"
                "          instanceTypes: [g4dn.2xlarge]\n"
                "          capacity: on-demand\n"
                "          role: fallback\n"
                "          nodes: {min: 0, max: 2}\n"
                "          idleDelay: 5m\n"
                "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"
            ),
            "",
        ),
        ("pools: [t4-spot, t4-ondemand]", "pool: t4-spot"),
    ),
    "pool added": (
        (
            "      runners:\n",
            ("        l4: {instanceTypes: [g6.2xlarge], capacity: on-demand, role: release, nodes: {max: 1}}\n      runners:\n"),
        ),
    ),
    "failed jobs kept": (
        ("          labels: [self-hosted", "          keepFailed: {time: 15m, group: ops}\n          labels: [self-hosted"),
    ),
    "class moved to another organization": (
        (
            "    group: gpu\n",
            (
                "    group: gpu\n    scopes:\n"
                "      lab: {url: 'https://github.com/lab', appId: '123456', installationId: '7', group: gpu}\n"
            ),
        ),
        ("          labels: [self-hosted", "          github: lab\n          labels: [self-hosted"),
    ),
    "quota of classes": (
        ("      runners:\n", "      runnerQuotas: {t4: {gpus: 12, runners: [gpu-t4, gpu-t4-release]}}\n      runners:\n"),
    ),
    "two reruns": (
        (
            "          labels: [self-hosted",
            "          rerunFirstOn: gpu-t4\n          rerunOn: gpu-t4-release\n          labels: [self-hosted",
        ),
        # A class that takes reruns has the runner group of the class whose jobs run again.
        ("          group: gpu-releases\n", ""),
    ),
    "budget of a pool": (
        (
            "      runners:\n",
            "      poolBudgets: {spot: {monthlyUsd: 900, emails: [ci@example.com], pools: [t4-spot]}}\n      runners:\n",
        ),
    ),
    "own image": (("          role: release\n", ("          role: release\n          ami: ami-0123456789abcdef0\n")),),
}
PROD: Edits = {
    "tag value": (("owner: ci-platform", "owner: ml"),),
    "OKE system image": (("examplesystem", "othersystem"),),
    "OKE system nodes": (("system: {ocpus: 4, memory: 32Gi, nodes: 2}", "system: {ocpus: 4, memory: 32Gi, nodes: 3}"),),
    "OKE system size": (("system: {ocpus: 4, memory: 32Gi, nodes: 2}", "system: {ocpus: 6, memory: 48Gi, nodes: 2}"),),
    "OKE compartment": (("compartment: ocid1.compartment.oc1..example\n", "compartment: ocid1.compartment.oc1..other\n"),),
    "machine image": (("examplevm", "othervm"),),
    "machine places": (("abcd:US-ASHBURN-AD-2", "abcd:US-ASHBURN-AD-3"),),
    "machine maximum": (("          scale: {min: 0, max: 20}", "          scale: {min: 0, max: 19}"),),
    "queue quota": (("{pool: t4-spot, nominal: 4}", "{pool: t4-spot, nominal: 3}"),),
    "cohort": (("cohort: gpu", "cohort: other"),),
    "team removed": (
        (
            (
                "          vision:\n"
                "            namespaces: [vision]\n"
                "            quotas:\n"
                "              - {pool: a10g-spot, nominal: 2}\n"
                "              - {pool: t4-spot, nominal: 4}\n"
            ),
            "",
        ),
        ("[research, vision]", "[research]"),
    ),
    "cache renamed": (("        models: {storage", "        weights: {storage"),),
    "cache renamed with was": (("        models: {storage", "        weights: {was: models, storage"),),
    "cache removed": ((("      caches:\n        models: {storage: efs, size: 500Gi, namespaces: [research, vision]}\n"), ""),),
    "cache size": (("size: 500Gi", "size: 600Gi"),),
    "cluster renamed": (("    sjc:\n", "    sj2:\n"),),
    "protect off": (("protect: true", "protect: false"),),
    "enablement": (("enablement: gpu-operator", "enablement: device-plugin"),),
    "NAT single": (("      network: {natGateways: per-zone}\n", ""),),
    "OKE budget": (("monthlyUsd: 10000", "monthlyUsd: 9000"),),
    "monitoring off": ((("      monitoring: {prometheus: install}\n      system: {inst"), "      system: {inst"),),
    "url": (("https://github.com/example", "https://github.com/other"),),
    "nodes.max 8 to 4": ((("max: 8}\n          idleDelay"), ("max: 4}\n          idleDelay")),),
}
OKE_PODS: Edits = {
    "OKE shape": (("instanceTypes: [VM.GPU.A10.1]", "instanceTypes: [VM.GPU.A10.2]"),),
    "OKE image": (("examplegpu", "othergpu"),),
    "OKE nodes.max": (
        (
            ("          nodes: {min: 0, max: 2}\n      runners:\n        oci-a10"),
            ("          nodes: {min: 0, max: 1}\n      runners:\n        oci-a10"),
        ),
    ),
    "OKE nodes.min": (
        (
            ("          nodes: {min: 0, max: 2}\n      runners:\n        oci-a10"),
            ("          nodes: {min: 1, max: 2}\n      runners:\n        oci-a10"),
        ),
    ),
    "OKE labels": (
        (
            "          instanceTypes: [VM.GPU.A10.1]\n",
            ("          instanceTypes: [VM.GPU.A10.1]\n          labels: {team: one}\n"),
        ),
    ),
    "OKE autoscaler": (("ClusterAutoscaler: v1.34.3", "ClusterAutoscaler: v1.34.2"),),
    "OKE idle delay": (("idleDelay: 10m", "idleDelay: 11m"),),
    "OKE enablement": (("enablement: gpu-plugin-addon", "enablement: device-plugin"),),
}
EDITS: Mapping[str, Edits] = {"staging": STAGING, "prod": PROD, "oke-pods": OKE_PODS}


def stack_file(stack: str) -> Path:
    """The file of a shipped stack or of an example."""
    file = ROOT / f"Pulumi.{stack}.yaml"
    return file if file.exists() else ROOT / "examples" / file.name


def edited(text: str, stack: str, name: str) -> str:
    """The text of a stack file with an edit. Raises AssertionError if the file no longer has what the edit replaces."""
    for before, after in EDITS[stack][name]:
        assert before in text, f"{stack} no longer has {before!r}"
        text = text.replace(before, after, 1)
    return text
