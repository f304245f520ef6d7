"""The reference of the settings: schema/stack.schema.json and docs/settings.md, from the models and their docstrings."""
