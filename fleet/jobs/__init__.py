"""GPU jobs as typed Python: from arguments, or from what people write, to a `batch/v1` Job with a place on the fleet.

Needs neither Pulumi nor a cluster; docs/jobs.md shows what comes of it.
"""

from fleet.jobs.ask import GpuAsk
from fleet.jobs.create import create_gpu_job
from fleet.jobs.errors import JobError, JobProblem, JobRefusedError
from fleet.jobs.manifest import Manifest, manifest
from fleet.jobs.naming import job_name
from fleet.jobs.options import AskOptions, JobOptions
from fleet.jobs.place import Candidate, JobPlacement, candidates, place_job
from fleet.jobs.profiles import COUNTS, PROFILES, Amount, Profile
from fleet.jobs.sizing import GpuRequirements, MlWorkload, Sizing, calculate_gpu_requirements, detect_ml_workload, size
from fleet.jobs.spec import GpuJobSpec, gpu_ask, gpu_job
from fleet.jobs.words import Discounted, Found

__all__ = [
    "COUNTS",
    "PROFILES",
    "Amount",
    "AskOptions",
    "Candidate",
    "Discounted",
    "Found",
    "GpuAsk",
    "GpuJobSpec",
    "GpuRequirements",
    "JobError",
    "JobOptions",
    "JobPlacement",
    "JobProblem",
    "JobRefusedError",
    "Manifest",
    "MlWorkload",
    "Profile",
    "Sizing",
    "calculate_gpu_requirements",
    "candidates",
    "create_gpu_job",
    "detect_ml_workload",
    "gpu_ask",
    "gpu_job",
    "job_name",
    "manifest",
    "place_job",
    "size",
]
