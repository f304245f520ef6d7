"""What a stack needs of this machine, its clouds and GitHub before `pulumi up`. Every call only reads.

`gpu-ci doctor STACK` runs all checks. Each module has one area and yields findings.
"""
