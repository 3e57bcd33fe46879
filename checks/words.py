"""Check the words: retired words, long lines and long sentences in documents, and subjects of commits.

    python checks/words.py            # everything that `make lint` asks, subjects of commits included
    python checks/words.py FILE ...   # documents or sources of your choice

A word is retired where the field has a better one; ``docs/glossary.md`` gives the words in use. Sources are checked in
docstrings, comments and messages, documents outside code. Sentences are checked in documents and docstrings; operators
of formulas count as no words, indented lines of a docstring as code. ``results/`` holds generated pages: their words
come from the sources.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_LINE, LONGEST_SUBJECT, LONGEST_SENTENCE = 120, 72, 25
LATER = (
    "eunomia/inference/kernel/",
)  # docstrings change the key of its machine code: mend them with the code
FIRST_SUBJECT = "a35bcb486c"  # subjects are checked from the commit after this one
# subjects of up to 80 characters in published history, which stays as it is
KNOWN = {
    "653fe11",
    "a1ef2ce",
    "b0fa78c",
    "50af8f5",
    "5c0bed7",
    "f2f144c",
    "8880b7d",
    "6a4d01c",
    "8601a9e",
}

# pattern (case does not matter) -> what to write instead
RETIRED = {
    r"promises? (?:that (?:were|are) )?kept|kept promises?": "SLO attainment",
    r"(?:plain|readable|slow|obvious|compiled|plain-python) twins?": "reference engine, or reference form",
    r"(?:policy|trained|training|learned|shipped) cards?\b": "checkpoint",
    r"\b(?:is|are|was|were|be) told\b(?! apart)": "say who passes what to whom",
    r"\b(?:is|are|was|were) asked for\b": "say who needs it",
    r"\bgives? way\b": "say which comes first",
    r"\bthat which\b": "what, or the noun",
    r"\bshare in time\b|\bhits in time\b|\bdone in time\b": "hit rate",
    r"\bknows? (?:nothing|neither|no)\b": "say what it does not read or import",
    r"\b(?:hand-written|handwritten) rules?\b": "rule",
}
ANY_RETIRED = re.compile("|".join(RETIRED), re.IGNORECASE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``[^`]*``")
ITEM = re.compile(r"\s*(?:[*+-]|\d+\.) ")
SENTENCE = re.compile(r"(?<=[.!?:;])[*)\"]*\s+|\s·\s")
WORD = re.compile(r"\w")


def main(arguments: list[str]) -> int:
    """Print one line per fault; 1 if there is any."""
    paths = [Path(name) for name in arguments]
    faults = list(in_files(paths or everything()))
    if not paths:
        faults += subjects(messages(ROOT))
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def everything() -> list[Path]:
    """Documents and sources of the checkout."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(documents) + sorted((ROOT / "eunomia").rglob("*.py"))


def in_files(paths: Iterable[Path]) -> Iterator[str]:
    """Faults of documents and sources, each as ``path:line: fault``."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        name = path.resolve().relative_to(ROOT) if path.resolve().is_relative_to(ROOT) else path
        if path.suffix == ".py":
            may = ANY_RETIRED.search(text)  # to find tokens takes seconds
            found = [*retired(prose_of_source(text))] if may else []
            if not str(name).startswith(LATER):
                found += long_sentences(prose_of_docstrings(text))
        else:
            lines = prose_of_document(text)
            found = [*retired(lines), *long_lines(text), *long_sentences(lines)]
        yield from (f"{name}:{line}: {fault}" for line, fault in sorted(found))


def prose_of_source(text: str) -> list[tuple[int, str]]:
    """Line and text of every comment and string of a module."""
    kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    pieces = [(token.start[0], token.string) for token in tokens if token.type in kinds]
    return [(line + n, part) for line, piece in pieces for n, part in enumerate(piece.split("\n"))]


def prose_of_docstrings(text: str) -> list[tuple[int, str]]:
    """Lines of every docstring of a module, without ``code`` in them; formulas and tables are empty lines."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not (written := ast.get_docstring(node)):
            continue
        start = node.body[0].lineno
        blanked = CODE.sub(lambda code: "x" + "\n" * code[0].count("\n"), written).split("\n")
        item = False
        for number, line in enumerate(blanked, start):
            item = bool(ITEM.match(line)) or (item and line.startswith("  "))
            formula = line.startswith(("  ", "=")) and not item
            found.append((number, "" if formula else line.strip()))
        found.append((start, ""))
    return found


def prose_of_document(text: str) -> list[tuple[int, str]]:
    """Lines of a document outside fenced code, without ``code`` in them."""
    blanked = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    return [(n, re.sub(r"`[^`]*`", "`x`", line)) for n, line in enumerate(blanked.split("\n"), 1)]


def retired(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Retired words, with what to write instead."""
    for number, line in lines:
        for pattern, instead in RETIRED.items():
            if found := re.search(pattern, line, re.IGNORECASE):
                yield number, f"retired words '{found[0]}'; instead: {instead}"


def long_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a document that are too long to read; rows of tables and code may be longer."""
    kept = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for number, line in enumerate(kept.split("\n"), 1):
        without_links = re.sub(r"\]\([^)]*\)", "]", line)
        if len(without_links) > LONGEST_LINE and not line.startswith(("|", "[")):
            yield number, f"a line of {len(without_links)} characters; at most {LONGEST_LINE}"


def long_sentences(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Sentences of more than 25 words; rows of tables are cut at their columns, lists at their items."""
    paragraph: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "")]:
        if line.strip() and not line.startswith(("|", "#", "<!--")) and not ITEM.match(line):
            paragraph.append((number, line))
            continue
        yield from _long(paragraph)
        paragraph = [(number, ITEM.sub("", line, count=1))] if ITEM.match(line) else []
        if not paragraph:
            columns = re.split(r"\s\|\s", line.strip("| #"))
            yield from (fault for column in columns for fault in _long([(number, column)]))


def _long(paragraph: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    text = " ".join(line for _, line in paragraph)
    for sentence in SENTENCE.split(text):
        count = sum(bool(WORD.search(word)) for word in sentence.split())
        if count > LONGEST_SENTENCE:
            start = f"{sentence[:60]} ..."
            yield paragraph[0][0], f"a sentence of {count} words; at most {LONGEST_SENTENCE}: {start}"


def messages(checkout: Path) -> list[str]:
    """Subjects of the commits since ``FIRST_SUBJECT``; of the last one alone where history is cut short."""
    for commits in (f"{FIRST_SUBJECT}..HEAD", "-1"):
        command = ["git", "-C", str(checkout), "log", "--no-merges", "--format=%h %s", commits]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.splitlines()
    return []  # not a checkout: an unpacked source distribution has no commits


def subjects(lines: Iterable[str]) -> Iterator[str]:
    """Commits whose subject is too long, or ends like a sentence."""
    for line in lines:
        commit, _, subject = line.partition(" ")
        if commit[:7] in KNOWN:
            continue
        if len(subject) > LONGEST_SUBJECT:
            yield f"commit {commit}: a subject of {len(subject)} characters; at most {LONGEST_SUBJECT}: {subject}"
        if subject.endswith("."):
            yield f"commit {commit}: the subject ends with a full stop: {subject}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
