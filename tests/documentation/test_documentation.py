"""Public names, pages and examples are where a reader of the documentation looks for them."""

import ast
import contextlib
import csv
import doctest
import inspect
import io
import operator
import re
import tokenize
from pathlib import Path

import pytest
from sources import PATHS, parsed, statements, text_of
from verdict_texts import forbidden_words, words_around

import skcalib
import skcalib.datasets
import skcalib.testing

ROOT = Path(__file__).parents[2]
DOC = ROOT / "doc"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
pytestmark = pytest.mark.skipif(not DOC.exists(), reason="needs the folder doc")
NO_PAGE = {
    "__version__",  # a string
    "datasets",  # a module whose functions are listed
    "kernels.KERNELS",  # names for messages
    "scores.Divergence",  # bases of bases
    "smoothers.OutOfFoldSmoother",
    "smoothers.PartitionSmoother",
}

_THING = (
    r"(?:smoother|error|test|notion|model|recalibrator|forecast|bin|classifier|default|fold|kernel|"
    r"statistic|score|scorer|map|tree|report|estimator|estimate|curve|network|column|sum)s?"
)
_NOT = (
    r"(?: can| cannot| could| may| must| does| do| not| never| then| that| which| already| only)*"
)
#: Figurative words and phrases that comments, docstrings, messages and the documentation avoid,
#: beside those of `forbidden_words`, with the word to use instead.
FIGURATIVE = {
    r"doors?": "public function, constructor",
    rf"{_THING}{_NOT} (?:sees?|saw|seen|has seen|have seen)": "detects, depends on, is fitted to",
    rf"{_THING}{_NOT} (?:knows?|knew|tells?|asks?|wants?)": "contains, has",
    rf"{_THING}{_NOT} (?:says?|remembers?|forgets?)": "shows, contains, does not depend on",
    r"knows? nothing": "is not informative",
    r"blind (?:to|for)": "does not detect",
    r"timid": "under-confident",
    r"(?:far )?too sure": "over-confident",
    r"weight zero (?:is|are) not there": "zero-weight samples are dropped",
    r"samples? (?:that|which) (?:is|are) alone": "only sample",
    r"alone in (?:its|their)": "only sample of its",
    r"legs?": "divergence, term",
    r"(?<!random )walks?": "traversal",
    r"house": "package",
    r"mend(?:s|ed|ing)?": "fix",
    r"repair(?:s|ed|ing)?": "correct, recalibrate",
    r"cures?": "remedy",
    r"carr(?:y|ies|ied|ying)": "has, contains",
    r"travel(?:s|led)?": "is passed",
    r"lives?": "is defined, lies",
    r"the price (?:is|for)": "at the cost of",
    r"pays? (?:for|with)": "at the cost of, includes",
    r"earns?": "yields",
    r"anew": "again",
    r"(?:every|some|no)body": "all samples, users",
    r"worlds?(?!\.)": "setting, simulation",
    r"next to nothing": "hardly any",
    r"beyond doubt": "known, certain",
    r"truth in hand": "knowledge of the truth",
    r"lea(?:ves?|ving|ft) no trace": "has no effect",
    r"(?:refused?|refusals?|refuses) in words": "raises an error",
    r"in silence": "silently",
    r"neighbou?rs? ask": "nearest-neighbour",
    r"cry wolf": "false alarm",
    r"do(?:es)? no harm": "has no effect",
    r"doing nothing": "the identity, no recalibration",
    r"stands? (?:beside|in for|here|there|side)": "is defined next to, replaces",
    r"bends?(?: at| near)?": "is curved, has a kink",
    r"(?<!there )(?:is|are) no (?:number|lower bound|upper bound|classifier|axes|dict|proof|"
    r"ranking|property|kernel|line|cure|use|matrix|proper score|quadratic form)s?": "is not a",
    r"(?:bin|map|classifier|recalibrator|law|name|region|method|column|page|sentence)s? of "
    r"(?:its|their) own": "its own",
    r"judge[sd]?(?: by| on)": "evaluated",
    r"(?:by|of|at) chance alone": "by chance",
    r"inside of": "inside",
    r"whatever (?:it|they|the|its) (?:is|are|form)": "for any",
}
_TEXT = (
    r"(?:paper|page|name|warning|note|changelog|message|interval|target|limit|ratio|docstring|"
    r"documentation|text|row|record|alarm)s?"
)
#: More of them, in what users read first: README, the guide and the examples.
PLAIN = {
    r"(?:the law (?:of|is|at)|(?:whose|its|limit|normal|chi-square|folded-normal|null) laws?)": (
        "distribution"
    ),
    r"says? (?:so|why|nothing)|said (?:so|too little)": "states this, explains",
    rf"{_TEXT}{_NOT} (?:says?|said|tells?|knows?|wants?|asks?)": "states, contains",
    r"(?:weekly|daily|one|each|every|single) looks?": "evaluation, test",
    r"(?:the|a|against the|at the) prices?": "cost",
    r"go(?:es)? away": "is removed",
    r"wins?": "is chosen",
    r"beat(?:s|en)?": "has a lower error than",
    r"in a hurry": "short",
    r"hides?": "averages out, does not show",
    r"whatever (?:it|they|the|its)": "for any",
    r"of (?:his|her) own": "gender-neutral: their own",
    r"(?:his|her) (?:risks?|score|doctor|patients?)": "their",
    r"by itself alone": "alone",
    r"look good|look bad|looks? so bad": "is far from the diagonal",
    r"begin (?:of|and) ": "start, beginning",
}
_FIGURATIVE = re.compile(r"\b(?:" + "|".join(FIGURATIVE) + r")\b")
_PLAIN = re.compile(r"\b(?:" + "|".join([*FIGURATIVE, *PLAIN]) + r")\b")


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOC / "api.rst").read_text(), re.MULTILINE))
    public = set(skcalib.__all__)
    for module in ("data.notions", "datasets", "io", "kernels", "scores", "smoothers", "testing"):
        public |= {f"{module}.{name}" for name in operator.attrgetter(module)(skcalib).__all__}
    assert public - listed == NO_PAGE


def test_every_name_in_the_reference_exists():
    for name in re.findall(r"^   ([\w.]+)$", (DOC / "api.rst").read_text(), re.MULTILINE):
        operator.attrgetter(name)(skcalib)


@pytest.mark.skipif(not (ROOT / "examples").exists(), reason="needs the folder examples")
def test_examples_are_short_and_draw():
    for path in (ROOT / "examples").rglob("plot_*.py"):
        text = path.read_text()
        assert text.count("\n") < 100, f"{path.name} has 100 lines or more"
        assert "plt.show()" in text, f"{path.name} shows no figure"


def test_what_the_page_of_papers_names_exists():
    """As ``test_file.py::test_name``; the page of guarantees has a test of its own."""
    text = (DOC / "user_guide" / "papers.rst").read_text(encoding="utf-8")
    named = re.findall(r"``(test_\w+\.py)::(test_\w+)``", text)
    assert len(named) > 30 and text.count("::test_") == len(named)
    for file, test in named:
        (path,) = (ROOT / "tests").rglob(file)
        assert f"\ndef {test}(" in path.read_text(encoding="utf-8"), f"{file} has no {test}"
    for name in re.findall(r":(?:func|class):`~skcalib\.([\w.]+)`", text):
        assert operator.attrgetter(name)(skcalib)
    for study in re.findall(r"``(doc/[\w/]+\.py)``", text):
        assert (ROOT / study).exists(), study


_KIND = (
    "(definition|theorem|lemma|proposition|corollar|example|assumption|remark|"
    "equation|figure|table)"
)
_NUMBER = r"((?:[A-Z]\.|\d\.)?\d+)"


def numbered(cell):
    """Names of the items of a cell: "lemmas F.1 to F.3, table 1" has four."""
    kind, items = "", []
    for word, first, last in re.findall(f"{_KIND}|{_NUMBER}(?: to {_NUMBER})?", cell):
        kind = word or kind
        if first and kind:
            prefix, _, start = first.rpartition(".")
            end = int((last or first).rpartition(".")[2])
            items += [f"{kind} {prefix}.{i}" for i in range(int(start), end + 1)]
    return [item.replace(" .", " ").replace("corollar ", "corollary ") for item in items]


def test_every_numbered_item_of_the_papers_has_a_row():
    """The list of items is written by hand from the texts; the page may use ranges."""
    with (DOC / "studies" / "paper_items.csv").open(encoding="utf-8") as file:
        listed = [tuple(row.values()) for row in csv.DictReader(file)]
    assert len(listed) > 250 and all(len(row) == 3 and all(row) for row in listed)
    text, rows = (DOC / "user_guide" / "papers.rst").read_text(encoding="utf-8"), []
    for paper, section in re.findall(r"\n(\w\d\d): .*\n=+\n((?:(?!\n\w\d\d: )[\s\S])*)", text):
        for cell in re.findall(r"   \* - (.*)\n", section):
            rows += [(paper, item) for item in numbered(cell)]
    assert sorted(rows) == sorted(row[:2] for row in listed) and len(set(rows)) == len(rows)


def controls(source):
    """Control characters of docstrings: a LaTeX command without its raw string."""
    tree = parsed(source)
    nodes = [tree, *(node for node, _ in statements(tree.body) if isinstance(node, DOCUMENTED))]
    text = "".join(ast.get_docstring(node, clean=False) or "" for node in nodes)
    return {character for character in text if character != "\n" and not character.isprintable()}


def test_no_docstring_has_control_characters():
    for path in PATHS:
        assert not controls(text_of(path)), path
    for command in ("theta", "frac", "rho", "bar", "alpha", "varphi"):
        source = f'def f():\n    """The \\{command}."""\n'
        assert controls(source) and not controls(source.replace('"""The', 'r"""The'))


def test_no_forbidden_word_in_guide_and_examples():
    """The list of words that messages and docstrings avoid, see `test_wording`."""
    pages = [*pages_of_documentation(), *(ROOT / "examples").rglob("*.py")]
    assert len(pages) > 60
    uses = {
        f"{path.relative_to(ROOT)}: {words}"
        for path in pages
        for words in forbidden_words(path.read_text(encoding="utf-8"))
    }
    assert not uses, "\n" + "\n".join(sorted(uses))


MODULES = (
    "data.notions",
    "kernels",
    "scores",
    "scorers",
    "smoothers",
    "grouping",
    "datasets",
    "io",
)


def wrong_calls(text):
    """Calls in double backquotes with a parameter that the function does not have."""
    for call in re.findall(r"``(.+?)``", re.sub(r"\s+", " ", text)):
        with contextlib.suppress(SyntaxError):  # a shell command, or two names
            for node in ast.walk(ast.parse(call.replace("...", "0"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    parameters = parameters_of(node.func.id)
                    for keyword in node.keywords:
                        if parameters and keyword.arg and keyword.arg not in parameters:
                            yield f"{call}: {keyword.arg}"


def parameters_of(name):
    """Names of the parameters of a public function or class; empty for others and for any."""
    modules = [skcalib, *(operator.attrgetter(module)(skcalib) for module in MODULES)]
    for function in (getattr(module, name) for module in modules if name in dir(module)):
        parameters = inspect.signature(function).parameters
        if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()):
            return set(parameters)
    return set()


def test_calls_in_the_guide_have_such_parameters():
    """Where another package has the same name, its call stands in the table of migration."""
    wrong = {
        f"{path.name}: {call}"
        for path in (DOC / "user_guide").glob("*.rst")
        if path.stem != "migration"
        for call in wrong_calls(path.read_text(encoding="utf-8"))
    }
    assert not wrong, "\n" + "\n".join(sorted(wrong))
    text = "Use ``calibration_error(y, p, bins=3)`` or ``calibration_error(y, p, n_bins=3)``."
    assert list(wrong_calls(text)) == ["calibration_error(y, p, bins=3): bins"]
    assert list(wrong_calls("``TopK(k=3)``, ``other(y, p, x=3)``, ``skcalib report x.csv``")) == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/*.md"])
def test_relative_links_lead_somewhere(name):
    for path in ROOT.glob(name):
        text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"[a-z]+:", target):
                assert (path.parent / target.partition("#")[0]).exists(), f"{path.name}: {target}"


#: Words that people search for -> the page to which the entry of the word leads.
WORDS = {
    "Brier score": "proper_errors",
    "Class imbalance class_weight Oversampling Undersampling": "recalibrate",
    "Conformal prediction": "venn_abers",
    "Drift": "monitoring",
    "ECE": "binned_errors",
    "Fairness Subgroups": "named_groups",
    "Hosmer-Lemeshow test": "binary_tests",
    "Isotonic regression Platt scaling Temperature scaling Beta calibration": "recalibration",
    "Keras PyTorch": "beyond_one_machine",
    "LLM Grader Segmentation": "clusters",
    "Multilabel Several labels per sample": "soft_labels",
    "Net benefit Decision curve": "decisions",
    "Object detection Bounding boxes": "clusters",
    "O/E Survival analysis": "risk_models",
    "Time series Forecasts over time": "monitoring",
    "Venn-Abers predictor": "venn_abers",
    "XGBoost LightGBM CatBoost": "recalibrate",
}


@pytest.mark.parametrize("words", WORDS)
def test_words_that_people_search_for_are_found(words):
    text = (DOC / "user_guide" / "a_to_z.rst").read_text(encoding="utf-8")
    n_words = 0
    for entry in re.findall(r"^((?:   \S.*\n)+)((?:      .*\n)+)", text, re.MULTILINE):
        terms = [line.strip() for line in entry[0].splitlines()]
        here = [term for term in terms if term in words]
        assert not here or f":doc:`{WORDS[words]}`" in entry[1], here
        n_words += len(" ".join(here).split())
    assert n_words == len(words.split())


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="needs README.md")
def test_readme_and_start_page_have_the_same_example():
    """The doctest of the start page verifies what README prints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"(?s)<!-- ci: example -->\n```python\n(.*?)```", readme)
    (output,) = re.findall(r"(?s)```text\n(.*?)```", readme)
    examples = doctest.DocTestParser().get_examples((DOC / "index.rst").read_text(encoding="utf-8"))
    assert _same(code) == _same("".join(example.source for example in examples))
    assert output == examples[-1].want.replace("<BLANKLINE>", "")


def _same(source):
    """The syntax tree of a source, which does not depend on how lines are broken."""
    return ast.dump(ast.parse(source))


def figurative_words(text, pattern=_FIGURATIVE):
    """The figurative words of a text, each with what is around it."""
    return words_around(pattern, re.sub(r"\s+(?:#:? )?", " ", text).lower())


def prose(source):
    """Comments, docstrings and strings of several words of a source; doctests are left out."""
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token.string.lstrip("#: "))
        elif token.type == tokenize.STRING and " " in token.string:
            yield "\n".join(
                line
                for line in token.string.splitlines()
                if not line.lstrip().startswith((">>>", "..."))
            )
    yield "\n".join(comments)


def test_no_figurative_words():
    """Plain technical English: the field's terms instead of images, see `FIGURATIVE`, `PLAIN`."""
    texts = {path: [path.read_text(encoding="utf-8")] for path in pages_of_documentation()}
    for path in [*(ROOT / "examples").rglob("*.py"), *Path(skcalib.__file__).parent.rglob("*.py")]:
        texts[path] = list(prose(path.read_text(encoding="utf-8")))
    assert len(texts) > 150
    uses = {
        f"{path.name}: {words}"
        for path, parts in texts.items()
        for part in parts
        for words in figurative_words(re.sub(r"``.*?``|`scikit-learn \d+`_", "x", part), _PLAIN)
    }
    assert not uses, "\n" + "\n".join(sorted(uses))


def pages_of_documentation():
    """Paths of README, CONTRIBUTING and the pages that somebody writes."""
    built = {"generated", "auto_examples", "_build"}
    pages = [path for path in DOC.rglob("*.rst") if not built & set(path.parts)]
    return [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


#: Whether a text is figurative, and whether it is plain.
EXAMPLES = {
    "checked at the door": (True, False),
    "a smoother that sees its own label": (True, False),
    "what no forecast can know": (True, False),
    "Errors of one class are blind to it.": (True, False),
    "It is no lower bound.": (True, False),
    "the curve is fitted\n    # anew": (True, False),
    "Validated by public functions.": (False, True),
    "see `Smoother` for the methods": (False, True),
    "An estimate of zero is no evidence of miscalibration.": (False, True),
    "A random walk as the prior.": (False, True),
    "errors whose law does not reject": (False, False),
    "the law of resamples": (False, False),
    "The warning says so.": (False, False),
    "What the paper says or shows": (False, False),
    "The simplest map wins.": (False, False),
    "Binning hides a part.": (False, False),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_figurative_words_are_found(text):
    answers = bool(figurative_words(text)), not figurative_words(text, _PLAIN)
    assert answers == EXAMPLES[text]
