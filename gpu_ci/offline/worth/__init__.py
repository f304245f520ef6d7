"""What the jobs of a history cost on GitHub's runners, on a VM for each job and on a fleet."""
