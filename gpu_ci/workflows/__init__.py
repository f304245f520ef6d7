"""GitHub's workflows as files: which jobs they have, and what each job asks of a runner."""
