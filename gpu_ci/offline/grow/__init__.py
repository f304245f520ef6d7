"""`gpu-ci add` and `gpu-ci remove`: edits of a stack file as text, planned before they are written."""
