"""The software of OCI machines that run jobs: the boot script, and the launcher that gives a machine its job."""
