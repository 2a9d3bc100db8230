"""Transcripts into the journal: importing files once (`importer`) and following them while they grow (`watcher`)."""
