"""The templates of jobs in containers are pods: where they are read, of which set they are, and which rules differ for steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules import RULES, Rule
from policies.rules.gpu_limits_required import RULE as LIMITS
from policies.rules.gpu_toleration_scope import RULE as SCOPE
from policies.rules.images_pinned import RULE as IMAGES
from policies.rules.kinds import CONFIG_MAP, CONFIG_MAP_LIST, POD
from policies.rules.pods import pod_specs
from policies.rules.read import Later, UndeterminableError
from policies.rules.runner_no_app_key import RULE as NO_KEY
from policies.rules.runner_no_privileged import RULE as PRIVILEGED
from policies.rules.runner_sets import Place, RunnerSet, runner_sets
from policies.rules.scale_to_zero import RULE as TO_ZERO
from tests.policies.cases import Member
from tests.policies.container_fixtures import HOOKED, JOB, JOBS, SPACE, STEP, hooked, hooks
from tests.policies.harness import CLEAN, as_read, changed, judge, stack_subject
from tests.policies.pool_fixtures import GPU, RELEASE
from tests.policies.suite import templates

TEMPLATES = templates(JOB, STEP)


def read(props: dict[str, Any], token: str = CONFIG_MAP) -> tuple[list[str], Later]:
    later = Later()
    return [pod.path for pod in pod_specs(token, as_read(props), later)], later


def test_a_template_is_a_pod_at_its_key() -> None:
    assert read(TEMPLATES)[0] == ['data["job.json"].spec', 'data["step.json"].spec']
    assert read({"items": [TEMPLATES, TEMPLATES]}, CONFIG_MAP_LIST)[0][-1] == 'items[1].data["step.json"].spec'
    assert read(changed(TEMPLATES, "metadata", "name", "launcher"))[0] == []
    assert read({"metadata": {"name": "container-jobs"}, "data": {"index.js": "{}"}})[0] == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"spec": {}}', '{"spec": []}', "spec:\n  containers: []\n"])
def test_what_is_no_template_hides_the_pods_of_jobs(text: str) -> None:
    paths, later = read(changed(TEMPLATES, "data", "job.json", text))
    assert paths == ['data["step.json"].spec']
    assert isinstance(later.first, UndeterminableError)
    assert later.first.message == 'data["job.json"] is not a pod template in JSON, so nothing shows the pods of jobs'


def test_every_rule_of_pods_judges_templates() -> None:
    blind = {rule.id for rule in RULES if isinstance(rule, Rule) and rule.types >= POD and CONFIG_MAP not in rule.types}
    assert not blind


def test_a_container_without_an_image_has_the_image_of_a_workflow() -> None:
    assert judge(IMAGES, CONFIG_MAP, TEMPLATES) == CLEAN
    warm = JOB | {"initContainers": [{"name": "warm", "image": "evil.example/warm"}]}
    (told,) = judge(IMAGES, CONFIG_MAP, templates(warm), {"registries": ["evil.example"]}).messages
    assert told.startswith('data["job.json"].spec.initContainers[0].image is "evil.example/warm": without a tag')


def test_a_step_runs_on_gpu_nodes_only_if_it_sees_no_gpu() -> None:
    for rule in (LIMITS, SCOPE):
        assert judge(rule, CONFIG_MAP, TEMPLATES) == CLEAN
        for env in ([], [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]):
            seeing = templates(JOB, changed(STEP, "containers", 0, "env", env))
            assert judge(rule, CONFIG_MAP, seeing).messages, "it would see every GPU of its node"
        beside = changed(STEP, "containers", 1, {"name": "$redis"})
        assert judge(rule, CONFIG_MAP, templates(JOB, beside)).messages
        assert judge(rule, CONFIG_MAP, templates(STEP)).messages, "a job's own pod takes its GPU"


def test_pods_of_jobs_are_exempt_by_namespace_and_name_of_their_config_map() -> None:
    privileged = changed(JOB, "containers", 0, "securityContext", {"privileged": True})
    props = templates(privileged, namespace=SPACE)
    (told,) = judge(PRIVILEGED, CONFIG_MAP, props).messages
    assert told.startswith('data["job.json"].spec.containers[0].securityContext.privileged is true')
    assert judge(PRIVILEGED, CONFIG_MAP, props, {"exempt": [f"{SPACE}/container-jobs"]}) == CLEAN


def test_runners_that_wait_keep_no_gpu_if_jobs_run_in_containers() -> None:
    assert judge(TO_ZERO, RELEASE, hooked(minRunners=2).props) == CLEAN
    own = changed(HOOKED, "containers", 0, "resources", {"limits": {GPU: 1}})
    assert judge(TO_ZERO, RELEASE, hooked(spec=own, minRunners=2).props).messages


# -- the set of a template ---------------------------------------------------------------------------------------------


def only_set(*members: Member) -> RunnerSet:
    (found,) = runner_sets(stack_subject(NO_KEY, members).resources, Later())
    return found


def test_a_job_runs_in_the_pod_that_the_hooks_of_its_set_create() -> None:
    later = Later()
    own = only_set(hooked(maxRunners=3), replace(hooks(STEP, namespace="runners-other"), name="other"), hooks())
    pod = own.job_pod(later)
    assert pod is not None
    assert (pod.path, pod.owner["maxRunners"], pod.owner_path) == ('data["job.json"].spec', 3.0, "values.")
    assert [inner.step for inner in own.job_pods(later)] == [False, True]
    assert own.job_place(later) == Place("usw2", JOBS)
    assert own.makes_pods(later)
    assert not later


def test_a_set_without_templates_runs_jobs_in_its_own_pod() -> None:
    later = Later()
    plain = only_set(hooked(spec=changed(HOOKED, "volumes", [])), hooks())
    pod = plain.job_pod(later)
    assert pod is not None
    assert pod.path == "values.template.spec"
    here = only_set(hooked(spec=changed(HOOKED, "containers", 0, "env", 1, "value", "")), hooks())
    assert here.job_place(later) == Place("usw2", SPACE)
    assert not later
