"""Codex: its transcripts as ACP frames. `translator` has the entry point."""
