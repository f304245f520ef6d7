"""The page of a stack's GPU workloads: what each takes and needs of nodes, read from the manifests that the program makes."""
