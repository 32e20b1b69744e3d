"""KILT: reading task files, writing and linting submissions, scoring them as the official evaluators do."""

from __future__ import annotations

from adapters.kilt.datasets import DATASETS, Dataset, Metric, dataset_of, submission_name
from adapters.kilt.lines import JSON
from adapters.kilt.lint import Finding, LintReport, Severity, lint
from adapters.kilt.records import Output, Provenance, TaskRecord, read_gold, read_guess, read_ids, read_inputs
from adapters.kilt.retrieval import DEFAULT_KS, PAGE_KEYS, PARAGRAPH_KEYS, RetrievalScores
from adapters.kilt.scoring import RankingScores, RecordScores, Scores, score_files, score_retrieval_files
from adapters.kilt.submission import Prediction, SubmissionWriter, distinct_pages, prediction_line
from adapters.tasks.provenance import PageProvenance

__all__ = [
    "DATASETS",
    "Dataset",
    "Metric",
    "dataset_of",
    "submission_name",
    "JSON",
    "TaskRecord",
    "Output",
    "Provenance",
    "read_inputs",
    "read_gold",
    "read_guess",
    "read_ids",
    "Prediction",
    "PageProvenance",
    "SubmissionWriter",
    "distinct_pages",
    "prediction_line",
    "lint",
    "LintReport",
    "Finding",
    "Severity",
    "score_files",
    "score_retrieval_files",
    "Scores",
    "RankingScores",
    "RecordScores",
    "RetrievalScores",
    "DEFAULT_KS",
    "PAGE_KEYS",
    "PARAGRAPH_KEYS",
]
