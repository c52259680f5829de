"""Passes that only language models need; one to a file, found by name as all others."""
