"""The errors of the offline commands, under the names that they use."""

from fleet.facts.errors import InputError
from fleet.facts.errors import quoted as shown

__all__ = ["InputError", "shown"]
