"""Helm charts as plain data. Each module makes one chart by pure functions of the settings; `sweeps` has pods without chart."""
