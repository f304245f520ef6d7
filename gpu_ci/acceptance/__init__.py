"""`make acceptance`: builds a whole stack in a real account, runs a GPU job, edits it, destroys it and scans for leftovers.

`gpu-ci accept STACK --budget-usd N` refuses to start if the longest run could cost more than the
budget. It stops at the
first failure and always destroys what it built.
"""
