"""The objects that ArgoCD reads: charts as Applications, the order of objects, and secrets that Git never holds in clear."""
