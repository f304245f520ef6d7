"""Recording rules and alerts of a fleet."""
