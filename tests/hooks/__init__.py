"""GitHub's container hooks with our program before them, on a real API server."""
