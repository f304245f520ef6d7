"""Values that a cloud, a node or GitHub refuses: each is wrong input, with file, line, key, rule and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from gpu_ci.offline.plan import make_plan
from tests.builders import ROOT
from tests.day import AS_OF

STAGING = (ROOT / "Pulumi.staging.yaml").read_text(encoding="utf-8")
GUARD = '  pulumi:disable-default-providers: ["*"]\n'
HEALTH, BUDGET = "health: {}", "emails: [ci-alerts@example.com]"
ENDPOINT, LABELS, APP = "publicCidrs: [203.0.113.0/24]", "labels: [self-hosted, linux, x64, gpu, cuda]", 'appId: "123456"'
POOL, OWNER, NODES = "strategy: RAID0}}}", "    owner: ci-platform\n", "nodes: {min: 0, max: 5}"
DISK, KUBELET = "strategy: RAID0", "nodeConfig: {instance: {localStorage: {strategy: RAID0}}}"
CPU, SCALE = "cpu: {request: 4, limit: 8}", "scale: {min: 0, max: 10}"
CACHE = "{repositories: [example/app], writeWorkflows: [.github/workflows/build.yml], size: 200Gi}"


def kubelet(fields: str) -> tuple[str, str]:
    return KUBELET, f"nodeConfig: {{kubelet: {{config: {{{fields}}}}}}}"


def containerd(fields: str) -> tuple[str, str]:
    return KUBELET, f"nodeConfig: {{containerd: {{{fields}}}}}"


def rlimits(entries: str) -> tuple[str, str]:
    return containerd(f"baseRuntimeSpec: {{process: {{rlimits: [{entries}]}}}}")


def bucket(name: str, cache: str = CACHE) -> tuple[str, str]:
    caches = f'buildCaches: {{account: "123456789012", oidcProvider: existing, buckets: {{{name}: {cache}}}}}'
    return HEALTH, f"{HEALTH}\n      {caches}"


def ami(name: str, settings: str) -> tuple[str, str]:
    return HEALTH, f"{HEALTH}\n      amis: {{{name}: {{buildType: g4dn.2xlarge, {settings}}}}}"


def network(cidr: str) -> tuple[str, str]:
    return HEALTH, f"{HEALTH}\n      network: {{cidr: {cidr}}}"


def tag(key: str) -> tuple[str, str]:
    return OWNER, f'{OWNER}    {key}: "x"\n'


def window(more: str, end: str) -> tuple[str, str]:
    days = f'windows: {{w: {{days: [mon], start: "09:00", end: "{end}", nodes: 1}}}}'
    return NODES, f"{NODES}\n          schedules: {{timeZone: Etc/UTC, {more}{days}}}"


ANY = "addresses of {} are reserved, and the cloud refuses them; write a network outside of it"
HOSTED = "GitHub's own runners have this label, and jobs that mean them would use your GPUs; rename it"
BELOW = "the disks hide what else is in that folder; write a folder below /mnt"
MANY = ", ".join(f"9.9.9.{number}/32" for number in range(49))
LONG = 'a duration has at most 87600h, ten years; correct it; got "999999999h"'
NO_GUARD = "no package may have a default provider, or a resource lands in the wrong account or region; "
EDITS: dict[str, tuple[tuple[str, str], str]] = {
    # a to d: what stops every node of a pool.
    "mount over /etc": ((DISK, "strategy: RAID0, mountPath: /etc"), BELOW),
    "mount with dots": ((DISK, "strategy: RAID0, mountPath: /mnt/../etc"), BELOW),
    "containerd 99": (containerd('config: "version = 99"'), "starts with no other: a whole number of 2 to 3; correct it"),
    "rlimit of no name": (rlimits("{type: RLIMIT_FOO, soft: 1, hard: 1}"), "it must be one of RLIMIT_AS, RLIMIT_CORE"),
    "rlimit twice": (rlimits(", ".join(["{type: RLIMIT_CPU, soft: 9, hard: 9}"] * 2)), "it has RLIMIT_CPU twice; remove one"),
    "no files": (rlimits("{type: RLIMIT_NOFILE, soft: 0, hard: 0}"), "programs fail with a RLIMIT_NOFILE below 1024"),
    "no processes": (rlimits("{type: RLIMIT_NPROC, soft: 1, hard: 1}"), "programs fail with a RLIMIT_NPROC below 1024"),
    "above int32": (
        kubelet("containerLogMaxFiles: 99999999999"),
        "a whole number of 2 to 2147483647; correct it; got 99999999999",
    ),
    "above int64": (kubelet("podPidsLimit: 9223372036854775808"), "a whole number of -1 or 1024 to 4194304; correct it"),
    "no fork": (kubelet("podPidsLimit: 1"), "a whole number of -1 or 1024 to 4194304; correct it; got 1"),
    # e to i: what `pulumi up` refuses in its middle.
    "tags without case": (tag("Owner"), "IAM takes Owner and owner for one key, and refuses both; remove one"),
    "multicast": (network("224.0.0.0/16"), ANY.format("224.0.0.0/4")),
    "loopback": (network("127.0.0.0/16"), ANY.format("127.0.0.0/8")),
    "link-local": (network("169.254.0.0/16"), ANY.format("169.254.0.0/16")),
    "this network": (network("0.0.0.0/16"), ANY.format("0.0.0.0/8")),
    "class E": (network("240.0.0.0/16"), ANY.format("240.0.0.0/4")),
    "broadcast": (network("255.255.0.0/16"), ANY.format("240.0.0.0/4")),
    "endpoint of loopback": ((ENDPOINT, "publicCidrs: [127.0.0.1/32]"), ANY.format("127.0.0.0/8")),
    "endpoint of metadata": ((ENDPOINT, "publicCidrs: [169.254.169.254/32]"), ANY.format("169.254.0.0/16")),
    "endpoint twice": ((ENDPOINT, "publicCidrs: [9.9.9.9/32, 9.9.9.9/32]"), "it has 9.9.9.9/32 twice; remove one"),
    "bucket xn--": (bucket("xn--foo"), "S3 refuses it: a bucket's name has"),
    "bucket -s3alias": (bucket("foo-s3alias"), "S3 refuses it"),
    "bucket sthree-": (bucket("sthree-x"), "S3 refuses it"),
    "bucket --ol-s3": (bucket("foo--ol-s3"), "S3 refuses it"),
    "bucket amzn-s3-demo-": (bucket("amzn-s3-demo-x"), "S3 refuses it"),
    "cache of others": (
        bucket("example-ccache", CACHE.replace("example/app", "evil/app")),
        "its owner is not example; add evil to",
    ),
    # j to m.
    "cron 99": (ami("gpu", "schedule: cron(99 99 99 99 99 99)"), "99 is not a minute of a cron line (0 to 59); correct it"),
    "31 February": (ami("gpu", "schedule: cron(0 4 31 2 ? *)"), "no month 2 has a day 31; correct it"),
    "two days": (ami("gpu", "schedule: cron(0 4 1 * 2 *)"), "one of day and day of the week must be ?"),
    "label of GitHub": ((LABELS, "labels: [ubuntu-latest]"), HOSTED),
    "another label of GitHub": ((LABELS, "labels: [Windows-2025]"), HOSTED),
    "a larger runner's label": ((LABELS, "labels: [macos-15-xlarge]"), HOSTED),
    "set of GitHub's name": (("        gpu-t4:\n", "        ubuntu-latest:\n"), HOSTED),
    "no CPU": ((CPU, "cpu: {request: 1m, limit: 1m}"), "no job gets through with so little CPU"),
    "no disk": ((SCALE, f"{SCALE}\n          scratch: 1Mi"), "no job gets through with so little disk"),
    "app 0": ((APP, 'appId: "0"'), 'an id is a quoted number from 1, for example "123456"; got "0"'),
    # Names, tags that other software reads, default providers.
    "tag of the autoscaler": (tag("k8s.io/cluster-autoscaler/enabled"), "other software reads tags such as k8s.io/"),
    "tag of EKS": (tag("eks:nodegroup-name"), "other software reads tags such as eks:nodegroup-name"),
    "tag of gpu-ci": (tag("gpu-ci/stack"), "gpu-ci sets tags of this name itself, and would drop yours; rename it"),
    "no guard": ((GUARD, ""), f'{NO_GUARD}write pulumi:disable-default-providers: ["*"]'),
    "guard off": (('["*"]', "false"), f'{NO_GUARD}write pulumi:disable-default-providers: ["*"]; got "false"'),
    "guard of one": (('["*"]', '["mig"]'), f'{NO_GUARD}write pulumi:disable-default-providers: ["*"]; got ["mig"]'),
    "guard mistyped": (("-providers:", "-provider:"), f"{NO_GUARD}did you mean pulumi:disable-default-providers?"),
    # Durations and documents without end.
    "grace period": (kubelet("shutdownGracePeriod: 999999999h"), LONG),
    "grace period above the old bound": (kubelet("shutdownGracePeriod: 277778h"), 'ten years; correct it; got "277778h"'),
    "lists without end": (containerd(f'config: "oom_score = {"[" * 8000}"'), "TOML with too many levels; correct it"),
    "dots without end": (containerd(f'config: "{"a." * 3000}a = 1"'), "TOML with too many levels; correct it"),
    "large lists": (containerd(f'config: "oom_score = {"[" * 50_000}"'), "it has 8192 at most, shorten it"),
    # Of less weight.
    "start": ((HEALTH, "health: {startWithin: 999999999h}"), LONG),
    "rejected pods": ((HEALTH, "health: {rejectedPods: 1000000000000}"), "must be at most 1000; lower it; got 1000000000000"),
    "retention": ((HEALTH, f"{HEALTH}\n      monitoring: {{prometheus: install, retention: 999999999h}}"), LONG),
    "network twice": ((HEALTH, f"{HEALTH}\n      privateEgress: [10.1.0.0/16, 10.1.0.0/16]"), "a network is given twice"),
    "email": ((BUDGET, f"emails: [{'a' * 600_000}@example.com]"), "not an email address"),
    "image": ((SCALE, f"{SCALE}\n          image: ghcr.io/a/{'b' * 600_000}:1"), "at most 512"),
    "size": ((SCALE, f"{SCALE}\n          scratch: 999999999Gi"), "a quantity has at most 1048576Gi; correct it"),
    "window": (window("", "09:01"), "a window has at least 5 minutes"),
    **{
        f"holiday {day}": (
            window(f'holidays: ["{day}"], ', "10:00"),
            f'not a day; write year, month and day such as 2026-12-19; got "{day}"',
        )
        for day in ("20261225", "2026-W52-5")
    },
}


def told(text: str, folder: Path, stack: str = "staging") -> list[str]:
    """The lines of the input error of a plan; empty if there is none."""
    path = folder / "Pulumi.staging.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        make_plan(stack, ROOT, path, as_of=AS_OF)
    except InputError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize("name", EDITS)
def test_a_value_that_nothing_accepts_is_wrong_input_on_its_line(name: str, tmp_path: Path) -> None:
    (old, new), expected = EDITS[name]
    assert old in STAGING
    text = STAGING.replace(old, new, 1)
    lines = told(text, tmp_path)
    assert len(lines) == 1, lines
    assert expected in lines[0]
    line = int(lines[0].removeprefix(f"{tmp_path}/Pulumi.staging.yaml:").partition(":")[0])
    changed = [number for number, (a, b) in enumerate(zip(text.splitlines(), STAGING.splitlines(), strict=False), 1) if a != b]
    assert line >= changed[0] or name in ("no guard", "guard mistyped", "tags without case"), "the line of the value"


FIXED = (
    # What the models refuse.
    (
        ('appId: "0"', 'appId: "1"', "github.appId: an id is a quoted number from 1"),
        ("[127.0.0.1/32, ", "[", "endpoint.publicCidrs.0: addresses of 127.0.0.0/8 are reserved"),
        ("224.0.0.0/16", "10.0.0.0/16", "network.cidr: addresses of 224.0.0.0/4 are reserved"),
        ("xn--foo", "foo", "buildCaches.buckets.xn--foo: S3 refuses it"),
        ("99 99 99 99 99 99", "0 4 1 * ? *", "amis.gpu-cuda-12-builder.schedule: 99 is not a minute"),
        ("mountPath: /etc", "mountPath: /mnt/x", "localStorage.mountPath: the disks hide"),
        ("version = 99", "version = 3", "containerd.config: version: containerd of the node image starts with no other"),
        ("RLIMIT_FOO", "RLIMIT_CPU", "rlimits.0.type: it must be one of"),
        ("podPidsLimit: 1,", "podPidsLimit: 1024,", "kubelet.config.podPidsLimit: a whole number"),
        ("99999999999", "9", "kubelet.config.containerLogMaxFiles: a whole number"),
        ("999999999h", "2m", "kubelet.config.shutdownGracePeriod: a duration has at most"),
        ("{request: 1m, limit: 1m}", "{request: 4, limit: 4}", "runners.gpu-t4.cpu.limit: no job gets through"),
        ("labels: [ubuntu-latest]", "labels: []", "runners.gpu-t4-hosted.labels.0: GitHub's own runners"),
    ),
    # What the endpoint and the whole fleet refuse.
    (("203.0.113.0/24, 203.0.113.0/24", MANY, "endpoint.publicCidrs: it has 203.0.113.0/24 twice"),),
    (
        ('k8s.io/cluster-autoscaler/enabled: "false"', "a: b", "tags.k8s.io/cluster-autoscaler/enabled: other software"),
        ("Owner: ci, ", "", "tags.owner: IAM takes Owner and owner for one key"),
        ("production-us-east-1", "usw2", "amis.gpu-cuda-12-builder: an IAM role is named after"),
        ("evil/app", "example/app", "repositories.0: its jobs could write the cache"),
    ),
    # What nothing but the resources show.
    (
        (
            MANY,
            "203.0.113.0/24",
            ":17: gpu-ci:clusters.usw2.endpoint.publicCidrs: it has 49 entries and may have 0 to 40; correct it (Cluster usw2-",
        ),
        ("us-west-2e", "us-west-2a", ":15: gpu-ci:clusters.usw2.zones.0: there is no such zone"),
        (
            "us-west-2g",
            "us-west-2b",
            ":15: gpu-ci:clusters.usw2.zones.1: there is no such zone; it must be one of us-west-2a, us-west-2b, us-west-2c, "
            "us-west-2d; did you mean us-west-2d? (Subnet usw2-network-public-us-west-2g, ",
        ),
    ),
)


def test_one_file_with_every_kind_of_nonsense_is_refused_line_by_line(tmp_path: Path) -> None:
    text = (ROOT / "tests" / "offline" / "nonsense.yaml").read_text(encoding="utf-8")
    for faults in FIXED:
        lines = told(text, tmp_path)
        for old, new, expected in faults:
            assert any(expected in line for line in lines), (expected, lines)
            text = text.replace(old, new)
        assert len(lines) == len(faults), lines
    assert told(text, tmp_path) == [], "nothing is left to refuse"


def test_a_stack_name_counts_in_the_name_of_a_cluster(tmp_path: Path) -> None:
    text = STAGING.replace("    usw2:\n", "    production-us1:\n")
    assert told(text, tmp_path, "s" * 90) == [
        f"{tmp_path}/Pulumi.staging.yaml:20: gpu-ci:clusters.production-us1: EKS would call the cluster "
        f"gpu-ci-{'s' * 90}-production-us1, 112 characters, and takes 100; shorten the name of the cluster or of the stack; "
        'got "production-us1"'
    ]
