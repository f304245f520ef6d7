"""`gpu-ci pending STACK`: what an interrupted `pulumi up` left, with the commands that settle it. Every call only reads.

`state` reads what `pulumi stack export` prints, `clusters` asks Kubernetes, `findings` compares both with the clouds, and `cli`
prints. docs/interrupted.md describes the procedure.
"""
