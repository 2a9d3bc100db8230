"""Prompts with Python functions as tools, validated output, limits and retries, with any agent."""
