"""README, start page and picture show the same report, and sentences the numbers of their code.

`python doc/make_start_page.py --check`, which `.ci/run` calls, also makes the report again.
"""

import doctest
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "doc" / "make_start_page.py"
pytestmark = pytest.mark.skipif(
    not (SCRIPT.exists() and (ROOT / "README.md").exists()), reason="needs the whole checkout"
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def printed(made):
    """The output in README.md, which is that of the start page, whose doctest runs it."""
    return made["PRINTED"][made["README"]].search(made["README"].read_text("utf-8"))[0]


def test_pages_that_show_the_report_agree(made, printed):
    pages = made["pages"]()
    assert len(pages) >= 5
    assert made["current"](printed) == pages


def test_another_number_is_not_current(made, printed):
    changed = printed.replace("observed 10.4 %", "observed 10.5 %")
    pages, built = made["pages"](), made["current"](changed)
    assert changed != printed and all(built[path] != text for path, text in pages.items())
    assert "observed 10.5 %" in built[made["START"]]
    built = made["current"](printed.replace("Recalibrate with", "Recalibration is"))
    assert "Typical error 26 points. A reliability diagram." in built[made["README"]]


def test_the_picture_shows_the_numbers_of_the_text(made, printed):
    """The picture contains the text of the page that it shows."""
    text = made["picture_text"]()
    code = printed.strip().splitlines()[-1].strip()
    assert code in text and " → " in text and text.count("[") >= 3
    shown = text.partition("Isotonic fit")[0]
    assert len(NUMBER.findall(shown)) > 25
    assert set(NUMBER.findall(shown)) <= set(NUMBER.findall(printed))


def test_the_text_of_the_first_screen(made):
    page = (
        "<head><title>no</title></head><p>A &amp; <b>B</b> 1 &lt; 2</p><svg a='b'><text>no</text>"
        "</svg> end<details>no</details>"
    )
    assert made["first_screen"](page) == "A & B 1 < 2 end"


def test_no_browser_is_a_sentence(made, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SystemExit, match="report.png was not drawn.*Chromium is needed"):
        made["draw"]("")


def test_sentences_for_a_paper_have_the_numbers_of_the_code():
    """Each number of a paragraph "In words" is in an output of its page, or a threshold of p."""
    n_numbers = 0
    for path in sorted((ROOT / "doc" / "user_guide").glob("*.rst")):
        text = path.read_text(encoding="utf-8")
        examples = doctest.DocTestParser().get_examples(text)
        numbers = set(
            NUMBER.findall(" ".join(example.want + example.source for example in examples))
        )
        for words in re.findall(r"(?s)\*In words:\*(.*?)\n\n", text):
            said = NUMBER.findall(re.sub(r"95 %|p < 0\.001|n = \d+", "", words))
            assert set(said) <= numbers, f"{path.name}: {set(said) - numbers}"
            n_numbers += len(said)
    assert n_numbers >= 6
