"""The software of OCI machines that run jobs: what each runs at boot, and the launcher that hands it one job."""
