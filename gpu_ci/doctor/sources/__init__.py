"""Clients of the public sources of versions: GitHub, registries, chart repositories and AWS' price list.

`doctor` and `gpu-ci freshen` ask them. Every call only reads, and every answer is data: a field that does not have the
expected form is refused. All functions raise SourceError if a source cannot be reached or its answer is refused.
"""
