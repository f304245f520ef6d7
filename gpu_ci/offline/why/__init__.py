"""`gpu-ci why`: why jobs wait, from GitHub's API and a stack file alone, and a report of queue times and use.

`seen` reads GitHub, `causes` decides, `usage` adds up.
"""
