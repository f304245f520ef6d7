"""docs/pod-template.md: the class on the page gets the pod on the page."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from fleet.providers.eks.runners import EksPodRunner
from tests import yaml12
from tests.charts import runner_set
from tests.docs.markdown import fences


def test_the_class_of_the_page_is_rendered_as_the_page_shows() -> None:
    written, shown = (
        yaml12.read(f.text) for f in [f for f in fences() if f.page.name == "pod-template.md" and f.language == "yaml"][:2]
    )
    settings = written["runners"][shown["metadata"]["name"]]
    runner = TypeAdapter(EksPodRunner).validate_json(json.dumps(settings))
    values: dict[str, Any] = runner_set("gpu-vision", runner, "https://github.com/example", "gpu").values
    pod, on_page = values["template"]["spec"], shown["spec"]["template"]["spec"]
    assert shown["spec"]["proxy"] == values["proxy"]
    (page_container,), (container,) = on_page.pop("containers"), pod["containers"]
    assert {key: pod[key] for key in on_page} == on_page
    assert {key: container[key] for key in page_container} == page_container
