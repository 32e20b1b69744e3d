"""Corpora: documents and passages read from KILT, DensePhrases, DPR, BEIR, our export, or text files."""

from kbengine.corpus.detect import FORMATS, CorpusFormat, detect_format
from kbengine.corpus.document import CorpusDocument, CorpusPassage, SourcePosition
from kbengine.corpus.reader import CorpusReading, read_corpus
from kbengine.corpus.report import BadRecord, CorpusReport

__all__ = [
    "read_corpus",
    "CorpusReading",
    "CorpusDocument",
    "CorpusPassage",
    "SourcePosition",
    "CorpusReport",
    "BadRecord",
    "CorpusFormat",
    "FORMATS",
    "detect_format",
]
