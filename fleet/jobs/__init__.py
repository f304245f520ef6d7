"""GPU jobs as typed Python: a `batch/v1` Job from arguments or from a description, placed on a pool of the fleet.

Needs neither Pulumi nor a cluster. docs/jobs.md has examples.
"""

from fleet.jobs.create import JobOptions, create_gpu_job
from fleet.jobs.errors import JobError, JobProblem, JobRefusedError
from fleet.jobs.keywords import calculate_gpu_requirements, detect_ml_workload
from fleet.jobs.place import JobPlacement, manifest, place_job, pool_options
from fleet.jobs.spec import GpuJobSpec, gpu_job

__all__ = ["GpuJobSpec", "JobError", "JobOptions", "JobPlacement", "JobProblem", "JobRefusedError"]
__all__ += ["calculate_gpu_requirements", "create_gpu_job", "detect_ml_workload"]
__all__ += ["gpu_job", "manifest", "place_job", "pool_options"]
