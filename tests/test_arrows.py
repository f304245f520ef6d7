"""Imports follow the arrows: fleet ← components ← package; fleet ← deployments, submit, rules; fleet, rules ← offline.

`offline` also uses the Kubernetes client of `submit`, in one module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.builders import ROOT
from tests.cases import cases
from tests.sources import parsed

OURS = ("fleet", "gpu_ci", "components", "package", "policies", "deployments", "bootstrap", "images", "tests", "rules")
IMPORTERS = ("__import__", "import_module", "run_module")
PROGRAMS = ("__main__", "gpu_ci.cli", "gpu_ci.offline.record", "policies.__main__")


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes right below one. `ast.iter_child_nodes` is half as fast."""
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            yield from (item for item in value if isinstance(item, ast.AST))
        elif isinstance(value, ast.AST):
            yield value


def walked(tree: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        nodes += children(node)
        yield node


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right below one. Where no function imports, nothing else does."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        yield from getattr(node, field, ())


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name; "" of another expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def imports(tree: ast.Module, package: str, lazy: bool = True, calls: bool = True) -> Iterator[str]:
    """Full names that a module of `package` imports, each `from` name as a module of its own, because it may be one.

    Names given to import functions count too. Without `lazy` only what loading the module imports: no function bodies,
    nothing for type checkers alone. Without `calls` no call imports.
    """
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if not lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if not lazy and isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += children(node) if calls else statements(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and last_name(node.func) in IMPORTERS:
            yield from (text.value for text in node.args[:1] if isinstance(text, ast.Constant) and isinstance(text.value, str))


@cache
def modules() -> dict[str, Path]:
    """Our modules by name: `fleet.providers.fleet`, `fleet` for its __init__."""
    folders = [ROOT / name for name in OURS if (ROOT / name).is_dir()]
    paths = [*(path for folder in folders for path in sorted(folder.rglob("*.py"))), *ROOT.glob("*.py")]
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in paths}
    return {".".join(part[:-1] if part[-1] == "__init__" else part): path for path, part in parts.items()}


def module_of(name: str) -> str:
    """The module of an imported name: `fleet.providers.fleet.Fleet` is in `fleet.providers.fleet`."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def imported(module: str, lazy: bool = True) -> frozenset[str]:
    """What one of our modules imports: our modules by name, others as spelled."""
    return _imported(module, lazy)


@cache
def _imported(module: str, lazy: bool) -> frozenset[str]:
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    text = path.read_text()
    calls = any(name in text for name in IMPORTERS)
    return _named(module, text, imports(parsed(path), package, lazy, calls))


def _named(module: str, text: str, spelled: Iterator[str]) -> frozenset[str]:
    names = [*spelled]
    for of in re.findall(r"iter_modules\((?:(\w+)\.)?__path__", text):
        # Imports whatever is in its own folder, or in that of a package.
        homes = [name for name in names if name.rpartition(".")[2] == of] if of else [module]
        names += [name for name in modules() for home in homes if name.startswith(f"{home}.")]
    # The pack runs with its own folder first on the path.
    homely = (f"policies.{name}" if name.split(".")[0] == "rules" else name for name in names)
    return frozenset(module_of(name) if name.split(".")[0] in OURS else name for name in homely)


def below(folder: str) -> list[str]:
    """Our modules in a package."""
    found = [name for name in modules() if name == folder or name.startswith(f"{folder}.")]
    assert found, f"there is no package {folder}"
    return found


def astray(folder: str, *allowed: str) -> list[str]:
    """Imports of our own in a package that are neither in it nor in `allowed` packages and modules."""
    homes = (folder, *allowed)
    return [
        f"{module} imports {name or '?'}"
        for module in below(folder)
        for name in sorted(imported(module))
        if name.split(".")[0] in ("", *OURS) and not any(name == home or name.startswith(f"{home}.") for home in homes)
    ]


def of_sdk(name: str) -> bool:
    """Whether a name is Pulumi's or a provider's."""
    top, *_ = name.split(".")
    return top == "pulumi" or top.startswith("pulumi_")


def test_fleet_imports_nothing_else_of_ours_and_nothing_of_pulumi():
    assert astray("fleet") == []
    assert [f"{module} imports {name}" for module in below("fleet") for name in imported(module) if of_sdk(name)] == []


def test_components_import_fleet_alone():
    assert astray("components", "fleet") == []


def test_images_import_fleet_alone():
    assert astray("images", "fleet") == []


def test_the_package_imports_components_alone():
    assert astray("package", "components") == []


def test_what_programs_of_other_people_import_imports_components_alone():
    assert astray("gpu_ci.components", "components") == []


def test_deployments_import_fleet_alone():
    assert astray("deployments", "fleet") == []


def test_doctor_imports_fleet_alone_and_nothing_of_pulumi():
    assert astray("gpu_ci.doctor", "fleet") == []
    assert [f"{module} imports {name}" for module in below("gpu_ci.doctor") for name in imported(module) if of_sdk(name)] == []


def test_bootstrap_imports_fleet_alone():
    assert astray("bootstrap", "fleet") == []


def test_acceptance_imports_fleet_and_the_shared_options_of_offline():
    """It runs every other program as a command."""
    assert astray("gpu_ci.acceptance", "fleet", "gpu_ci.app") == []
    assert [
        f"{module} imports {name}" for module in below("gpu_ci.acceptance") for name in imported(module) if of_sdk(name)
    ] == []


def test_a_world_imports_fleet_the_sources_of_downloads_and_the_plan_of_offline():
    assert astray("gpu_ci.world", "fleet", "gpu_ci.app", "gpu_ci.doctor.sources", "gpu_ci.offline") == []
    assert [f"{module} imports {name}" for module in below("gpu_ci.world") for name in imported(module) if of_sdk(name)] == []


def test_pending_imports_fleet_the_cli_of_doctor_and_the_client_and_nothing_of_pulumi():
    allowed = ("gpu_ci.app", "gpu_ci.doctor.backend", "gpu_ci.offline.jsontext", *CLIENT)
    assert astray("gpu_ci.pending", "fleet", *allowed) == []
    assert [f"{module} imports {name}" for module in below("gpu_ci.pending") for name in imported(module) if of_sdk(name)] == []


def test_audit_imports_fleet_and_the_walk_of_folders_and_nothing_of_pulumi():
    allowed = [f"gpu_ci.offline.{name}" for name in ("folders", "gfm", "grow.draft", "jsontext", "layout", "notes")]
    assert astray("gpu_ci.audit", "fleet", "gpu_ci.workflows", *allowed) == []
    assert [f"{module} imports {name}" for module in below("gpu_ci.audit") for name in imported(module) if of_sdk(name)] == []
    assert {name for name in imported("gpu_ci.offline.folders") if name.split(".")[0] in OURS} == {"fleet.facts.errors"}


def test_workflows_import_fleet_alone_and_nothing_of_pulumi():
    assert astray("gpu_ci.workflows", "fleet") == []
    assert [f"{module} imports {name}" for module in below("gpu_ci.workflows") for name in imported(module) if of_sdk(name)] == []


def test_submit_imports_fleet_alone_and_nothing_of_pulumi():
    assert astray("gpu_ci.submit", "fleet", "gpu_ci.app") == []
    assert [f"{module} imports {name}" for module in below("gpu_ci.submit") for name in imported(module) if of_sdk(name)] == []


def test_rules_import_the_facts_alone():
    assert astray("policies.rules", "fleet.facts") == []


# -- floors --------------------------------------------------------------------------------------------------------------

FLOORS = ("facts", "settings", "charts", "providers", "prove", "jobs", "render", "loading")
"""The packages of `fleet`, from the bottom to the top. docs/conventions.md says what each has."""


def test_every_package_of_fleet_is_a_floor():
    assert {name.split(".")[1] for name in below("fleet") if "." in name} == set(FLOORS)


@cases(("height", "floor"), list(enumerate(FLOORS)))
def test_a_floor_imports_itself_and_the_floors_below(height, floor):
    assert astray(f"fleet.{floor}", *(f"fleet.{each}" for each in FLOORS[:height])) == []


# -- the wall around each cloud ------------------------------------------------------------------------------------------

CLOUDS = ("eks", "oke", "talos", "kubernetes")
"""The providers, each with a folder in `fleet/providers/`."""
BEHIND = (
    *(f"fleet.providers.{cloud}" for cloud in CLOUDS),
    *("components.eks", "components.oci", "components.talos", "gpu_ci.components.eks", "gpu_ci.components.oci"),
)
"""What only the clouds' own code imports."""
OPENINGS = {
    "fleet.providers.registry": "has one instance of each",
    "components.build": "has the builders of clusters: fleet knows no Pulumi, and a stack imports only its own clouds' SDKs",
    "components.git": "has the builder of clusters that Pulumi does not deploy",
    "components.kubernetes.stack": "is the builder of provider kubernetes, in the folder that all clusters share",
    "gpu_ci.offline.freshen.tasks": "renews rows of the clouds' tables in fleet/facts/data",
    "gpu_ci.audit.homes": "proves the groups of other people's clouds, which none of our providers has",
    "bootstrap.declare": "makes the roles of an AWS account; those of another cloud would be another program",
    "bootstrap.rights": "computes what those roles may do",
}
"""The modules outside that name a cloud, and why."""
OUTSIDE = ("fleet", "gpu_ci", "components", "package", "deployments", "bootstrap", "images")


@cache
def behind_classes() -> frozenset[str]:
    """Names of all classes that are defined in the folder of a cloud."""
    trees = (parsed(modules()[module]) for folder in BEHIND for module in below(folder))
    return frozenset(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def asks(tree: ast.Module) -> Iterator[str]:
    """Each place where code asks which cloud something is of: comparisons, cases and keys with a provider's name, isinstance."""
    for node in walked(tree):
        texts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            texts = [
                part for side in sides for part in (side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side])
            ]
        elif isinstance(node, ast.Dict):
            texts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            texts = [node.value]
        elif isinstance(node, ast.Call) and last_name(node.func) == "clusters_of":
            texts = [*node.args]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            named = (part for part in ast.walk(node.args[1]) if isinstance(part, ast.Name | ast.Attribute))
            names = {part.id if isinstance(part, ast.Name) else part.attr for part in named}
            yield from (f"line {node.lineno} asks for {name}" for name in sorted(names & behind_classes()))
        constants = [text for text in texts if isinstance(text, ast.Constant) and text.value in CLOUDS]
        yield from (f"line {text.lineno} asks for {text.value!s}" for text in constants)


def leaks(module: str) -> list[str]:
    """Where a module imports a cloud, or asks which one something is of."""
    walled = (name for name in sorted(imported(module)) if any(name == each or name.startswith(f"{each}.") for each in BEHIND))
    path = modules()[module]
    asked = asks(parsed(path)) if names_a_cloud().search(path.read_text()) else ()
    return [*(f"imports {name}" for name in walled), *asked]


@cache
def names_a_cloud() -> re.Pattern[str]:
    """What a text must have in which `asks` finds something: most have none, and parsing takes long."""
    return re.compile(rf"""["'](?:{"|".join(CLOUDS)})["']|\b(?:{"|".join(behind_classes())})\b""")


def outside() -> Iterator[str]:
    """Every module that ships, but for those of the clouds."""
    for folder in OUTSIDE:
        yield from (
            module for module in below(folder) if not any(module == each or module.startswith(f"{each}.") for each in BEHIND)
        )


def test_the_wall_goes_around_every_provider():
    folders = {path.parent.name for path in (ROOT / "fleet" / "providers").glob("*/provider.py")}
    assert folders == set(CLOUDS)


def test_nothing_outside_imports_a_cloud_or_asks_which_one_it_is():
    found = {module: leaks(module) for module in outside() if module not in OPENINGS}
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_every_opening_in_the_wall_is_needed():
    assert [module for module in OPENINGS if not leaks(module)] == []


@cases(
    ("text", "found"),
    [
        ("cluster.provider == 'talos'", ["line 1 asks for talos"]),
        ("cluster.provider not in ('eks', 'oke')", ["line 1 asks for eks", "line 1 asks for oke"]),
        ("fleet.clusters_of('eks')", ["line 1 asks for eks"]),
        ("builders = {'oke': 1}[cluster.provider]", ["line 1 asks for oke"]),
        ("match x:\n    case 'eks': pass", ["line 2 asks for eks"]),
        ("isinstance(pool, eks.EksPool | Pool)", ["line 1 asks for EksPool"]),
        ("isinstance(pool, Pool) and name == 'eks-a'", []),
        ("fleet.clusters_of(cluster.provider)", []),
    ],
)
def test_every_way_to_ask_is_seen(text, found):
    assert names_a_cloud().search(text) or not found
    assert sorted(asks(ast.parse(text))) == found


def test_no_import_of_the_repository_is_part_of_a_cycle():
    """Imports inside functions and for type checkers count too. Only what another file may import can be part of one."""
    graph: dict[str, frozenset[str]] = {}
    todo = importable()
    while todo:
        graph |= {module: imported(module) - {module} for module in todo}
        todo = {name for names in graph.values() for name in names if name in modules()} - graph.keys()
    assert cycle(graph) == []


def importable() -> set[str]:
    """Our modules but for tests whose name no file has. A test that imports what a folder has is among them."""
    texts = {module: path.read_text() for module, path in modules().items()}
    spelled = {name for text in texts.values() for name in re.findall(r"test_\w+", text)}
    return {
        module
        for module, text in texts.items()
        if not (last := module.rpartition(".")[2]).startswith("test_") or last in spelled or "iter_modules" in text
    }


def cycle(graph: Mapping[str, Collection[str]]) -> list[str]:
    """The modules of one cycle, or none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_cycle_is_found():
    assert cycle({"a": ["b"], "b": ["c"], "c": ["a"]}) in (["a", "c", "b", "a"], ["b", "a", "c", "b"], ["c", "b", "a", "c"])
    assert cycle({"a": ["b", "c"], "b": ["c"]}) == []


def test_one_module_uses_a_yaml_library():
    folders = ("fleet", "gpu_ci", "components", "package", "policies", "deployments", "bootstrap", "images")
    users = {
        module
        for folder in folders
        for module in below(folder)
        for name in imported(module)
        if name.split(".")[0] in ("yaml", "ruamel", "ruyaml", "strictyaml")
    }
    assert users == {"fleet.facts.yaml_text"}


CLIENT = ("gpu_ci.submit.kubeconfig", "gpu_ci.submit.cluster", "gpu_ci.submit.objects", "gpu_ci.submit.errors")
"""What reads a cluster. `init --from-context` uses it too."""


def test_offline_runs_the_program_and_imports_no_component():
    allowed = (
        "fleet",
        "gpu_ci.app",
        "gpu_ci.errors",
        "gpu_ci.audit",
        "gpu_ci.doctor",
        "gpu_ci.workflows",
        "policies.rules",
        *CLIENT,
    )
    assert astray("gpu_ci.offline", *allowed) == []


def test_only_init_reads_a_cluster_from_offline():
    users = {module for module in below("gpu_ci.offline") if imported(module) & set(CLIENT)}
    assert users == {"gpu_ci.offline.init.cluster"}


def test_nothing_that_ships_imports_tests():
    for folder in ("fleet", "gpu_ci", "components", "package", "policies", "deployments", "bootstrap", "images"):
        found = {name.split(".")[0] for module in below(folder) for name in imported(module)}
        assert "tests" not in found, folder


def loaded(*programs: str) -> set[str]:
    """Every module, ours by name and others as spelled, that these programs import before any function of them runs."""
    found: set[str] = set()
    waiting = list(programs)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            if module in modules():
                waiting += [*imported(module, lazy=False), *([module.rpartition(".")[0]] if "." in module else [])]
    return found


def test_no_program_loads_the_sdk_of_a_cloud_that_it_may_not_use():
    names = loaded(*PROGRAMS)
    assert {"components.build", "fleet.providers.fleet", "gpu_ci.offline.record", "policies.rules.pools", "pulumi"} <= names, (
        "the walk must reach what it is to judge"
    )
    assert [name for name in names if name.split(".")[0] == "pulumi_oci"] == []


def test_no_program_loads_the_sdks_of_doctor_before_a_check_runs():
    names = loaded(*PROGRAMS)
    assert "fleet.providers.eks.doctor" in names, "the walk must reach what it is to judge"
    assert [name for name in names if name.split(".")[0] in ("boto3", "botocore", "oci", "jwt")] == []
    assert "boto3" in imported("fleet.providers.eks.doctor")


def test_no_program_but_submit_loads_its_client():
    names = loaded(*PROGRAMS, "gpu_ci.submit.cli")
    assert "gpu_ci.submit.follower" in names, "the walk must reach what it is to judge"
    assert [name for name in names if name.split(".")[0] == "kubernetes"] == [], "submit itself loads it when it connects"
    assert "kubernetes.client.ApiClient" in imported("gpu_ci.submit.kubeconfig")


# -- the reader itself ---------------------------------------------------------------------------------------------------


@cases(
    ("text", "found"),
    [
        ("import gpu_ci.offline.plan as p, os", {"gpu_ci.offline.plan", "os"}),
        ("from fleet.facts import versions, limits as m", {"fleet.facts.versions", "fleet.facts.limits"}),
        ("from . import read", {"a.b.read"}),
        ("from .read import x", {"a.b.read.x"}),
        ("from ..c import x", {"a.c.x"}),
        ("from .. import c", {"a.c"}),
        ("def f():\n    import pulumi_oci", {"pulumi_oci"}),
        ("try:\n    import one\nexcept ImportError:\n    import two", {"one", "two"}),
        ("if TYPE_CHECKING:\n    import typed", {"typed"}),
        ("match x:\n    case 1:\n        with y:\n            import early", {"early"}),
        ("x = importlib.import_module('components.build')", {"components.build"}),
        ("'import text'  # import remark", set()),
    ],
)
def test_every_way_to_import_is_seen(text, found):
    assert set(imports(ast.parse(text), "a.b")) == found
    if not any(name in text for name in IMPORTERS):
        assert set(imports(ast.parse(text), "a.b", calls=False)) == found


@cases(
    ("text", "found"),
    [
        ("def f():\n    import late", set()),
        ("async def f():\n    import late", set()),
        ("class A:\n    import early\n    def f(self):\n        import late", {"early"}),
        ("if typing.TYPE_CHECKING:\n    import typed\nelse:\n    import early", {"early"}),
        ("try:\n    import early\nfinally:\n    pass", {"early"}),
    ],
)
def test_loading_a_module_runs_no_function_of_it(text, found):
    for calls in (True, False):
        assert set(imports(ast.parse(text), "a.b", lazy=False, calls=calls)) == found


@cases(
    ("folder", "allowed", "wrong"),
    [
        ("fleet", (), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("components", ("fleet",), ["gpu_ci.offline.plan", "policies.rules"]),
        ("package", ("components",), ["fleet.providers.fleet", "gpu_ci.offline.plan", "policies.rules"]),
        ("gpu_ci.components", ("components",), ["fleet.providers.fleet", "gpu_ci.offline.plan", "policies.rules"]),
        ("deployments", ("fleet",), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("gpu_ci.submit", ("fleet",), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("policies.rules", ("fleet.facts",), ["components.build", "fleet.providers.fleet", "gpu_ci.offline.plan"]),
        ("gpu_ci.acceptance", ("fleet",), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("gpu_ci.world", ("fleet", "gpu_ci.offline"), ["components.build", "policies.rules"]),
        ("gpu_ci.audit", ("fleet", "gpu_ci.workflows"), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("gpu_ci.workflows", ("fleet",), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("gpu_ci.doctor", ("fleet",), ["components.build", "gpu_ci.offline.plan", "policies.rules"]),
        ("gpu_ci.offline", ("fleet", "gpu_ci.doctor", "gpu_ci.workflows", "policies.rules"), ["components.build"]),
    ],
)
def test_an_import_against_the_arrows_is_found(monkeypatch, tmp_path, folder, allowed, wrong):
    path = tmp_path / "wrong.py"
    path.write_text(
        "from fleet.providers import fleet\nfrom gpu_ci.offline.plan import Plan\nimport policies.rules, components.build\n"
    )
    monkeypatch.setitem(modules(), f"{folder}.wrong", path)
    found = [line for line in astray(folder, *allowed) if line.startswith(f"{folder}.wrong ")]
    assert found == [f"{folder}.wrong imports {name}" for name in wrong]
