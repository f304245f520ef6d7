"""Faults of GPU nodes in a simulated fleet: against an API in memory, and against an API server with kwok if they are on PATH."""
