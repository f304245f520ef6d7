"""runner-ephemeral: runners of the older controller, and machines whose user data registers a runner, however it is packed."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

import pytest
from pydantic import TypeAdapter

from fleet.providers.oke.machine.launch import encoded, user_data
from fleet.providers.oke.runners import AnyRunner
from policies.rules.kinds import EC2_INSTANCE, LAUNCH_TEMPLATE, OCI_INSTANCE, OCI_INSTANCE_CONFIGURATION, RELEASE, SPOT_REQUEST
from policies.rules.runner_ephemeral import LEGACY, RULE
from policies.rules.userdata import readings
from tests.builders import vm, vm_per_job
from tests.policies.cases import Case
from tests.policies.fixtures import GPU_POD, STANDING_PROPS, release, template
from tests.policies.harness import CLEAN, changed, judge, said
from tests.policies.suite import Suite

ONE_JOB = (
    "registers a runner for more than one job: a job may run what an earlier job left; "
    "use config.sh --ephemeral, or run.sh --jitconfig"
)
ENDS = (
    "registers a runner and never ends the machine: it costs money, and may be misused, after its job; "
    "end the script with poweroff"
)
OLD_CHART = (
    'chart is "actions-runner-controller", ARC\'s older controller: its runners may run several jobs; use gha-runner-scale-set'
)

STAYS = "#!/bin/bash\n./config.sh --unattended --url https://github.com/example\n./run.sh\n"
ONCE = "#!/bin/bash\n./config.sh --unattended --ephemeral --url https://github.com/example\n./run.sh\nsystemctl poweroff\n"


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def machine(text: str) -> dict[str, Any]:
    return {"shape": "VM.GPU.A10.1", "metadata": {"user_data": text}}


def machines_of(settings: dict[str, Any]) -> Any:
    return TypeAdapter(AnyRunner).validate_json(json.dumps(settings))


def judged(text: str) -> Any:
    return judge(RULE, OCI_INSTANCE, machine(text))


def older(token: str) -> str:
    kind = token.rpartition(":")[2]
    return f"a {kind} of ARC's older controller: its runners may run several jobs; use chart gha-runner-scale-set"


@pytest.mark.parametrize("token", sorted(LEGACY))
def test_the_older_controllers_kinds_are_refused_whatever_they_say(token: str) -> None:
    assert judge(RULE, token, template(GPU_POD)) == said(older(token))
    assert judge(RULE, token, {"spec": {"template": {"spec": {"ephemeral": True}}}}) == said(older(token))


@pytest.mark.parametrize(
    "chart",
    [
        "actions-runner-controller",
        "https://example.com/actions-runner-controller-0.23.7.tgz",
        "oci://x/actions-runner-controller",
    ],
)
def test_the_older_controllers_chart_is_refused(chart: str) -> None:
    assert judge(RULE, RELEASE, {"chart": chart}) == said(OLD_CHART)


@pytest.mark.parametrize(
    "chart", ["gha-runner-scale-set", "gha-runner-scale-set-controller", "actions-runner-controller-charts", None]
)
def test_other_charts_pass(chart: str | None) -> None:
    assert judge(RULE, RELEASE, {"chart": chart}) == CLEAN


CLOUD_CONFIG = "#cloud-config\nwrite_files:\n  - path: /a\n    encoding: gz+b64\n    content: {}\nruncmd: [[/a]]\n"
PACKED = {
    "plain": str,
    "base64": b64,
    "gzip": lambda text: b64(gzip.compress(text.encode())),
    "zlib": lambda text: b64(zlib.compress(text.encode())),
    "in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "without padding": lambda text: b64(text).rstrip("="),
    "in cloud-config": lambda text: b64(CLOUD_CONFIG.format(b64(gzip.compress(text.encode())))),
    "in MIME": lambda text: (
        f"MIME-Version: 1.0\n\n--x\nContent-Transfer-Encoding: base64\n\n{base64.encodebytes(text.encode()).decode()}--x--"
    ),
    "twice": lambda text: b64(b64(text)),
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_user_data_is_read_however_it_is_packed(pack: Any) -> None:
    assert judged(pack(ONCE)) == CLEAN
    assert judged(pack(STAYS)) == said(f"metadata.user_data {ONE_JOB}", f"metadata.user_data {ENDS}")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("run.sh --jitconfig $jit; shutdown -h now", ()),
        ("ACTIONS_RUNNER_INPUT_JITCONFIG=$jit ./run.sh; poweroff", ()),
        ("config.sh --ephemeral\naws ec2 terminate-instances --instance-ids $id", ()),
        ("config.sh --ephemeral\noci compute instance terminate --force", ()),
        ("config.sh --ephemeral", (ENDS,)),
        ("config.sh --url x; poweroff", (ONE_JOB,)),
        ("config.sh --url x\n# --ephemeral, then poweroff", (ONE_JOB, ENDS)),
        ("Runner.Listener run; halt", (ONE_JOB,)),
        ("echo --ephemeral-storage; config.sh; poweroff", (ONE_JOB,)),
        ("nodeadm init; echo ready", ()),
        ("", ()),
    ],
)
def test_a_runner_serves_one_job_and_its_machine_ends(script: str, told: tuple[str, ...]) -> None:
    assert judged(script) == said(*(f"metadata.user_data {each}" for each in told))


LAUNCH = ("instanceDetails", "launchDetails", "metadata", "user_data")


@pytest.mark.parametrize(
    ("token", "props", "path"),
    [
        (OCI_INSTANCE, machine(b64(STAYS)), "metadata.user_data"),
        (OCI_INSTANCE, {"extendedMetadata": {"user_data": b64(STAYS)}}, "extendedMetadata.user_data"),
        (OCI_INSTANCE_CONFIGURATION, changed(STANDING_PROPS, *LAUNCH, b64(STAYS)), ".".join(LAUNCH)),
        (
            OCI_INSTANCE_CONFIGURATION,
            {"instanceDetails": {"options": [{}, {"launchDetails": machine(b64(STAYS))}]}},
            "instanceDetails.options[1].launchDetails.metadata.user_data",
        ),
        (EC2_INSTANCE, {"userData": STAYS}, "userData"),
        (EC2_INSTANCE, {"userDataBase64": b64(STAYS)}, "userDataBase64"),
        (SPOT_REQUEST, {"userData": STAYS}, "userData"),
        (LAUNCH_TEMPLATE, {"userData": b64(STAYS)}, "userData"),
    ],
)
def test_every_kind_of_machine_is_read_where_it_has_its_user_data(token: str, props: dict[str, Any], path: str) -> None:
    assert judge(RULE, token, props) == said(f"{path} {ONE_JOB}", f"{path} {ENDS}")


def test_unknown_user_data_may_register_a_runner() -> None:
    assert judge(RULE, LAUNCH_TEMPLATE, {"userData": "x"}, unknown=("userData",)).unknown == "userData"
    assert judge(RULE, OCI_INSTANCE, machine("x") | {"subnetId": "a"}, unknown=("subnetId",)) == CLEAN


@pytest.mark.parametrize("runner", [machines_of(vm()), machines_of(vm_per_job())], ids=["standing", "a machine per job"])
def test_what_our_own_machines_run_passes_and_is_told_of_each_thing_it_loses(runner: Any) -> None:
    assert judged(encoded(runner)) == CLEAN
    text = user_data(runner)
    for lost, told in (("JITCONFIG", ONE_JOB), ("poweroff", ENDS)):
        assert lost in text
        assert judged(b64(text.replace(lost, "LOST"))) == said(f"metadata.user_data {told}")


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_what_unpacks_without_end_is_read_to_a_bound() -> None:
    bomb = gzip.compress(b"#" * 2**26)
    found = readings(b64(bomb))
    assert max(map(len, found)) <= 2**20
    assert judged(b64(bomb)) == CLEAN


@pytest.mark.parametrize(
    "text",
    [
        "!",
        "=",
        "A" * 41,
        "A" * 10**6,
        "H4sIAAAA",
        b64(b"\x1f\x8b broken"),
        b64(b"\x78\x9c broken"),
        "\u00e9" * 99,
        b64(b"\xff" * 99),
    ],
)
def test_what_is_no_encoding_is_text(text: str) -> None:
    assert judged(text) == CLEAN


@pytest.mark.parametrize(
    "text", [" " * 10**6 + "!", ("A" * 40 + "\n" + " " * 100) * 5000 + "!", "A\n" * 10**5 + "!", "=" * 10**6]
)
def test_no_text_takes_long(text: str) -> None:
    """What takes the square of a text's length would not end in the time of a test."""
    assert judged(text) == CLEAN


def test_many_texts_within_are_read_to_a_bound() -> None:
    many = "\n".join(b64(f"text number {index:4} of very many here") + "!" for index in range(2000))
    assert len(readings(many)) == 512


def test_what_hides_behind_many_texts_is_found() -> None:
    chaff = "\n".join(b64(f"text number {index:4} of very many here") + "!" for index in range(100))
    assert judge(RULE, EC2_INSTANCE, {"userData": f"#!/bin/sh\n{chaff}\n{b64(STAYS)}!"}).messages


def test_texts_that_unpack_to_much_are_read_to_a_bound() -> None:
    bomb = "#!/bin/sh\n" + "\n".join(b64(gzip.compress(bytes([65 + index]) * 2**20)) + "!" for index in range(26))
    twice = "#!/bin/sh\n" + "\n".join(b64(gzip.compress(f"{bomb}{index} {'- ' * 2**18}".encode())) + "!" for index in range(26))
    for given in (bomb, twice):
        assert sum(map(len, readings(given))) <= 3 * 2**20


SUITE = Suite(
    RULE,
    passing=(
        Case(RELEASE, release(GPU_POD)),
        Case(OCI_INSTANCE, machine(b64(ONCE))),
        Case(OCI_INSTANCE_CONFIGURATION, changed(STANDING_PROPS, *LAUNCH, b64(ONCE))),
        Case(EC2_INSTANCE, {"userData": ONCE}),
        Case(SPOT_REQUEST, {"userData": ONCE}),
        Case(LAUNCH_TEMPLATE, {"userData": b64("#!/bin/bash\nnodeadm init\n")}),
    ),
    violating=(
        Case(RELEASE, {"chart": "actions-runner-controller"}, (OLD_CHART,)),
        *(Case(token, template(GPU_POD), (older(token),)) for token in sorted(LEGACY)),
        Case(OCI_INSTANCE, machine(b64(STAYS)), (f"metadata.user_data {ONE_JOB}", f"metadata.user_data {ENDS}")),
        Case(
            OCI_INSTANCE_CONFIGURATION,
            changed(STANDING_PROPS, *LAUNCH, b64(ONCE.replace("--ephemeral ", ""))),
            (f"{'.'.join(LAUNCH)} {ONE_JOB}",),
        ),
        Case(EC2_INSTANCE, {"userDataBase64": b64(ONCE.replace("poweroff", ""))}, (f"userDataBase64 {ENDS}",)),
        Case(SPOT_REQUEST, {"userData": STAYS}, (f"userData {ONE_JOB}", f"userData {ENDS}")),
        Case(LAUNCH_TEMPLATE, {"userData": b64(STAYS)}, (f"userData {ONE_JOB}", f"userData {ENDS}")),
    ),
    forbidden=LEGACY,
)
