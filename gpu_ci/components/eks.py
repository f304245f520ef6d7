"""Components for AWS EKS: `pip install 'gpu-ci[eks]'`."""

from components.eks.eks_gpu_cluster import EksGpuCluster, EksGpuClusterArgs
from components.eks.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs

__all__ = ["EksGpuCluster", "EksGpuClusterArgs", "GpuNodeGroup", "GpuNodeGroupArgs"]
