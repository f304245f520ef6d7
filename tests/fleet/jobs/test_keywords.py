"""What a description of a task says: whether it is machine learning, and how many GPUs it needs."""

from __future__ import annotations

from hypothesis import given, strategies as st

from fleet.jobs import calculate_gpu_requirements, create_gpu_job, detect_ml_workload
from tests.cases import cases

# -- machine learning or not ---------------------------------------------------------------------------------------------

# Every keyword of the seed's, in its spelling.
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
    ("neural-net ranking of search results", "neural network"),
    ("import cv2; run the tracker on each video", "cv"),
    ("cv_pipeline for satellite tiles", "cv"),
    ("OpenCV homography of drone footage", "cv"),
    ("Build with CUDA12.4 and cuDNN", "cuda"),
    ("object-detections per frame for the parking lot", "object detection"),
    ("Serve LLM inference behind Triton", "inference"),
    ("batch inferencing of two million product photos", "inference"),
    ("multi-GPU run with NCCL, the node's GPU's memory is full", "gpu"),
    ("\uff27\uff30\uff35 node and 8GPUs", "gpu"),
    # A verb and a model.
    ("fine-tune a 7B model", "model training"),
    ("train a 70B model", "model training"),
    ("Pre-train our own language model", "model training"),
    ("Serve Mixtral-8x7B-Instruct with vLLM", "billion"),
    # Something else is denied, or the task cannot do without.
    ("Our laptops have no GPU, so run this on the cluster", "gpu"),
    ("Do not run this without a GPU", "gpu"),
    ("Not only pytorch but also jax", "pytorch"),
    ("There must be no GPU memory leaks", "gpu"),
    ("No deadline and no budget: deep learning it is", "deep learning"),
    # Another meaning in another sentence, or of another keyword.
    ("Rank résumés: a neural network reads each CV", "neural network"),
    ("Attach your CV. Then count people on camera frames by CV", "cv"),
]

DENIED = "it is denied"
RESUME, CONCLUSION, NO_COUNT = "it means a résumé", "it means a conclusion", "it means no number of parameters"
NEAR_MISSES = [
    ("Receive the parcels and recreate the invoices", ""),
    ("encumbered scv files, a cva form and Barracudas on cudahy street", ""),
    ("nlpd daemon restart, inferential statistics homework", ""),
    ("The slot machine, learning from its players, was banned", ""),
    ("Parse candidates' CVs into JSON", ""),
    ("Meet in room 0.7b", ""),
    ("Attach your CV and a cover letter", RESUME),
    ("Build a web form where applicants submit a CV", RESUME),
    ("Upload jane_doe_cv.pdf to the portal", RESUME),
    ("inference of law", CONCLUSION),
    ("adverse inference from the missing documents", CONCLUSION),
    ("type inference for our TypeScript monorepo", CONCLUSION),
    ("causal inference, notes of the course", CONCLUSION),
    ("Meet in room 7B", NO_COUNT),
    ("A business model with $7B of revenue", NO_COUNT),
    ("No GPU needed, a cron job on CPU", DENIED),
    ("This report does not need a GPU or CUDA", DENIED),
    ("It doesn\u2019t need a GPU", DENIED),
    ("Runs without CUDA", DENIED),
    ("no GPU and no CUDA", DENIED),
    ("GPUs are not required", DENIED),
    ("gpu: false", DENIED),
    ("A rule-based parser instead of machine learning", DENIED),
    ("Neither PyTorch nor TensorFlow is used", DENIED),
    ("It must never depend on CUDA", DENIED),
    ("non-GPU nodes and a GPU-free build", DENIED),
]


@cases("keyword", SEED)
def test_each_keyword_of_seed_001_by_itself_is_machine_learning(keyword: str) -> None:
    for text in (keyword, keyword.upper(), f"{keyword}.", f"({keyword})", f"a {keyword}, please"):
        found = detect_ml_workload(text)
        assert found, text
        assert keyword in found.keywords


@cases(("text", "keyword"), POSITIVE)
def test_keywords_are_found_and_shown(text: str, keyword: str) -> None:
    found = detect_ml_workload(text)
    assert keyword in found.keywords, str(found)
    assert str(found).startswith("machine learning (")


@cases(("text", "why"), NEAR_MISSES)
def test_near_misses_do_not_count_and_say_why(text: str, why: str) -> None:
    found = detect_ml_workload(text)
    assert not found, str(found)
    assert {each.ignored for each in found.matches} == ({why} if why else set()), "letters within a word are not a keyword"
    assert str(found).startswith("no machine learning")


def test_the_explanation_has_what_counts_and_what_does_not() -> None:
    found = detect_ml_workload("Parse each applicant's CV. Then run inference with our LLM, no CUDA needed.")
    assert str(found).split("\n") == [
        "machine learning (inference)",
        "  cv: “parse each applicant's cv.” does not count: it means a résumé",
        "  inference: “then run inference with our llm,”",
        "  cuda: “our llm, no cuda needed.” does not count: it is denied",
    ]


@given(st.text(max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    found, asked = detect_ml_workload(text), calculate_gpu_requirements(text)
    assert bool(found) is any(not each.ignored for each in found.matches)
    assert asked.branch in ("large model", "training", "usual")


@given(st.sampled_from(SEED), st.characters(categories=["L"]), st.characters(categories=["L"]))
def test_letters_on_either_side_make_it_another_word(keyword: str, before: str, after: str) -> None:
    assert not detect_ml_workload(f"{before}{keyword}q{after}")
    assert not detect_ml_workload(f"{before}q{keyword}q{after}")


def test_a_long_text_is_read_in_time() -> None:
    """An expression that takes the square of a text's length would not end in the time of a test."""
    for text in (
        "machine " * 9_000,
        "no " * 9_000 + "gpu",
        "not without " * 3_000 + "gpu",
        "cv " * 1_000,
        "gpu, no " * 1_000,
        "\n" * 30_000 + "cv",
        "train " * 5_000,
        "1" * 30_000,
    ):
        detect_ml_workload(text)
        calculate_gpu_requirements(text.replace("cv", "billion"))


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
    ("fine-tune a 7B model", "large model"),
    ("train a 70B model", "large model"),
    ("Serve Mixtral-8x7B-Instruct with vLLM", "large model"),
    ("Fine-tune a 70 billion parameter model", "large model"),
    ("7-billion-parameter transformer", "large model"),
    ("billions of parameters in a MoE", "large model"),
    ("the checkpoint of our network has 13 billion", "large model"),
    ("distributed training of a large model", "large model"),
    ("fine-tune a 0.5B model", "training"),
    ("fine-tuning of BERT", "training"),
    ("train the churn model each night", "training"),
    ("model training, three epochs", "training"),
    ("pre-training of a small encoder", "training"),
    ("nightly retraining", "training"),
    ("a dataset of a billion images for training", "training"),
    ("training on 15B tokens", "training"),
    ("no large model, a small one; training on one GPU", "training"),
    ("a billion people use this classifier", "usual"),
    ("the $2 billion model of a bank", "usual"),
    ("8 billion rows scanned by inference", "usual"),
    ("billion-scale vector search", "usual"),
    ("a billionaire's list with entities by NLP", "usual"),
    ("the larger models come later", "usual"),
    ("staff training portal with search by PyTorch", "usual"),
    ("training of staff in PyTorch", "usual"),
    ("videos of a training course, object detection", "usual"),
    ("inference only, no training", "usual"),
    ("post-training quantization of ResNet", "usual"),
    ("constraining solvers on strained pods", "usual"),
    ("photos of a train, object detection", "usual"),
]


@cases(("text", "branch"), SIZES)
def test_requirements_have_one_of_the_seeds_three_answers(text: str, branch: str) -> None:
    found = calculate_gpu_requirements(text)
    assert found.branch == branch, str(found)
    assert found.arguments == ANSWERS[branch]


def test_requirements_are_arguments_of_a_job() -> None:
    found = calculate_gpu_requirements("a 70 billion parameter model")
    job = create_gpu_job("big", "registry.example.com/a:1", **found.arguments)
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["memory"]) == ("4", "64Gi")


def test_the_answer_says_why() -> None:
    assert str(calculate_gpu_requirements("a billion rows; staff training; retraining each night")).split("\n") == [
        "1 x A100, 32Gi: training",
        "  billion: “a billion rows;” does not count: it means no number of parameters",
        "  training: “staff training;” does not count: it means training of people",
        "  training: “retraining each night”",
    ]
