"""Components for Oracle OKE and OCI machines: `pip install 'gpu-ci[oci]'`."""

from components.oci.oci_gpu_runner import OciGpuRunner, OciGpuRunnerArgs
from components.oci.oke_gpu_cluster import OkeGpuCluster, OkeGpuClusterArgs

__all__ = ["OciGpuRunner", "OciGpuRunnerArgs", "OkeGpuCluster", "OkeGpuClusterArgs"]
