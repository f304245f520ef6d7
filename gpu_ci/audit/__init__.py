"""`gpu-ci audit`: what a folder says of somebody's runner fleet, without our stack file and without Pulumi.

`parts` reads Actions Runner Controller (ARC) as Helm, Argo CD, Flux and Kustomize spell it, `gpu_ci.workflows` the jobs of GitHub
Actions. `findings` reads the files and compares the two.
"""
