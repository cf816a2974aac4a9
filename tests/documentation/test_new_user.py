"""The ten tasks of doc/studies/new_user.md: the pages have the answers, two clicks away."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

DOC = Path(__file__).parents[2] / "doc"
NOTE = DOC / "studies" / "new_user.md"
pytestmark = pytest.mark.skipif(not NOTE.exists(), reason="needs the folder doc")
MOST_CLICKS = 2


def tasks():
    """Title, path of pages and code of each task of the note."""
    if not NOTE.exists():
        return []
    parts = re.split(r"\n## (?=\d|How the pages)", NOTE.read_text(encoding="utf-8"))[1:11]
    listed = []
    for part in parts:
        (path,) = re.findall(r"^Path: (.*)$", part, re.MULTILINE)
        (code,) = re.findall(r"(?s)```\w+\n(.*?)```", part)
        listed.append((part.splitlines()[0], path.split(" > "), code))
    return listed


def links(name):
    """Pages to which a page links: in its text, or in a table of contents that is not hidden."""
    text = (DOC / f"{name}.rst").read_text(encoding="utf-8")
    text = re.sub(r"\.\. toctree::\n(?: +:.*\n)*? +:hidden:\n(?:\n? .*\n)*", "", text)
    pages = [*DOC.glob("*.rst"), *DOC.glob("user_guide/*.rst")]
    starts = {page: re.match(r"\.\. _(\w+):\n", page.read_text(encoding="utf-8")) for page in pages}
    to_labels = {start[1]: page.with_suffix("") for page, start in starts.items() if start}
    targets = re.findall(r":doc:`(?:[^`<]*<)?([^`>]+)>?`", text)
    for block in re.findall(r"\.\. toctree::\n((?: +:.*\n)*\n(?: +\w.*\n)*)", text):
        targets += re.findall(r"^ +(\w\S*)$", block, re.MULTILINE)
    folder = (DOC / name).parent
    linked = {
        (DOC / target.lstrip("/") if target.startswith("/") else folder / target).resolve()
        for target in targets
    }
    named = re.findall(r":ref:`(?:[^`<]*<)?([^`>]+)>?`", text)
    return linked | {to_labels[label].resolve() for label in named if label in to_labels}


def code_of_page(text):
    """Lines of code of a page, without prompts and indentation."""
    return {re.sub(r"^\s*(?:>>> |\.\.\. |)", "", line).strip() for line in text.splitlines()}


def test_there_are_ten_tasks():
    titles = [title for title, _, _ in tasks()]
    assert [title.partition(".")[0] for title in titles] == [str(k) for k in range(1, 11)]
    assert all(title.endswith("?") for title in titles)


@pytest.mark.parametrize(("title", "path", "code"), tasks(), ids=lambda value: str(value)[:30])
def test_answer_is_two_clicks_away(title, path, code):
    assert path[0] == "index" and len(path) - 1 <= MOST_CLICKS
    for name, following in pairwise(path):
        assert (DOC / following).resolve() in links(name), f"{name} has no link to {following}"
    answer = code_of_page((DOC / f"{path[-1]}.rst").read_text(encoding="utf-8"))
    for line in code.splitlines():
        assert line.strip() in answer, f"{path[-1]} lacks the line {line}"


def test_missing_links_would_be_found():
    assert (DOC / "user_guide/check_a_model").resolve() in links("index")
    assert (DOC / "user_guide/venn_abers").resolve() not in links("index")
    assert (DOC / "api").resolve() in links("index")  # by its label
