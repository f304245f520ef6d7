"""`gpu-ci init`: a stack file and its policy values from a few answers."""
