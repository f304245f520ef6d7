"""The components for Pulumi programs in Python, one module for each extra of the wheel: `kubernetes`, `eks` and `oci`.

They run in the program's own process, check their arguments there, and import the SDKs of their cloud alone.
"""
