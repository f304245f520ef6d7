"""OKE clusters, and OCI machines as runners."""
