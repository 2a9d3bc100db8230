"""Native transcripts: what agents wrote on disk in their own formats, as ACP frames in the one journal.

`claude/` and `codex/` translate one format each, by the interface in `translator`; `ingest/` imports files and watches
folders. Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.translate.discover import Transcript as Transcript
    from dragoman.translate.discover import find_transcripts as find_transcripts
    from dragoman.translate.discover import transcripts_at as transcripts_at
    from dragoman.translate.ingest.folder_watch import folders_at as folders_at
    from dragoman.translate.ingest.importer import Importer as Importer
    from dragoman.translate.ingest.importer import import_transcripts as import_transcripts
    from dragoman.translate.ingest.importer import summarize_import as summarize_import
    from dragoman.translate.ingest.report import ImportedFile as ImportedFile
    from dragoman.translate.ingest.report import ImportSummary as ImportSummary
    from dragoman.translate.ingest.report import summarize as summarize
    from dragoman.translate.ingest.watcher import WatchConsent as WatchConsent
    from dragoman.translate.ingest.watcher import Watcher as Watcher
    from dragoman.translate.ingest.watcher import WatchStatus as WatchStatus
    from dragoman.translate.translator import PROVIDERS as PROVIDERS
    from dragoman.translate.translator import Frame as Frame
    from dragoman.translate.translator import Provider as Provider
    from dragoman.translate.translator import Translator as Translator
    from dragoman.translate.translator import get_provider as get_provider

_MODULES = {
    "Frame": "translator",
    "ImportSummary": "ingest.report",
    "ImportedFile": "ingest.report",
    "Importer": "ingest.importer",
    "PROVIDERS": "translator",
    "Provider": "translator",
    "Transcript": "discover",
    "Translator": "translator",
    "WatchConsent": "ingest.watcher",
    "WatchStatus": "ingest.watcher",
    "Watcher": "ingest.watcher",
    "find_transcripts": "discover",
    "folders_at": "ingest.folder_watch",
    "get_provider": "translator",
    "import_transcripts": "ingest.importer",
    "summarize": "ingest.report",
    "summarize_import": "ingest.importer",
    "transcripts_at": "discover",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
