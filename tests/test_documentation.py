"""Public names, pages and examples are where a reader of the documentation looks for them."""

import ast
import re
from pathlib import Path

import pytest
from verdict_texts import forbidden_words

import skcalib
import skcalib.datasets
import skcalib.testing

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"
pytestmark = pytest.mark.skipif(not DOC.exists(), reason="needs the folder doc")
NO_PAGE = {
    "__version__",  # a string
    "datasets",  # a module whose functions are listed
    "kernels.KERNELS",  # names for messages
    "scores.Divergence",  # bases of bases
    "smoothers.OutOfFoldSmoother",
    "smoothers.PartitionSmoother",
}


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOC / "api.rst").read_text(), re.MULTILINE))
    public = set(skcalib.__all__)
    for module in ("datasets", "kernels", "notions", "scores", "smoothers", "testing"):
        public |= {f"{module}.{name}" for name in getattr(skcalib, module).__all__}
    assert public - listed == NO_PAGE


def test_every_name_in_the_reference_exists():
    for name in re.findall(r"^   ([\w.]+)$", (DOC / "api.rst").read_text(), re.MULTILINE):
        found = skcalib
        for part in name.split("."):
            found = getattr(found, part)


@pytest.mark.parametrize("folder", ["user_guide", "extend"])
def test_every_page_is_in_its_table_of_contents(folder):
    index = (DOC / folder / "index.rst").read_text()
    pages = {path.stem for path in (DOC / folder).glob("*.rst")} - {"index"}
    assert not {page for page in pages if f"   {page}\n" not in index}


@pytest.mark.skipif(not (ROOT / "examples").exists(), reason="needs the folder examples")
def test_examples_are_short_and_draw():
    for path in (ROOT / "examples").glob("plot_*.py"):
        text = path.read_text()
        assert text.count("\n") < 80, f"{path.name} has 80 lines or more"
        assert "plt.show()" in text, f"{path.name} shows no figure"


@pytest.mark.skipif(not (ROOT / "examples").exists(), reason="needs the folder examples")
def test_references_to_examples_exist():
    for path in DOC.glob("**/*.rst"):
        if {"_build", "auto_examples", "generated"} & set(path.parts):
            continue
        for name in re.findall(r"sphx_glr_auto_examples_(\w+)\.py", path.read_text()):
            assert (ROOT / "examples" / f"{name}.py").exists(), f"{path.name} names {name}"


def docstrings(source):
    """Name and text of the docstrings of a source, as Python reads them."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds):
            yield getattr(node, "name", "module"), ast.get_docstring(node, clean=False) or ""


def controls(text):
    """Control characters but the end of a line: a LaTeX command without its raw string."""
    return {character for character in text if character != "\n" and not character.isprintable()}


def test_no_docstring_has_control_characters():
    for path in Path(skcalib.__file__).parent.rglob("*.py"):
        for name, text in docstrings(path.read_text(encoding="utf-8")):
            assert not controls(text), f"{name} of {path.name} has {controls(text)}"


def test_control_characters_would_be_found():
    for command in ("theta", "frac", "rho", "bar", "alpha", "varphi"):
        source = f'def f():\n    """The \\{command}."""\n'
        assert controls(dict(docstrings(source))["f"])
        assert not controls(dict(docstrings(source.replace('"""The', 'r"""The')))["f"])


def test_no_forbidden_word_in_guide_and_examples():
    """The list of words that messages and docstrings avoid, see `test_wording`."""
    built = {"generated", "auto_examples", "_build"}
    pages = [path for path in DOC.rglob("*.rst") if not built & set(path.parts)]
    pages += [*(ROOT / "examples").rglob("*.py"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert len(pages) > 60
    found = {
        f"{path.relative_to(ROOT)}: {words}"
        for path in pages
        for words in forbidden_words(path.read_text(encoding="utf-8"))
    }
    assert not found, "\n" + "\n".join(sorted(found))
