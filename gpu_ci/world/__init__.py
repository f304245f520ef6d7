"""`gpu-ci world`: a cluster's real control plane on this machine, with simulated nodes, GitHub and kubelets (docs/world.md)."""
