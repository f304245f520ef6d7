"""`gpu-ci freshen`: newer rows of the dated tables from their sources, and what they change in each stack."""
