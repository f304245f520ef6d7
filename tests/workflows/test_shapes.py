"""Workflows in the shapes that public GPU projects use, read by `gpu-ci check` for the stack prod."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.loading.config import read_fleet
from fleet.loading.home import ROOT
from fleet.settings.runner import PodRunner
from gpu_ci.audit.reading import audit
from gpu_ci.cli import app
from gpu_ci.offline import workflows
from gpu_ci.offline.workflows import WorkflowCheck, check_workflows
from gpu_ci.workflows import job as reader
from gpu_ci.workflows.expressions import combinations, filled
from gpu_ci.workflows.job import steps_of
from gpu_ci.workflows.judge import Answer
from tests.cases import cases

SHAPES = Path(__file__).parent / "shapes" / ".github" / "workflows"
BOTH = "write runs-on: with one of oracle-vm-gpu-a10-1, oracle-vm-gpu-a10-2"
EXPECTED = {
    "plain.yml": [("5 lint", "not ours", ""), ("9 test", "runs", "use1/gpu-t4")],
    "labels.yml": [("5 test", "runs", "use1/gpu-t4")],
    "group.yml": [
        ("5 right", "runs", "sjc/oracle-vm-gpu-a10-1"),
        ("8 wrong", "no runner", "write runs-on: {group: GPUs, labels: gpu-a10g}"),
    ],
    "matrix.yml": [
        ("14 test", "runs", "use1/gpu-t4"),
        ("14 test", "runs", "use1/gpu-a10g"),
        ("14 test", "no runner", "write runs-on: gpu-a10g"),
    ],
    "matrix-objects.yml": [
        ("10 build", "not ours", ""),
        ("10 build", "runs", "use1/gpu-t4"),
        ("18 include-only", "runs", "use1/gpu-a10g"),
        ("18 include-only", "runs", "use1/gpu-a10g-release"),
    ],
    "container.yml": [("5 test", "no runner", BOTH), ("11 machine", "runs", "sjc/oracle-vm-gpu-a10-1")],
    "services.yml": [("5 integration", "no runner", BOTH)],
    "private-image.yml": [("5 train", "runs", "sjc/oracle-vm-gpu-a10-2")],
    "optional-container.yml": [("10 test", "runs", "use1/gpu-t4"), ("10 test", "runs", "sjc/oracle-vm-gpu-a10-1")],
    "docker.yml": [("5 image", "runs", "use1/gpu-t4"), ("17 machine", "runs", "sjc/oracle-vm-gpu-a10-1")],
    "linux-job.yml": [("8 unittests", "undeterminable", "")],
    # The jobs of reusable.yml are where it is called.
    "reusable.yml": [("14 gpus / report", "not ours", ""), ("14 wrong / report", "not ours", "")],
    "calls.yml": [
        ("8 gpus / test", "runs", "use1/gpu-t4"),
        ("8 gpus / labeled", "runs", "use1/gpu-t4"),
        ("8 gpus / test", "runs", "use1/gpu-a10g"),
        ("11 wrong / test", "no runner", "write runs-on: gpu-a10g"),
        ("11 wrong / labeled", "runs", "use1/gpu-t4"),
        ("15 gone", "undeterminable", ""),
    ],
    "dispatch.yml": [("8 bench", "undeterminable", "")],
    "dynamic.yml": [("5 plan", "not ours", ""), ("12 test", "undeterminable", "")],
    "moved.yml": [
        (
            "5 vendor",
            "no runner",
            "write runs-on: with one of oracle-vm-gpu-a10-1, oracle-vm-gpu-a10-2, gpu-a10g, gpu-a10g-release, gpu-t4, "
            "gpu-t4-release",
        ),
        ("8 typo", "no runner", "write runs-on: gpu-t4"),
        ("11 large", "no runner", BOTH),
    ],
    "nightly.yml": [("6 train", "runs", "use1/gpu-a10g-release"), ("11 machine", "runs", "sjc/oracle-vm-gpu-a10-1")],
}


def check(target: Path, stack: str = "prod") -> WorkflowCheck:
    """The check of a folder or a file that has workflows."""
    judged = check_workflows(str(target), stack, ROOT)
    assert judged is not None
    return judged


@pytest.fixture(scope="module")
def judged() -> WorkflowCheck:
    """Every shape on prod."""
    return check(SHAPES)


def alone(folder: Path, text: str, stack: str = "prod") -> tuple[Answer, ...]:
    """The answers for one workflow."""
    path = folder / "ci.yml"
    path.write_text(text)
    return check(path, stack).answers


def job(*lines: str) -> str:
    return "\n".join(["on: push", "jobs:", "  test:", *(f"    {line}" for line in lines), ""])


def test_every_job_of_every_shape_has_its_answer_with_file_and_line(judged):
    shown = defaultdict(list)
    for answer in judged.answers:
        file, line = answer.job.place.rsplit(":", 1)
        outcome = answer.edit if answer.state == "no runner" else "".join(answer.sets)
        shown[Path(file).name].append((f"{line} {answer.job.name}", answer.state, outcome))
    assert dict(shown) == EXPECTED
    assert {path.name for path in SHAPES.iterdir()} == set(EXPECTED)


def remarks(judged: WorkflowCheck, file: str, name: str) -> list[str]:
    return [
        remark.replace(f"{SHAPES}/", "")
        for answer in judged.answers
        if f"/{file}:" in answer.job.place and answer.job.name == name
        for remark in answer.remarks
    ]


def test_remarks_name_the_step_the_reason_and_the_edit(judged):
    machine = "which gpu-t4 of use1 cannot; write runs-on: oracle-vm-gpu-a10-1"
    assert remarks(judged, "docker.yml", "image") == [
        f"docker.yml:7: it seems that docker/setup-buildx-action@v4 calls Docker, {machine}",
        f"docker.yml:8: it seems that docker/build-push-action@v7 calls Docker, {machine}",
        f"docker.yml:10: it seems that docker run calls Docker, {machine}",
        f"docker.yml:13: docker://alpine:3.22 starts a container, {machine}",
        f"docker.yml:14: it seems that .github/actions/lint (Dockerfile) calls Docker, {machine}",
        f"docker.yml:15: it seems that .github/actions/bench (.github/actions/lint (Dockerfile)) calls Docker, {machine}",
        f"docker.yml:15: it seems that .github/actions/bench (docker build) calls Docker, {machine}",
    ]
    assert remarks(judged, "docker.yml", "machine") == [], "machines have Docker"
    assert remarks(judged, "nightly.yml", "train") == [
        "timeout-minutes is 720, and a job of gpu-a10g-release of use1 may take 390; write timeout-minutes: 390 or less",
        "CUDA_VISIBLE_DEVICES: 0,1,2,3 names 4 GPUs, and a job of gpu-a10g-release of use1 has 1; name 1",
    ]
    assert remarks(judged, "nightly.yml", "machine") == [
        "timeout-minutes is 2880, and a job of oracle-vm-gpu-a10-1 of sjc may take 1440; write timeout-minutes: 1440 or less",
        "--gpus device=0,1 names 2 GPUs, and a job of oracle-vm-gpu-a10-1 of sjc has 1; name 1",
    ]
    assert remarks(judged, "private-image.yml", "train") == [], "it has both GPUs"
    assert len(remarks(judged, "calls.yml", "gpus / test")) == 2, "the input is the timeout"


def test_a_stack_without_machines_has_another_edit_for_containers(tmp_path):
    then = "containers: job in class gpu-t4, which then takes no other jobs (docs/container-jobs.md)"
    answers = [
        alone(tmp_path, job("runs-on: gpu-t4", line), "staging")[0] for line in ("container: a:1", "services: {a: {image: a}}")
    ]
    assert [answer.edit for answer in answers] == [
        f"write {then}",
        f"write container: <image> beside services:, and {then}",
    ]
    (both,) = alone(tmp_path, job("runs-on: gpu-t5", "container: a:1"), "staging")
    assert both.edit == f"write runs-on: gpu-t4, and write {then}"
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", "steps: [{run: docker build .}]"), "staging")
    fix = "send the build to BuildKit (docs/builds.md), or move the step to a job with runs-on: ubuntu-latest"
    assert answer.remarks[0].endswith(f"which gpu-t4 of usw2 cannot; {fix}")


@cases(
    ("step", "remarks"),
    [
        ("{run: 'docker buildx create --use --driver remote tcp://b:1'}", 0),
        ("{uses: docker/setup-buildx-action@v4, with: {driver: remote}}", 0),
        ("{uses: docker/setup-buildx-action@v4}", 3),
    ],
)
def test_a_build_by_a_remote_builder_needs_no_docker(tmp_path, step, remarks):
    steps = f"steps: [{step}, {{uses: docker/build-push-action@v7}}, {{run: docker buildx build .}}]"
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", steps))
    assert len(answer.remarks) == remarks


@cases(
    ("runs_on", "state"),
    [
        ("GPU-T4", "runs"),
        ("[gpu-t4, cuda]", "runs"),
        ("[gpu-t4, a100]", "no runner"),
        ("{labels: gpu-t4}", "runs"),
        ("{group: gpus}", "runs"),
        ("{group: other}", "no runner"),
        *((f"{{group: {level}/GPUs}}", "runs") for level in ("org", "organization", "ent", "enterprise")),
        ("{group: team/GPUs}", "no runner"),
        ("${{ vars.RUNNER }}", "undeterminable"),
        ("${{ 'gpu-t4' }}", "runs"),
        ("""${{ fromJSON('["self-hosted", "gpu"]') }}""", "runs"),
        ("${{ fromJSON('[') }}", "undeterminable"),
        ("ubuntu-24.04-arm", "not ours"),
        ("{group: larger, labels: ubuntu-latest}", "not ours"),
        ("[ubuntu-latest, gpu]", "no runner"),
        ("[]", "undeterminable"),
        ('""', "undeterminable"),
    ],
)
def test_a_runs_on_in_every_form(tmp_path, runs_on, state):
    answers = alone(tmp_path, job(f"runs-on: {runs_on}"))
    assert {answer.state for answer in answers} == {state}


@cases(
    ("keys", "state"),
    [
        ("services: {db: {image: ''}}", "runs"),
        ("services: {db: {ports: [1]}, other: }", "runs"),
        ("services: {db: {image: '${{ matrix.i }}'}}\n    strategy: {matrix: {i: ['']}}", "runs"),
        ("services: {db: {image: '${{ matrix.i }}'}}\n    strategy: {matrix: {i: [a]}}", "no runner"),
        ("services: {db: {image: ''}, other: {image: a}}", "no runner"),
        ("services: {db: {image: '${{ inputs.i }}'}}", "undeterminable"),
        ("services: ${{ fromJSON(inputs.services) }}", "undeterminable"),
        ("services: {db: {image: '${{ inputs.i }}'}, other: {image: a}}", "no runner"),
        ("container: ${{ inputs.image }}", "undeterminable"),
        ("container: {image: \"${{ github.ref == 'a' && 'img' || '' }}\"}", "undeterminable"),
        ("container: a:${{ inputs.tag }}", "no runner"),
        ("container: ${{ inputs.image }}\n    services: {db: {image: a}}", "no runner"),
    ],
)
def test_only_an_image_starts_a_container(tmp_path, keys, state):
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", keys))
    assert answer.state == state
    (machine,) = alone(tmp_path, job("runs-on: oracle-vm-gpu-a10-1", keys))
    assert machine.state == "runs"


def test_an_open_image_has_its_expression_and_an_edit(tmp_path):
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", "container: ${{ inputs.image }}"))
    assert (answer.message, answer.edit) == (
        "only GitHub knows whether container starts a container, by '${{ inputs.image }}', and gpu-t4 of use1 starts none",
        BOTH,
    )


@cases(
    ("timeout", "minutes"),
    [
        ("${{ vars.T }}", None),
        ("'30'", None),
        ("'900'", 900),
        ("${{ matrix.t }}\n    strategy: {matrix: {t: ['900']}}", 900),
        ("soon", None),
        ("900.0", 900),
    ],
)
def test_only_a_timeout_that_is_known_has_a_remark(tmp_path, timeout, minutes):
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", f"timeout-minutes: {timeout}"))
    assert [remark.split(",")[0] for remark in answer.remarks] == ([f"timeout-minutes is {minutes}"] if minutes else [])


def test_a_job_without_a_timeout_has_that_of_github(monkeypatch, tmp_path):
    monkeypatch.setattr(PodRunner, "longest_job", property(lambda _: 3600))
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4"))
    assert answer.remarks[0].startswith("timeout-minutes is 360 (GitHub's default), ")
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", "timeout-minutes: ${{ vars.T }}"))
    assert answer.remarks == ()


@cases(
    ("options", "asks", "gpus"),
    [
        ("""--gpus '"count=2,capabilities=compute"'""", "--gpus count=2", 2),
        ("--gpus count=3", "--gpus count=3", 3),
        ("--gpus capabilities=utility,count=2", "--gpus capabilities=utility,count=2", 2),
        ("--gpus device=0,capabilities=utility", "--gpus device=0", 1),
        ("""--gpus '"device=0,GPU-3faa8-219"'""", "--gpus device=0,GPU-3faa8-219", 2),
        ("--gpus=count=all", "--gpus=count=all", 0),
    ],
)
def test_the_gpus_that_options_name(tmp_path, options, asks, gpus):
    (answer,) = alone(tmp_path, job("runs-on: oracle-vm-gpu-a10-2", "container:", "  image: a", f"  options: {options}"))
    assert (answer.job.asks, answer.job.gpus) == (asks, gpus)


@cases(("devices", "gpus"), [("0, 1", 2), (" 0,1,2 ", 3), ("-1", 0), ("'", 0)])
def test_the_gpus_that_a_job_sees(tmp_path, devices, gpus):
    (answer,) = alone(tmp_path, job("runs-on: gpu-t4", f'env: {{CUDA_VISIBLE_DEVICES: "{devices}"}}'))
    assert answer.job.gpus == gpus


@cases(
    ("matrix", "expected"),
    [
        ({}, [{}]),
        (None, [{}]),
        ({"a": [1, 2], "b": [3]}, [{"a": 1, "b": 3}, {"a": 2, "b": 3}]),
        ({"a": [1, 2], "b": [3, 4], "exclude": [{"a": 1}, {"a": 2, "b": 4}]}, [{"a": 2, "b": 3}]),
        ({"include": [{"a": 1}, {"a": 2}]}, [{"a": 1}, {"a": 2}]),
        # The example of docs.github.com, "Running variations of jobs in a workflow".
        (
            {
                "fruit": ["apple", "pear"],
                "animal": ["cat", "dog"],
                "include": [
                    {"color": "green"},
                    {"color": "pink", "animal": "cat"},
                    {"fruit": "apple", "shape": "circle"},
                    {"fruit": "banana"},
                    {"fruit": "banana", "animal": "cat"},
                ],
            },
            [
                {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
                {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
                {"fruit": "pear", "animal": "cat", "color": "pink"},
                {"fruit": "pear", "animal": "dog", "color": "green"},
                {"fruit": "banana"},
                {"fruit": "banana", "animal": "cat"},
            ],
        ),
        # Only GitHub knows the values of `a`.
        ({"a": "${{ fromJSON(vars.A) }}", "b": [1], "include": [{"a": 2}]}, [{"b": 1}, {"a": 2}]),
        ({"a": [*range(257)]}, [{}]),
    ],
)
def test_the_combinations_of_a_matrix_are_githubs(matrix, expected):
    assert combinations(matrix) == expected


def test_what_is_known_is_filled_in_and_the_rest_stays():
    contexts = {"matrix": {"gpu": "t4", "n": 2, "o": {"runner": ["a", "b"]}}}
    assert filled("gpu-${{ matrix.gpu }}-x${{matrix.n}}", contexts) == "gpu-t4-x2"
    assert filled(["${{ matrix.o.runner }}"], contexts) == [["a", "b"]]
    numbers = {"matrix": {"a": 4.0, "b": True, "c": 0.5, "d": None}}
    assert filled("${{ matrix.a }}/${{ matrix.b }}/${{ matrix.c }}/${{ matrix.d }}", numbers) == "4/true/0.5/"
    for text in ("${{ matrix.none }}", "${{ github.ref }}", "a ${{ matrix.o }}", "${{ matrix.gpu"):
        assert filled(text, contexts) == text
    for length in (20_000, 21_001):
        assert filled(f"${{{{ '{'a' * length}' }}}}", contexts).startswith("${{") is (length > 21_000), (
            "GitHub refuses longer ones"
        )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("matrix.gpu || 'a'", "t4"),
        ("inputs.none || 'it''s  two'", "it's  two"),
        ("matrix.gpu == 'T4' && 'a' || 'b'", "a"),
        ("matrix.gpu != 't4' && 'a' || matrix.gpu", "t4"),
        ("!matrix.off && (matrix.n == 2) && fromJSON('[\"a\", 1]')", ["a", 1]),
        ("matrix.off && github.ref || 'b'", "b"),
        ("matrix.n == 2 && github.ref || 'b'", None),
        ("github.event_name == 'push' && 'a' || 'b'", None),
        ("vars.RUNNER || 'b'", None),
        ("format('a{0}', matrix.gpu)", None),
        ("'a' 'b'", None),
        ("matrix.gpu ||", None),
        ("(matrix.gpu", None),
        ("matrix.n == '2'", None),
        ("matrix", None),
    ],
)
def test_operators_of_known_values_have_githubs_result_and_others_stay(expression, value):
    contexts = {"matrix": {"gpu": "t4", "n": 2, "off": False}, "inputs": {"none": ""}}
    written = f"${{{{ {expression} }}}}"
    assert filled(written, contexts) == (written if value is None else value)


def test_a_long_expression_is_read_in_one_pass():
    for sign in ("(", "!", "'a' == ", "a && ", " '"):
        written = f"${{{{ {sign * (20_000 // len(sign))} }}}}"
        assert filled(written, {}) == written


@cases(
    "text",
    [
        "on: push\njobs: {}\n",
        "on: push\njobs:\n",
        "on: push\njobs: [a]\n",
        "on: push\njobs: {test: {runs-on: gpu-t4}\n",
        "on: push\n",
        "",
    ],
)
def test_a_file_without_jobs_is_wrong_input(tmp_path, text):
    path = tmp_path / "ci.yml"
    path.write_text(text)
    result = CliRunner().invoke(app, ["check", "prod", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(path) in result.stderr


def test_an_expression_in_a_file_that_is_not_yaml_is_not_taken_for_a_template_of_helm(tmp_path):
    (tmp_path / "ci.yml").write_text(job("runs-on: [${{ matrix.a }}"))
    with pytest.raises(InputError, match="not valid YAML"):
        check(tmp_path)


def test_a_call_in_a_circle_is_refused_as_github_does(tmp_path):
    for caller, callee in ("bc", "cb"):
        (tmp_path / f"{caller}.yml").write_text(
            f"on: workflow_call\njobs: {{{caller}: {{uses: ./.github/workflows/{callee}.yml}}}}\n"
        )
    (answer,) = alone(tmp_path, job("uses: ./.github/workflows/b.yml"))
    assert (answer.job.name, answer.state) == ("test / b / c", "undeterminable")
    assert answer.message == "it calls ./.github/workflows/b.yml: it calls itself again, which GitHub refuses; remove the call"


def test_calls_that_multiply_are_refused(tmp_path):
    for name in "bcd":
        calls = ", ".join(f"j{number}: {{uses: ./.github/workflows/{chr(ord(name) + 1)}.yml}}" for number in range(50))
        (tmp_path / f"{name}.yml").write_text(f"on: push\njobs: {{{calls}}}\n")
    (tmp_path / "e.yml").write_text(job("runs-on: gpu-t4"))
    with pytest.raises(InputError, match="at most 10,000 jobs"):
        alone(tmp_path, job("uses: ./.github/workflows/b.yml"))


def test_steps_that_multiply_are_refused(tmp_path):
    matrix = f"strategy: {{matrix: {{long: {[*range(250)]}}}}}"
    steps = ", ".join(["{run: docker build .}"] * 401)
    with pytest.raises(InputError, match="100,000 steps with containers in all of them, with those that it calls; split it"):
        alone(tmp_path, job("runs-on: gpu-t4", "timeout-minutes: ${{ matrix.long }}", matrix, f"steps: [{steps}]") + "  b: {}\n")


def test_workflows_that_only_call_one_another_have_answers(tmp_path):
    for caller, callee in ("bc", "cb"):
        (tmp_path / f"{caller}.yml").write_text(f"on: workflow_call\njobs: {{a: {{uses: ./.github/workflows/{callee}.yml}}}}\n")
    assert [answer.job.name for answer in check(tmp_path).answers] == ["a / a", "a / a"]


def test_the_steps_of_a_job_are_read_once_for_all_its_combinations_and_calls(tmp_path, monkeypatch):
    read = []

    def counted(file, *rest):
        read.append(file.path.name)
        return steps_of(file, *rest)

    monkeypatch.setattr(reader, "steps_of", counted)
    steps = ", ".join(["{run: docker build .}"] * 3)
    matrix = "strategy: {matrix: {long: [1, 2, 3]}}"
    (tmp_path / "b.yml").write_text(job("runs-on: gpu-t4", "timeout-minutes: ${{ matrix.long }}", matrix, f"steps: [{steps}]"))
    answers = alone(tmp_path, job("uses: ./.github/workflows/b.yml", matrix))
    assert [len(answer.job.steps) for answer in answers] == [3, 3, 3]
    assert read == ["b.yml"]


def test_a_call_of_a_file_elsewhere_is_no_call_of_githubs(tmp_path):
    (tmp_path / "b.yml").write_text("on: workflow_call\njobs: {a: {runs-on: gpu-t4}}\n")
    for uses in ("./any/where/b.yml", "./.github/workflows/sub/b.yml", "./b.yml"):
        (answer,) = alone(tmp_path, job(f"uses: {uses}"))
        assert answer.message == f"it calls {uses}: GitHub calls only files of .github/workflows; move it there"


def test_a_job_that_is_no_mapping_is_wrong_input(tmp_path):
    (tmp_path / "ci.yml").write_text(job("runs-on: gpu-t4") + "  b:\n  c: [a]\n")
    with pytest.raises(InputError) as error:
        check(tmp_path)
    assert str(error.value).splitlines() == [
        f"{tmp_path}/ci.yml:5: jobs.b: a job is a mapping; got None; write its keys, or remove it",
        f"{tmp_path}/ci.yml:6: jobs.c: a job is a mapping; got ['a']; write its keys, or remove it",
    ]


def actions_in_a_chain(root: Path, count: int) -> None:
    """Composite actions a0, a1, …, each of which uses the next. The last one calls Docker."""
    for number in range(count):
        folder = root / ".github" / "actions" / f"a{number}"
        folder.mkdir(parents=True)
        step = "run: docker build ." if number == count - 1 else f"uses: ./.github/actions/a{number + 1}"
        (folder / "action.yml").write_text(f"runs: {{using: composite, steps: [{{{step}}}]}}\n")


@cases(("count", "remarks"), [(10, 1), (11, 0), (700, 0)])
def test_composite_actions_are_followed_as_deep_as_githubs_limit(tmp_path, count, remarks):
    actions_in_a_chain(tmp_path / str(count), count)
    folder = tmp_path / str(count) / ".github" / "workflows"
    folder.mkdir()
    (answer,) = alone(folder, job("runs-on: gpu-t4", "steps: [{uses: ./.github/actions/a0}]"))
    assert len(answer.remarks) == remarks
    assert len(audit(tmp_path / str(count)).jobs) == 1


def test_an_action_that_is_a_link_to_itself_is_not_followed(tmp_path):
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "action.yml").symlink_to("action.yml")
    (answer,) = alone(folder, job("runs-on: gpu-t4", "steps: [{uses: ./loop}, {uses: ./file}]"))
    assert answer.remarks == ()
    assert len(audit(tmp_path).jobs) == 1


def test_a_label_that_is_a_number_is_written_as_github_writes_it(tmp_path):
    answers = alone(tmp_path, job("runs-on: ['${{ matrix.n }}', 'x${{ matrix.n }}', 2.0]", "strategy: {matrix: {'n': [4.0]}}"))
    assert [answer.job.runs_on.labels for answer in answers] == [("2", "4", "x4")]


def test_hostile_expressions_are_read_in_one_pass(tmp_path):
    answers = alone(tmp_path, job(f'runs-on: "{"${{" * 6900}"', f'container: "{"${{" * 500_000}"'))
    assert [answer.state for answer in answers] == ["undeterminable"]


@cases(
    "line",
    [
        f"runs-on: gpu-t4\n    timeout-minutes: {'9' * 400}",
        f'runs-on: gpu-t4\n    steps: [{{uses: ./{"a" * 5000}}}, {{uses: "./a\\0b"}}, {{run: 1}}, 2]',
        f"uses: ./.github/workflows/{'a' * 5000}",
        "uses: 1\n    with: []",
        f"runs-on: {'9' * 5000}",
        "runs-on: {group: [1], labels: {a: 1}}\n    container: [1]\n    services: 1\n    strategy: {matrix: [1]}",
        "runs-on: gpu-t4\n    steps: {a: 1}\n    env: 1\n    timeout-minutes: []",
        f"runs-on: ${{{{ {'fromJSON(' * 2000} }}}}",
        f"runs-on: ${{{{ fromJSON('{'[' * 9000}{']' * 9000}') }}}}",
        "runs-on: gpu-t4\n    timeout-minutes: ${{ fromJSON('NaN') }}",
        f"runs-on: gpu-t4\n    timeout-minutes: ${{{{ fromJSON('{'9' * 400}') }}}}",
    ],
)
def test_a_job_that_github_refuses_has_an_answer(tmp_path, line):
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True, exist_ok=True)
    assert len(alone(folder, job(line))) == 1


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "b.yml").write_text("on: workflow_call\njobs: {a: {runs-on: gpu-t4}}\n")
    (tmp_path / "b.yml").symlink_to(tmp_path / "real" / "b.yml")
    (answer,) = alone(tmp_path, job("uses: ./.github/workflows/b.yml"))
    assert answer.state == "undeterminable"


def test_an_action_outside_of_the_repository_is_not_read(tmp_path):
    (tmp_path / "action.yml").write_text("runs: {using: docker, image: Dockerfile}\n")
    folder = tmp_path / "repository" / ".github" / "workflows"
    folder.mkdir(parents=True)
    (answer,) = alone(folder, job("runs-on: gpu-t4", "steps: [{uses: ./../}]"))
    assert answer.remarks == ()
    (tmp_path / "repository" / "action.yml").write_text("runs: {using: docker, image: Dockerfile}\n")
    (answer,) = alone(folder, job("runs-on: gpu-t4", "steps: [{uses: ./}]"))
    assert len(answer.remarks) == 1


def test_an_action_that_writes_a_manifest_is_none(tmp_path):
    for name, text in {
        "workflows/ci.yml": job("runs-on: gpu-t4"),
        "actions/kind/action.yml": """\
runs:
  using: composite
  steps:
  - run: |
      kubectl apply -f - <<X
      apiVersion: v1
      X
""",
        "dependabot.yml": "# apiVersion and jobs\nversion: 2\n",
    }.items():
        path = tmp_path / ".github" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert [answer.state for answer in check(tmp_path / ".github").answers] == ["runs"]


def test_a_folder_with_manifests_stays_a_check_of_manifests(tmp_path):
    (tmp_path / "ci.yml").write_text(job("runs-on: gpu-t5", "steps: [{run: 'apiVersion: v1'}]"))
    assert check(tmp_path).passes() is False
    (tmp_path / "web.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert check_workflows(str(tmp_path), "prod", ROOT) is None
    result = CliRunner().invoke(app, ["check", "prod", str(tmp_path), "--json"])
    assert (result.exit_code, len(json.loads(result.stdout)["objects"])) == (0, 1)


def test_the_command_prints_a_line_for_each_job_and_its_status(tmp_path):
    path = tmp_path / "ci.yml"
    path.write_text(
        job("runs-on: gpu-t5") + "  other: {runs-on: '${{ vars.A }}'}\n  good: {runs-on: gpu-t4, timeout-minutes: 900}\n"
    )
    failed = CliRunner().invoke(app, ["check", "prod", str(path), "--annotations"])
    assert failed.exit_code == 1
    assert failed.stdout.splitlines()[-1] == "FAILED: 3 jobs on stack prod · 1 runs · 0 not ours · 1 no runner · 1 undeterminable"
    assert f"::error file={path},line=4,title=job test%3A no runner::no set of the stack serves gpu-t5" in failed.stderr
    assert f"::warning file={path},line=6,title=job good::timeout-minutes is 900" in failed.stderr
    quiet = CliRunner().invoke(app, ["check", "prod", str(path), "--quiet"])
    assert [line.split(": ")[0] for line in quiet.stdout.splitlines()] == [f"{path}:4", "FAILED"]
    entries = json.loads(CliRunner().invoke(app, ["check", "prod", str(path), "--json"]).stdout)["jobs"]
    assert [(entry["name"], entry["state"], entry["sets"]) for entry in entries] == [
        ("test", "no runner", []),
        ("other", "undeterminable", []),
        ("good", "runs", ["use1/gpu-t4"]),
    ]


def test_only_a_strict_check_fails_for_a_job_that_only_github_knows():
    path = str(SHAPES / "dispatch.yml")
    usual, strict = (CliRunner().invoke(app, ["check", "prod", path, "--quiet", *more]) for more in ((), ("--strict",)))
    assert (usual.exit_code, strict.exit_code) == (0, 1)
    assert [len(result.stdout.splitlines()) for result in (usual, strict)] == [1, 2]
    assert f"{path}:8: job bench: undeterminable: " in strict.stdout


EXAMPLE = """\
on: push
jobs:
  lint:

    runs-on: ubuntu-latest
    steps: [{run: make lint}]
  test:

    runs-on: gpu-t4
    timeout-minutes: 60
    steps: [{run: make test}]
  train:

    runs-on: gpu-t5
    steps: [{run: make train}]
  image:

    runs-on: gpu-t4
    steps:
      - run: docker build .
  eval:
    runs-on: gpu-a10g
    container: a:1
    steps: [{run: make eval}]
  bench:
    runs-on: ${{ inputs.runner }}
"""


def test_the_page_shows_what_the_command_prints(tmp_path, monkeypatch):
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yml").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["check", "prod", ".github/workflows"]).stdout
    assert f"$ gpu-ci check prod .github/workflows\n{shown}```" in (ROOT / "docs" / "workflows.md").read_text()


def commands(text: str) -> list[str]:
    """The lines that GitHub's runner would take for a command."""
    return [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line]


def test_no_name_of_a_pull_request_is_a_command_for_the_runner(tmp_path, monkeypatch):
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (folder / "::error title=x::pwned.yml").write_text(job('runs-on: "gpu-x\\n::error::forged"'))
    (folder / "a##[error].yml").write_text(job('runs-on: "##[group]x"').replace("test:", "'##[error]a':"))
    for arguments in (("check", "prod", "."), ("check", "prod", "::error title=x::pwned.yml"), ("audit", "../..")):
        result = CliRunner().invoke(app, arguments)
        assert "pwned.yml" in result.stdout
        assert commands(result.output) == [], arguments
    (folder / "a##[error].yml").write_text("on: push\njobs: []\n")
    result = CliRunner().invoke(app, ["check", "prod", "."])
    assert (result.exit_code, commands(result.stderr)) == (2, [])


def test_an_audit_follows_the_same_calls(tmp_path):
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for name in ("calls.yml", "reusable.yml"):
        (folder / name).write_text((SHAPES / name).read_text())
    assert {entry.name for entry in audit(tmp_path).jobs if "gpu-a10" in entry.runs_on.labels} == {"wrong / test"}


def test_workflows_of_one_of_several_organizations_reach_its_own_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ROOT / "examples" / "Pulumi.two-organizations.yaml"
    fleet = read_fleet("two-organizations", file, root=ROOT)
    monkeypatch.setattr(workflows, "read_fleet", lambda *_, **__: fleet)
    path = tmp_path / "job.yml"
    path.write_text("on: push\njobs:\n  one:\n    runs-on: gpu-t4\n    timeout-minutes: 9\n    steps: [{run: nvidia-smi}]\n")

    def states(repository: str) -> list[tuple[str, tuple[str, ...]]]:
        checked = check_workflows(str(path), "two-organizations", ROOT, repository)
        assert checked is not None
        return [(answer.state, answer.sets) for answer in checked.answers]

    assert states("example/app") == [("runs", ("usw2/gpu-t4",))]
    assert states("example-research/app") == [("no runner", ())], "the set of that name is of the other organization"
    with pytest.raises(InputError, match="--workflows-of: the stack serves https"):
        states("")
    with pytest.raises(InputError, match="--workflows-of: no runner set takes jobs of 'acme/app'"):
        states("acme/app")
