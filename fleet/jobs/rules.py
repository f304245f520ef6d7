"""Checks the arguments of a job: each by itself, then rules over several.

The result is checked arguments, or one error with every problem. A rule names the arguments that it reads, and is skipped if one
of them is wrong.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.facts import hardware
from fleet.facts.credentials import holds_credential
from fleet.facts.errors import instead, shown
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.scheduling import VISIBLE_DEVICES
from fleet.jobs.arguments import AskArguments, JobArguments
from fleet.jobs.ask import MEMORY_A_GPU, cpu_of, is_shared, memory_of, settled
from fleet.jobs.errors import JobError, JobProblem, refused
from fleet.jobs.profiles import PROFILES
from fleet.prove.placement import Host, fit, shortage
from fleet.settings.reading import hint

VISIBLE = "CUDA_VISIBLE_DEVICES"


Rule = tuple[frozenset[str], Callable[[Any], Iterator[JobProblem]]]
"""The arguments that a rule reads, and the rule."""


def _memory(arguments: AskArguments) -> Iterator[JobProblem]:
    memory, least = memory_of(arguments), MEMORY_A_GPU * arguments.gpu_count
    limit, request = memory_text(memory.limit), memory_text(memory.request)
    want = f"{memory_text(least)}, {memory_text(MEMORY_A_GPU)} for each GPU"
    job = f"a job of {arguments.gpu_count} GPU{'' if arguments.gpu_count == 1 else 's'}"
    if memory.limit < least:
        yield refused("least_memory", "memory", limit, job=job, want=want)
    elif memory.request < least:
        yield refused("least_memory__request", "memory_request", request, job=job, want=want)
    if memory.request > memory.limit:
        yield refused("limit__memory", "memory_request", request, limit=limit)


def _cpu(arguments: AskArguments) -> Iterator[JobProblem]:
    cpu = cpu_of(arguments)
    if cpu.request > cpu.limit:
        yield refused("limit__cpu", "cpu_request", cpu_text(cpu.request), limit=cpu_text(cpu.limit))


def _shm(arguments: AskArguments) -> Iterator[JobProblem]:
    limit = memory_of(arguments).limit
    if arguments.shm is not None and arguments.shm >= limit:
        yield refused("shm__job", "shm", memory_text(arguments.shm), limit=memory_text(limit))


def _prefer(arguments: AskArguments) -> Iterator[JobProblem]:
    if arguments.prefer and arguments.gpu_type not in arguments.prefer:
        yield refused("prefer", "prefer", arguments.prefer, gpu_type=arguments.gpu_type)


def _instance_types(arguments: AskArguments) -> Iterator[JobProblem]:
    for name in dict.fromkeys(arguments.instance_type):
        if message := _unfit_machine(arguments, name):
            yield JobProblem("instance_type", "instance_type", message, shown(name))


def _unfit_machine(arguments: AskArguments, name: str) -> str:
    """Why no pool of this machine can hold the job; empty if one may."""
    try:
        machine = hardware.machine(name)
    except hardware.UnknownMachine as error:
        return str(error)
    kinds = [PROFILES[kind].gpu for kind in (arguments.prefer or (arguments.gpu_type,))]
    if (has := machine.gpu.name if machine.gpu else "no GPU") not in kinds:
        return f"has {has}, the job asks for {' or '.join(kinds)}; name another machine, or another gpu_type"
    if machine.gpus < arguments.gpu_count and not is_shared(arguments):
        return f"has {machine.gpus} of them, the job asks for {arguments.gpu_count}; name a larger machine, or lower gpu_count"
    if is_shared(arguments):
        return ""
    # This host has no DaemonSets and enough disk, because only a pool has known values of both.
    ask = settled(arguments)
    alone = Host(name, (machine,), 1, hardware.ON_DEMAND, 2 * ask.scratch + 64 * 1024, ())
    fitting = fit(ask, machine, alone)
    return "" if fitting.count else f"{shortage(ask, fitting, alone)}; ask for less, or name a larger machine"


def _devices(arguments: JobArguments) -> Iterator[JobProblem]:
    """A container numbers its own GPUs, from 0 on."""
    if (in_env := arguments.env.get(VISIBLE)) is not None and arguments.visible_devices is not None:
        yield refused("visible_devices__twice", "visible_devices", variable=VISIBLE)
    if (devices := arguments.visible_devices if in_env is None else in_env) in (None, False):
        return
    field = "visible_devices" if in_env is None else f"env.{VISIBLE}"
    if is_shared(arguments):
        yield refused("visible_devices__share", field)
    elif devices is not True and (message := _wrong_numbers(str(devices), arguments.gpu_count)):
        yield JobProblem(field, "visible_devices", message, shown(devices))


def _wrong_numbers(text: str, count: int) -> str:
    """Why a value of CUDA_VISIBLE_DEVICES is wrong in a container of `count` GPUs; empty if it is right."""
    if not re.fullmatch(r"[0-9]{1,3}(,[0-9]{1,3})*", text):
        return "must be GPU numbers in the container, from 0; write 0,1"
    numbers = [int(number) for number in text.split(",")]
    if len(set(numbers)) < len(numbers):
        return "a GPU is named twice, and CUDA ignores all GPUs from there on; name each GPU once"
    if max(numbers) >= count:
        last = "0" if count == 1 else f"0 to {count - 1}"
        return f"the container numbers its own GPUs, here {last}; name these, or raise gpu_count"
    return ""


_SECRET_WORDS = frozenset(("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "CREDENTIALS", "APIKEY"))
_SECRET_ENDS = ("API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "SECRET_KEY", "AUTH_KEY")
# Does not match the special words of a vocabulary (PAD_TOKEN=<pad>).
_LIKE_A_TOKEN = re.compile(r"[A-Za-z0-9+/=_.:~-]{12,}")
_READ = "looks like a secret, and everyone who can read the Job could read it"
IN_PYTHON = 'write secret_env={"NAME": ("secret", "key")}'
"""How to give a job a secret in Python."""


def _secrets(arguments: JobArguments) -> Iterator[JobProblem]:
    """Everyone who can read the Job can read its variables, and `kubectl describe` prints them."""
    for name, value in arguments.env.items():
        if _secret(name.upper(), value):
            yield JobProblem(f"env.{name}", "secret", f"{_READ}; {IN_PYTHON}")


def _secret_words(field: str, arguments: JobArguments) -> Iterator[JobProblem]:
    """A command is visible in the Job and in the node's process list."""
    for index, word in enumerate(getattr(arguments, field)):
        if holds_credential(word):
            yield JobProblem(f"{field}.{index}", "secret", f"{_READ}; {IN_PYTHON}, and have the program read that variable")


def _secret(name: str, value: str) -> bool:
    last = name.rpartition("_")[2]
    by_name = value and (last in _SECRET_WORDS or name.endswith(_SECRET_ENDS))
    return holds_credential(value) or bool(by_name) or (last == "TOKEN" and _LIKE_A_TOKEN.fullmatch(value) is not None)


def _variables(arguments: JobArguments) -> Iterator[JobProblem]:
    for name in arguments.secret_env.keys() & arguments.env.keys():
        yield refused("variable_twice__job", f"secret_env.{name}")
    if VISIBLE in arguments.secret_env:
        yield refused("visible_devices__secret", f"secret_env.{VISIBLE}")
    for field, names in (("env", arguments.env), ("secret_env", arguments.secret_env)):
        if VISIBLE_DEVICES in names:
            yield refused("injected", f"{field}.{VISIBLE_DEVICES}")


def _mounts(arguments: JobArguments) -> Iterator[JobProblem]:
    usual = type(arguments).model_fields
    for field in ("workspace_path", "cache_path", "cache_read_only"):
        claim = field.partition("_")[0]
        if getattr(arguments, claim) is None and getattr(arguments, field) != usual[field].default:
            yield refused("volume", field, getattr(arguments, field), claim=claim)
    if arguments.workspace and arguments.cache:
        workspace, cache = f"{arguments.workspace_path}/", f"{arguments.cache_path}/"
        if workspace.startswith(cache) or cache.startswith(workspace):
            yield refused("mounts", "cache_path", arguments.cache_path)


_RULES: tuple[Rule, ...] = (
    (frozenset(("gpu_type", "gpu_count", "memory", "memory_request")), _memory),
    (frozenset(("gpu_type", "gpu_count", "cpu", "cpu_request")), _cpu),
    (frozenset(("gpu_type", "gpu_count", "memory", "shm")), _shm),
    (frozenset(("gpu_type", "prefer")), _prefer),
    (frozenset(AskArguments.model_fields) - {"shm", "spot"}, _instance_types),
    (frozenset(("gpu_count", "shared", "resource", "env", "visible_devices")), _devices),
    (frozenset(("env",)), _secrets),
    *((frozenset((field,)), partial(_secret_words, field)) for field in ("command", "args")),
    (frozenset(("env", "secret_env")), _variables),
    (frozenset(("workspace", "workspace_path", "cache", "cache_path", "cache_read_only")), _mounts),
)


_STAND_INS = {"task_id": "stand-in", "image": "stand-in:1"}
"""Values for required arguments that are wrong, so that the rules over the other arguments are still checked."""
_PRIVATE = frozenset(("env", "secret_env", "command", "args", "annotations"))
"""Arguments whose values are never in an error."""


def checked(values: Mapping[str, Any]) -> JobArguments:
    """The arguments of a job. Raises JobError with every problem."""
    problems: list[JobProblem] = []
    wrong: set[str] = set()
    try:
        read = JobArguments.model_validate(dict(values))
    except ValidationError as error:
        problems = [_problem(entry) for entry in error.errors()]
        wrong = {str(entry["loc"][0]) for entry in error.errors()}
        good = {name: value for name, value in values.items() if name not in wrong}
        read = JobArguments.model_validate(_STAND_INS | good)
    for reads, broken in _RULES:
        if not reads & wrong:
            problems += broken(read)
    if problems:
        order = {name: index for index, name in enumerate(JobArguments.model_fields)}
        raise JobError(tuple(sorted(problems, key=lambda problem: order.get(problem.field.partition(".")[0], len(order)))))
    return read


def _problem(error: ErrorDetails) -> JobProblem:
    # Pydantic adds "[key]" to the path of a wrong key.
    marked = error["loc"][-1] == "[key]"
    path = tuple(map(str, error["loc"][:-1] if marked else error["loc"]))
    field = ".".join(part if part.isprintable() else shown(part) for part in path)
    if error["type"] == "extra_forbidden":
        return JobProblem(field, "unknown", f"no such argument; {instead(path[0], JobArguments.model_fields, 'remove it')}")
    value = "" if path[0] in _PRIVATE or error["type"] == "missing" else shown(error["input"])
    return JobProblem(field, error["type"].removeprefix("gpu_ci_"), hint(error, JobArguments, path), value)
