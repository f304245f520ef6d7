"""Programs in several languages use the component package by a generated SDK, on the real engine. The cluster is simulated."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from package.provider import LANGUAGES, NAME, VERSION
from package.reference import SCHEMA
from tests.engine.cli import ROOT, Cli, environment, link_environment
from tests.engine.provider import Provider, attach, providers
from tests.engine.served_package import served
from tests.package.wheel import unpacked

pytestmark = pytest.mark.engine

EXAMPLES = ROOT / "examples" / "components"
KUBECONFIG = "a-made-up-kubeconfig"
MODULE = str(LANGUAGES["python"]["packageName"])
BY_SDK = f"""
import pulumi
import pulumi_kubernetes as kubernetes
import {MODULE} as gpu_ci

cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
plugin = gpu_ci.DevicePluginStack(
    "gpu",
    access=[{{"sharing": {{"strategy": "time-slicing", "replicas": 4}}}}],
    opts=pulumi.ResourceOptions(providers=[cluster]),
)
pulumi.export("namespace", plugin.namespace_name)
pulumi.export("configNames", plugin.config_names)
"""
"""The program of examples/components/device_plugin_stack, with the generated SDK."""


@pytest.fixture(scope="module")
def package() -> Iterator[int]:
    with served() as port:
        yield port


@pytest.fixture
def kubernetes() -> Iterator[Provider]:
    with providers(["kubernetes"]) as serving:
        yield serving["kubernetes"]


@pytest.fixture
def cli(package: int, kubernetes: Provider, tmp_path: Path) -> Cli:
    attached = f"{attach({'kubernetes': kubernetes})},{NAME}:{package}"
    return Cli(tmp_path / "program", environment(tmp_path / "home", attached))


REQUIRED = os.environ.get("GPU_CI_TYPESCRIPT") == "1"
"""CI sets it: there the test of TypeScript must not be skipped."""
WRONG = """import * as gpuCi from "@gpu-ci/components";
new gpuCi.GpuOperator("typo", { instalDriver: true });
new gpuCi.GpuOperator("text", { installDriver: "yes" });
new gpuCi.GpuNodeGroup("missing", { clusterName: "c", instanceTypes: ["g6.2xlarge"], maxNodes: 1 });
"""
"""Each line has a wrong argument that TypeScript's compiler finds."""


def need(*tools: str, in_ci: bool = False) -> None:
    """Skips the test if a tool is missing; in CI it fails if it has to run there."""
    for tool in tools:
        if shutil.which(tool) is None:
            assert not (REQUIRED and in_ci), f"no {tool} on PATH"
            pytest.skip(f"no {tool} on PATH")


def run(*command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command with this process's environment and more."""
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=800
    )


def example(cli: Cli, name: str) -> None:
    """Copies a program of examples/components, with a stack of its own."""
    shutil.copytree(EXAMPLES / name, cli.folder)
    cli.ok("stack", "init", "dev")
    cli.ok("config", "set", "kubeconfig", "--secret", "--stack", "dev", given=KUBECONFIG)


def generate(cli: Cli, language: str) -> Path:
    """The generated SDK."""
    out = cli.folder / "sdks"
    cli.at(ROOT).ok("package", "gen-sdk", str(SCHEMA), "--language", language, "--local", "--out", str(out))
    return out / language


def deployed(cli: Cli, component: str, kubernetes: Provider) -> dict[str, Any]:
    """Previews and updates the stack. Returns its outputs, after checks of the state."""
    cli.ok("preview", "--stack", "dev")
    previewed = {each.urn for each in kubernetes.asked if each.method == "Create"}
    assert all(each.preview for each in kubernetes.asked if each.method == "Create")
    cli.ok("up", "--stack", "dev", "--yes", "--skip-preview")
    assert {each.urn for each in kubernetes.asked if each.method == "Create" and not each.preview} == previewed
    export = cli.ok("stack", "export", "--stack", "dev").out
    assert KUBECONFIG not in export
    resources = json.loads(export)["deployment"]["resources"]
    (own,) = [each for each in resources if each["type"] == f"{NAME}:index:{component}"]
    assert own["inputs"], "the state shows the arguments"
    below = [each for each in resources if f"{NAME}:index:{component}$" in each["urn"]]
    assert "kubernetes:helm.sh/v3:Release" in {each["type"] for each in below}
    assert {each["provider"].split("::")[-2] for each in below if each["custom"]} == {"cluster"}, "the program's provider"
    outputs: dict[str, Any] = json.loads(cli.ok("stack", "output", "--json", "--stack", "dev").out)
    return outputs


def test_a_python_program_deploys_a_component(cli, kubernetes, tmp_path):
    """From the wheel, in its own process, beside folders of its own that have names of our folders."""
    example(cli, "device_plugin_stack")
    link_environment(cli.folder)
    (unpacked(tmp_path / "wheel") / "gpu_ci").rename(cli.folder / "gpu_ci")
    for name in ("components", "fleet"):
        (cli.folder / f"{name}.py").write_text("raise AssertionError('a file of the program')\n")
    outputs = deployed(cli, "DevicePluginStack", kubernetes)
    assert outputs == {"namespace": "nvidia-device-plugin", "configNames": ["time-slicing-4"]}


def test_a_python_program_with_the_generated_sdk_deploys_a_component(cli, kubernetes):
    example(cli, "device_plugin_stack")
    (cli.folder / "__main__.py").write_text(BY_SDK)
    link_environment(cli.folder)
    sdk = generate(cli, "python")
    assert "'pulumi>=3.272,<4'" in (sdk / "setup.py").read_text(), "pip refuses an SDK that loses providers"
    (sdk / MODULE).rename(cli.folder / MODULE)
    information = cli.folder / f"{MODULE}-{VERSION}.dist-info"  # the SDK asks for its own version
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: {VERSION}\n")
    outputs = deployed(cli, "DevicePluginStack", kubernetes)
    assert outputs == {"namespace": "nvidia-device-plugin", "configNames": ["time-slicing-4"]}


def test_a_yaml_program_deploys_a_component(cli, kubernetes):
    need("pulumi-language-yaml")
    example(cli, "yaml")
    cli.ok("package", "add", str(SCHEMA))
    assert deployed(cli, "DevicePluginStack", kubernetes) == {"namespace": "nvidia-device-plugin"}


def test_a_typescript_program_deploys_a_component(cli, kubernetes):
    need("pulumi-language-nodejs", "node", "npm", in_ci=True)
    example(cli, "typescript")
    cache = run("npm", "config", "get", "cache", folder=cli.folder).stdout.strip()
    added = cli.having(npm_config_cache=cache, npm_config_offline="true")("package", "add", str(SCHEMA))
    if "ENOTCACHED" in added.text and not REQUIRED:
        pytest.skip("npm's cache does not have the packages: run `pulumi package add` once in a copy of its program")
    assert added.status == 0, added
    compile_only = ("node_modules/.bin/tsc", "--noEmit", "--skipLibCheck", "--module", "commonjs", "--target", "es2022")
    (cli.folder / "wrong.ts").write_text(WRONG)
    right, wrong = (run(*compile_only, name, folder=cli.folder) for name in ("index.ts", "wrong.ts"))
    assert right.returncode == 0, right.stdout
    assert re.findall(r"^wrong\.ts\((\d+),", wrong.stdout, re.MULTILINE) == ["2", "3", "4"], wrong.stdout
    outputs = deployed(cli, "GpuOperator", kubernetes)
    assert outputs == {"namespace": "gpu-operator", "configNames": ["time-slicing-4"]}


def test_the_go_sdk_compiles(cli):
    need("pulumi-language-go", "go")
    sdk = generate(cli, "go")
    built = run("go", "build", "./...", folder=sdk, GOFLAGS="-mod=mod", GOPROXY="off", GOSUMDB="off")
    if "GOPROXY=off" in built.stderr:
        pytest.skip("Go's module cache does not have the modules: run `go build ./...` once in the generated SDK")
    assert built.returncode == 0, built.stderr
