"""Seed 001's keywords as words: what tells of machine learning, what only looks like it, how large it is, where it runs."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.jobs import calculate_gpu_requirements, create_gpu_job, detect_ml_workload, size
from fleet.loading.config import load
from tests.builders import ROOT, cluster, config, pool, read_stack, reserved

# -- machine learning or not ---------------------------------------------------------------------------------------------

# Every keyword of the seed's, as it stands there.
SEED = (
    "machine learning",
    "deep learning",
    "neural network",
    "pytorch",
    "tensorflow",
    "computer vision",
    "cv",
    "object detection",
    "image classification",
    "nlp",
    "model training",
    "inference",
    "gpu",
    "cuda",
)

POSITIVE = [
    ("Fine-tune BERT with PyTorch on our support tickets", "pytorch"),
    ("Deep-learning pipeline for X-ray triage", "deep learning"),
    ("deeplearning4j service that scores invoices", "deep learning"),
    ("#MachineLearning demo for the fair", "machine learning"),
    ("a sandbox for machine\nlearning on sensor logs", "machine learning"),
    ("Neural networks that predict churn", "neural network"),
    ("neural-net ranking of search results", "neural network"),
    ("ML/CV workloads of agent_bus", "cv"),
    ("CV pipeline that counts defects on camera frames", "cv"),
    ("import cv2; run the tracker on each video", "cv"),
    ("cv_pipeline for satellite tiles", "cv"),
    ("OpenCV homography of drone footage", "cv"),
    ("tensorflow-gpu 2.15 image with our notebook", "tensorflow"),
    ("Build with CUDA12.4 and cuDNN", "cuda"),
    ("object-detections per frame for the parking lot", "object detection"),
    ("Foreign object detection on the runway by camera", "object detection"),
    ("image-classification of leaves into 38 diseases", "image classification"),
    ("computer-vision check on the bottling line", "computer vision"),
    ("NLP: named entities in clinical notes", "nlp"),
    ("Serve LLM inference behind Triton", "inference"),
    ("batch inferencing of two million product photos", "inference"),
    ("The court needs OCR: run inference of our LLM over the scanned statutes", "inference"),
    ("model-training job, three epochs", "model training"),
    ("multi-GPU run with NCCL, the node's GPU's memory is full", "gpu"),
    ("\uff27\uff30\uff35 node and 8GPUs", "gpu"),
    # Words that mean another thing elsewhere.
    ("on-premises inference at a reasonable cost", "inference"),
    ("Keep to a reasonable inference time", "inference"),
    ("Lessons learnt from inference at scale", "inference"),
    ("run inference that scales to a thousand users", "inference"),
    ("fast turnaround on a GPU of the airline's", "gpu"),
    ("Render Blender animations on the GPU", "gpu"),
    ("Model training on Fashion-MNIST", "model training"),
    ("neural networks trained on mice cortex recordings", "neural network"),
    ("employ CV to watch the shelves", "cv"),
    ("NLP on therapists' notes", "nlp"),
    # Words that deny something else, or twice.
    ("Our laptops have no GPU, so run this on the cluster", "gpu"),
    ("Do not run this without a GPU", "gpu"),
    ("Without machine learning, this is impossible", "machine learning"),
    ("Not only pytorch but also jax", "pytorch"),
    ("There must be no GPU memory leaks", "gpu"),
    ("No deadline and no budget: deep learning it is", "deep learning"),
    # A word of another sense beside one of this.
    ("Rank résumés: a neural network reads each CV", "neural network"),
    ("Predict student dropout with deep learning", "deep learning"),
    ("Score each CV with our vision transformer", "cv"),
]

NEAR_MISSES = [
    ("Receive the parcels and recreate the invoices", ""),
    ("encumbered scv files, a cva form and Barracudas on cudahy street", ""),
    ("Patch CVE-2024-3094 in sshd", ""),
    ("nlpd daemon restart, inferential statistics homework", ""),
    ("The slot machine, learning from its players, was banned", ""),
    ("Fix the flow of the stress tensor", ""),
    ("neural networking evening for managers", ""),
    # A CV that is a résumé, or something else again.
    ("Attach your CV and a cover letter", "a résumé"),
    ("Build a web form where applicants submit a CV", "a résumé"),
    ("Upload jane_doe_cv.pdf to the portal", "a résumé"),
    ("Parse candidates' CVs into JSON", "several of something, as résumés are"),
    ("See https://jane.example.com/cv for contact", "an address"),
    ("Intra-assay CV of 5 % for the ELISA plates", "a coefficient of variation"),
    ("10-fold CV of the spreadsheet regression", "cross-validation"),
    ("cyclic voltammetry (CV) at a gold electrode", "cyclic voltammetry"),
    ("Replace the left CV joint and its boot", "a joint of constant velocity"),
    ("Restore the bridge of USS Enterprise (CV-6)", "a ship or an aircraft"),
    # Inference that needs no GPU.
    ("inference of law", "a conclusion"),
    ("adverse inference from the missing documents", "a conclusion"),
    ("The jury asks what inference it may make", "a conclusion of law"),
    ("type inference for our TypeScript monorepo", "what a compiler does"),
    ("Spark schema inference on CSV files", "what a reader of data does"),
    ("causal inference, notes of the course", "statistics"),
    ("reading comprehension worksheet: inference questions for pupils", "reading between the lines"),
    # Other people's words.
    ("NLP coach certificate, neuro-linguistic programming", "neuro-linguistic programming"),
    ("Solve the NLP with IPOPT and export the residuals", "nonlinear programming"),
    ("Plug the GPU into the aircraft before engine start", "a ground power unit"),
    ("Archive of the Soviet GPU and OGPU, 1922 to 1934", "the Soviet police"),
    ("GPU-composited CSS animations", "that of a browser"),
    ("Restore a 1970 Plymouth 'Cuda", "a car"),
    ("neural networks of the zebrafish cortex, dissection notes", "nerves"),
    ("deep learning versus surface learning: a seminar for teachers", "a way of teaching"),
    ("sewing machine learning kit for beginners", "learning to use a machine"),
    ("computer vision syndrome, a leaflet for offices", "a complaint of the eyes"),
    ("Docker image classification by base distribution", "images of disks"),
    ("image classification: confidential, do not share", "who may see an image"),
    ("duplicate object detection in the S3 bucket", "objects of another kind"),
    ("role model training for team leads", "training of people"),
    ("rota of the fashion academy: model training on Monday", "training of people"),
    # Denied.
    ("No GPU needed, a cron job on CPU", "it is denied"),
    ("This report does not need a GPU or CUDA", "it is denied"),
    ("GPUs are not required", "it is denied"),
    ("gpu: false", "it is denied"),
    ("A rule-based parser instead of machine learning", "it is denied"),
    ("Neither PyTorch nor TensorFlow is used", "it is denied"),
    ("It must never depend on CUDA", "it is denied"),
    ("non-GPU nodes and a GPU-free build", "it is denied"),
]


@pytest.mark.parametrize("keyword", SEED)
def test_each_keyword_of_seed_001_by_itself_is_machine_learning(keyword: str) -> None:
    for text in (keyword, keyword.upper(), f"{keyword}.", f"({keyword})", f"a {keyword}, please"):
        found = detect_ml_workload(text)
        assert found, text
        assert keyword in found.keywords


@pytest.mark.parametrize(("text", "keyword"), POSITIVE)
def test_what_tells_of_machine_learning_is_found_and_shown(text: str, keyword: str) -> None:
    found = detect_ml_workload(text)
    assert found
    assert keyword in found.keywords
    assert str(found).startswith("machine learning (")
    assert all(each.word in each.excerpt for each in found.found)


@pytest.mark.parametrize(("text", "why"), NEAR_MISSES)
def test_what_only_looks_like_it_is_passed_over_with_the_reason(text: str, why: str) -> None:
    found = detect_ml_workload(text)
    assert not found, str(found)
    reasons = {each.why.removeprefix("it means ") for each in found.discounted}
    assert reasons == ({why} if why else set()), "letters within a word are not even met"
    assert str(found).startswith("no machine learning")


def test_there_are_enough_of_both_and_none_twice() -> None:
    assert len({text for text, _ in POSITIVE}) == len(POSITIVE) >= 20
    assert len({text for text, _ in NEAR_MISSES}) == len(NEAR_MISSES) >= 20


def test_most_near_misses_would_have_been_met_by_letters() -> None:
    met = [text for text, _ in NEAR_MISSES if any(keyword in text.lower() for keyword in SEED)]
    assert len(met) > 0.9 * len(NEAR_MISSES) - 2, "else they would test nothing"


def test_the_explanation_has_what_counts_and_what_does_not() -> None:
    found = detect_ml_workload("Parse each applicant's CV. Then run inference with our LLM, no CUDA needed.")
    assert str(found).split("\n") == [
        "machine learning (inference)",
        "  inference: “then run inference with our llm,”",
        "  cv: “parse each applicant's cv.” does not count, it means a résumé",
        "  cuda: “our llm, no cuda needed.” does not count, it is denied",
    ]


@given(st.text(max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    found, asked = detect_ml_workload(text), calculate_gpu_requirements(text)
    assert bool(found) is bool(found.found)
    assert asked.branch in ("large model", "training", "usual")


@given(st.sampled_from(SEED), st.characters(categories=["L"]), st.characters(categories=["L"]))
def test_letters_on_either_side_make_it_another_word(keyword: str, before: str, after: str) -> None:
    assert not detect_ml_workload(f"{before}{keyword}q{after}")
    assert not detect_ml_workload(f"{before}q{keyword}q{after}")


def test_a_long_text_is_read_in_time() -> None:
    began = time.monotonic()
    for text in (
        "machine " * 9_000,
        "no " * 9_000 + "gpu",
        "cv " * 1_000,
        "gpu, no " * 1_000,
        "\n" * 30_000 + "cv",
        "cv@" * 1_000,
    ):
        detect_ml_workload(text)
        calculate_gpu_requirements(text.replace("cv", "billion"))
    assert time.monotonic() - began < 30, "no expression may take the square of a text's length"


# -- how large -----------------------------------------------------------------------------------------------------------

ANSWERS = {
    "large model": {"gpu_count": 4, "gpu_type": "a100", "memory": "64Gi"},
    "training": {"gpu_count": 1, "gpu_type": "a100", "memory": "32Gi"},
    "usual": {"gpu_count": 1, "gpu_type": "v100", "memory": "16Gi"},
}
"""Seed 001's three branches."""

SIZES = [
    ("large model", "large model"),
    ("billion", "usual"),
    ("training", "training"),
    ("", "usual"),
    ("Serve two large models side by side", "large model"),
    ("large-model serving", "large model"),
    ("a large language model for chat", "large model"),
    ("Fine-tune a 70 billion parameter model", "large model"),
    ("7-billion-parameter transformer", "large model"),
    ("several billion trainable parameters", "large model"),
    ("billions of parameters in a MoE", "large model"),
    ("the checkpoint of our network has 13 billion", "large model"),
    ("anything from 7 billion to 70 billion parameters", "large model"),
    ("distributed training of a large model", "large model"),
    ("search for a large model architecture", "large model"),
    ("model training, three epochs", "training"),
    ("pre-training of a small encoder", "training"),
    ("nightly retraining", "training"),
    ("a dataset of a billion images for training", "training"),
    ("two billion tokens of training data", "training"),
    ("no large model, a small one; training on one GPU", "training"),
    ("a billion people use this classifier", "usual"),
    ("the $2 billion model of a bank", "usual"),
    ("8 billion rows scanned by inference", "usual"),
    ("billion-scale vector search", "usual"),
    ("a billionaire's list with entities by NLP", "usual"),
    ("the larger models come later", "usual"),
    ("photos of a large model railway, image classification", "usual"),
    ("staff training portal with search by PyTorch", "usual"),
    ("training of staff in PyTorch", "usual"),
    ("videos of a training course, object detection", "usual"),
    ("a dog training app with a pose network", "usual"),
    ("inference only, no training", "usual"),
    ("post-training quantization of ResNet", "usual"),
    ("constraining solvers on strained pods", "usual"),
]


@pytest.mark.parametrize(("text", "branch"), SIZES)
def test_requirements_have_one_of_the_seeds_three_answers(text: str, branch: str) -> None:
    found = calculate_gpu_requirements(text)
    assert found.branch == branch, str(found)
    assert found == ANSWERS[branch]


def test_requirements_are_used_as_in_seed_001_and_as_arguments() -> None:
    found = calculate_gpu_requirements("a 70 billion parameter model")
    assert (found["gpu_count"], found.gpu_type, found.get("memory")) == (4, "a100", "64Gi")
    job = create_gpu_job("big", "registry.example.com/a:1", **found)
    assert job == create_gpu_job("big", "registry.example.com/a:1", **found.arguments())
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["memory"]) == ("4", "64Gi")


def test_the_answer_says_why() -> None:
    assert str(calculate_gpu_requirements("a billion rows; staff training; retraining each night")).split("\n") == [
        "1 x A100, 32Gi: training",
        "  training: “retraining each night”",
        "  billion: “a billion rows;” does not count, it counts rows",
        "  training: “staff training;” does not count, it means training of people",
    ]


# -- where it runs -------------------------------------------------------------------------------------------------------

PROD = load(read_stack(ROOT / "Pulumi.prod.yaml"))
RESERVED = reserved()


def test_a_task_is_sized_and_placed() -> None:
    found = size(RESERVED, "Fine-tune a 70 billion parameter model with PyTorch")
    assert found
    assert found.chosen is not None
    assert found.chosen.name == "use1/a100-reserved"
    assert found.refused == ()
    assert re.search(
        r"^in use1/a100-reserved, \S+ USD/h a node: 4 A100 GPUs, 32 CPU, 32Gi, 20Gi of disk$", str(found), re.MULTILINE
    )


def test_a_task_without_a_pool_is_refused_with_the_reasons() -> None:
    found = size(PROD, "Run inference of our classifier")
    assert not found
    assert dict(found.requirements or {}) == ANSWERS["usual"]
    assert found.refused[0] == "no pool can hold the task (1 V100 GPU, 4 CPU, 8Gi, 20Gi of disk):"
    assert "use1/t4-release: has T4, the job asks for V100" in found.refused
    assert "use1/a100-reserved: has A100, the job asks for V100" in size(RESERVED, "Run inference of our classifier").refused
    assert str(found).endswith("sjc/a10: has A10, the job asks for V100")


def test_a_task_without_machine_learning_gets_no_gpu() -> None:
    found = size(PROD, "Print the parcels' labels")
    assert not found
    assert (found.requirements, found.ask, found.refused) == (None, None, ("nothing in it asks for a GPU",))


def test_what_else_is_known_of_the_job_goes_into_the_search() -> None:
    fleet = load(
        config(clusters={"usw2": cluster(pools={"v100": pool(instanceTypes=["p3.2xlarge"], capacity="spot")}, runners={})})
    )
    assert not size(fleet, "gpu")
    assert size(fleet, "gpu", spot=True)
    assert not size(fleet, "gpu", spot=True, scratch="900Gi")


ABBREVIATED = {"cv", "nlp", "gpu", "cuda"}
"""Of these a whole text has one sense: a text of aircraft speaks of their GPU alone."""


@settings(max_examples=100)
@given(st.sampled_from([text for text, _ in POSITIVE]), st.sampled_from([text for text, _ in NEAR_MISSES]), st.booleans())
def test_a_near_miss_in_another_sentence_hides_nothing(real: str, miss: str, first: bool) -> None:
    words = set(detect_ml_workload(real).keywords) - ABBREVIATED
    assert words <= set(detect_ml_workload(f"{real}.\n\n{miss}." if first else f"{miss}.\n\n{real}.").keywords)
