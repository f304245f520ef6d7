"""What ArgoCD reads: charts as Applications, objects in their order, secrets that Git never holds in clear."""
