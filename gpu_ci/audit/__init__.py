"""`gpu-ci audit`: what a folder says of somebody's runner fleet, without our stack file and without Pulumi.

`runner_sets` reads Actions Runner Controller (ARC) as Helm, Argo CD, Flux and Kustomize spell it, `workflows` the jobs of GitHub
Actions, and `findings` compares the two. `folder` reads the files.
"""
