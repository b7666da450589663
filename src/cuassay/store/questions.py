"""Questions over everything that was judged here, each with a name; answered from the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cuassay.errors import UnknownNameError, UsageError
from cuassay.store.index import Row, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A saved question; `takes` is what its argument is, or nothing."""

    words: str
    sql: str
    takes: str = ""


_REJECTED = "sum(verdict = 'REJECTED')"
_DECIDED = "sum(verdict IN ('ACCEPTED', 'REJECTED'))"
QUESTIONS: Mapping[str, Question] = MappingProxyType(
    {
        "families": Question(
            words="the operator families that fail most",
            sql=f"SELECT family, count(*) AS kernels, {_REJECTED} AS rejected, "
            f"round(100.0 * {_REJECTED} / {_DECIDED}, 1) AS percent FROM runs "
            "WHERE family != '' GROUP BY family ORDER BY percent DESC, kernels DESC",
        ),
        "classes": Question(
            words="the failure classes that reject most kernels",
            sql="SELECT class, code, title, count(DISTINCT run) AS kernels FROM findings "
            "WHERE finding_class = 'wrong' GROUP BY class, code ORDER BY kernels DESC",
        ),
        "authors": Question(
            words="whose kernels fail most",
            sql=f"SELECT author, count(*) AS kernels, {_REJECTED} AS rejected, "
            f"round(100.0 * {_REJECTED} / {_DECIDED}, 1) AS percent FROM runs "
            "WHERE author != '' GROUP BY author ORDER BY percent DESC, kernels DESC",
        ),
        "missed": Question(
            words="kernels that the benchmark's own rule accepts and cuassay rejects",
            sql="SELECT problem, candidate, author, reason, run FROM runs "
            "WHERE theirs = 1 AND verdict = 'REJECTED' ORDER BY problem, candidate",
        ),
        "worst": Question(
            words="the findings that overspend their budget most",
            sql="SELECT code, round(share, 2) AS share, problem, candidate, message, finding, "
            "findings.run FROM findings JOIN runs USING (run) "
            "WHERE share IS NOT NULL ORDER BY share DESC",
        ),
        "undecided": Question(
            words="trials without a decision, with the reason",
            sql="SELECT problem, candidate, ending, reason, run FROM runs "
            "WHERE verdict IS NULL OR verdict = 'INCONCLUSIVE' ORDER BY started DESC",
        ),
        "slowest": Question(
            words="the trials that took longest",
            sql="SELECT round(duration_s, 1) AS seconds, problem, candidate, profile, run "
            "FROM runs ORDER BY duration_s DESC",
        ),
        "flaky": Question(
            words="findings that show in some trials of the same kernel, problem and profile only",
            sql="SELECT problem, candidate, profile, code, count(DISTINCT f.run) AS shown, trials, "
            "r.digest FROM findings f JOIN runs r USING (run) JOIN (SELECT digest, problem AS p, "
            "profile AS q, count(*) AS trials FROM runs WHERE verdict IS NOT NULL AND digest != '' "
            "GROUP BY digest, problem, profile HAVING trials > 1) t "
            "ON t.digest = r.digest AND t.p = r.problem AND t.q = r.profile "
            "GROUP BY r.digest, problem, profile, code HAVING shown < trials ORDER BY problem",
        ),
        "history": Question(
            words="every trial of one kernel, by its digest or its name",
            takes="DIGEST or NAME",
            sql="SELECT started, verdict, problem, candidate, profile, device, "
            "substr(digest, 1, 12) AS digest, run FROM runs "
            "WHERE digest LIKE ? || '%' OR candidate = ? ORDER BY started",
        ),
    }
)


def answer(
    connection: sqlite3.Connection, name: str, argument: str | None, *, limit: int
) -> tuple[tuple[str, ...], list[Row]]:
    """Return column names and at most `limit` rows. Raises UsageError or UnknownNameError."""
    if name not in QUESTIONS:
        raise UnknownNameError("question", name, QUESTIONS)
    question = QUESTIONS[name]
    if question.takes and not argument:
        raise UsageError(f"question '{name}' needs {question.takes}: cuassay query {name} ...")
    if argument and not question.takes:
        raise UsageError(f"question '{name}' takes no argument, got '{argument}'; leave it out")
    values = [argument] * question.sql.count("?")
    return rows(connection, f"{question.sql} LIMIT {int(limit)}", values)
