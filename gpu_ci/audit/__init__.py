"""`gpu-ci audit`: what a folder says of somebody's runner fleet, without our stack file and without Pulumi.

`formats` reads the files of other projects, `gpu_ci.workflows` the jobs of GitHub Actions, both into `model`. `rules` checks it,
and `finding` has what they say.
"""
