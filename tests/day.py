"""The day of every plan in the tests and in docs/example-plans.md: no support end and no exception that runs out breaks them."""

from datetime import date

AS_OF = date(2026, 11, 26)
TIMELESS = date.min
"""A day before every end: for tests of what our settings and programs declare, whatever the age of the pinned versions."""
