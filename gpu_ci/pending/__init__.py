"""`gpu-ci pending STACK`: what an interrupted `pulumi up` left, with the commands that settle it. Every call only reads.

`state` reads what `pulumi stack export` prints, `findings` compares it with the clouds and Kubernetes, and `cli`
prints. docs/interrupted.md describes the procedure.
"""
