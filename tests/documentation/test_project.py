"""Files around the package that hosts, installers and other programs read."""

import re
import runpy
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest
from sources import parsed

import skcalib

ROOT = Path(__file__).parents[2]
yaml = pytest.importorskip("yaml") if (ROOT / ".github").exists() else None
in_checkout = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="needs the checkout")


def text_of(name):
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["CITATION.cff", "conda/recipe.yaml"])
def test_one_version_everywhere(name):
    (version,) = re.findall(r'^ *version: "?([\d.]+)"?$', text_of(name), re.MULTILINE)
    assert version == skcalib.__version__


@in_checkout
def test_five_papers_are_cited():
    cited = yaml.safe_load(text_of("CITATION.cff"))
    assert cited["cff-version"] == "1.2.0" and cited["license"] == "BSD-3-Clause"
    assert [reference["notes"][:3] for reference in cited["references"]] == [
        "P24",
        "W19",
        "G22",
        "F24",
        "L23",
    ]
    guide = text_of("doc/user_guide/symbols.rst")
    for reference in cited["references"]:
        assert reference["title"] in re.sub(r"\s+", " ", guide)
        assert all(author["family-names"] in guide for author in reference["authors"])


@in_checkout
def test_lower_bounds_of_the_recipe():
    """Those of pyproject.toml; matplotlib-base is matplotlib without Qt."""
    declared = tomllib.loads(text_of("pyproject.toml"))["project"]
    recipe = re.sub(r"matplotlib-base", "matplotlib", text_of("conda/recipe.yaml"))
    run = set(re.findall(r"^    - ([\w-]+) >=([\d.]+)$", recipe.split("  run:")[1], re.MULTILINE))
    assert {f"{name}>={version}" for name, version in run} == set(declared["dependencies"])
    assert f'python_min: "{declared["requires-python"].removeprefix(">=")}"' in recipe


@in_checkout
def test_files_of_the_host_can_be_read():
    for path in [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml"]:
        assert yaml.safe_load(path.read_text(encoding="utf-8")), path
    workflow = yaml.safe_load(text_of(".github/workflows/ci.yml"))
    assert {"run": "bash .ci/run"} in workflow["jobs"]["all"]["steps"]
    for name in ("SECURITY", "CODE_OF_CONDUCT", "PULL_REQUEST_TEMPLATE"):
        assert text_of(f".github/{name}.md")


@in_checkout
def test_supported_versions_agree():
    declared = tomllib.loads(text_of("pyproject.toml"))["project"]
    listed = [c.rpartition(" ")[2] for c in declared["classifiers"] if "Python :: 3." in c]
    assert listed == ["3.11", "3.12", "3.13", "3.14"]
    assert f"{listed[0]} to {listed[-1]}" in text_of("doc/release.rst")
    jobs = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]
    assert jobs["versions"]["strategy"]["matrix"]["python"] == [*listed[1:], "3.14t"]


def test_llms_is_current():
    """Run python doc/make_llms.py after a change of a public name or of its first line."""
    text_of("doc/make_llms.py")
    made = runpy.run_path(str(ROOT / "doc" / "make_llms.py"))
    assert text_of("doc/llms.txt") == made["text"]()


def test_what_was_renamed_has_its_new_place():
    """Modules, and names in them, in the column "now" of the tables of CHANGELOG.md."""
    rows = [line.split("|") for line in text_of("CHANGELOG.md").splitlines() if line[:1] == "|"]
    now = " ".join(row[2] for row in rows if len(row) == 4)
    packages = "|".join(path.name for path in Path(skcalib.__file__).parent.iterdir())
    places = re.findall(rf"``(?:skcalib\.)?((?:{packages})(?:\.\w+)*)``", now)
    assert len(places) > 30
    for place in places:
        assert resolve_name(f"skcalib.{place}") is not None


CHANGED = runpy.run_path(str(ROOT / ".ci" / "changed.py")) if (ROOT / ".ci").exists() else {}


@in_checkout
@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("skcalib/errors/corp.py", ["tests/errors", CHANGED.get("NUMBERS")]),
        ("skcalib/data/clusters.py", ["tests/data", "tests/laws"]),
        (
            "skcalib/stats/means.py",
            [CHANGED.get("NUMBERS"), "tests/significance", "tests/stats"],
        ),
        ("skcalib/scores.py", ["tests/laws", "tests/test_scores.py"]),
        ("skcalib/_util/validation.py", ["tests/_util", "tests/public"]),
        ("skcalib/testing/__init__.py", ["tests/laws"]),
        ("skcalib/__init__.pyi", ["tests/public"]),
        ("tests/test_scores.py", ["tests/test_scores.py"]),
        ("tests/test_deleted.py", []),
        ("doc/design.rst", ["tests/documentation"]),
        ("pyproject.toml", ["tests/documentation/test_project.py"]),
    ],
)
def test_tests_of_a_changed_file(changed, tests):
    assert CHANGED["tests_of"](changed) == tests


@in_checkout
def test_tests_that_use_a_changed_helper():
    judges = CHANGED["tests_of"]("tests/golden.py")
    assert "tests/test_golden.py" in judges and "tests/test_scores.py" not in judges


@in_checkout
def test_every_changed_module_has_tests():
    modules = [path for path in (ROOT / "skcalib").rglob("*.py") if path.parent.name != "skcalib"]
    for path in [*modules, *(ROOT / "skcalib").glob("*.py")]:
        assert CHANGED["tests_of"](path.relative_to(ROOT).as_posix()), path


@in_checkout
def test_changed_files_of_a_repository(tmp_path, monkeypatch):
    """Those of commits, of the working tree, and new ones; not those that main changed since."""
    monkeypatch.setitem(CHANGED["git"].__globals__, "ROOT", tmp_path)
    git = CHANGED["git"]
    for name in ("user.name=a", "user.email=a@b.c"):
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{len(name) > 12:d}", name.partition("=")[2])
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{len(name) > 12:d}", name.partition("=")[0])
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")

    def commit(*names):
        for name in names:
            (tmp_path / name).write_text(f"{name} changed")
        git("add", ".")
        git("commit", "-qm", "change")

    git("init", "-qb", "main")
    for name in "abcd":
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "branch")
    commit("a")
    git("checkout", "-q", "main")
    commit("d")
    git("checkout", "-q", "branch")
    (tmp_path / "b").write_text("in the working tree")
    (tmp_path / "new").write_text("new")
    assert CHANGED["changed_files"]() == ["a", "b", "new"]


MUTANTS = runpy.run_path(str(ROOT / ".ci" / "mutants.py")) if (ROOT / ".ci").exists() else {}
MUTATED = """
def x_share__mutmut_orig(a: float, b=1):
    return a / b

def x_share__mutmut_1(a: float, b=1):
    return a * b

def x_share__mutmut_2(a: float, b=2):
    return a / b

def x_text__mutmut_orig(a):
    return "share"

def x_text__mutmut_1(a):
    return "XXshareXX"

class Mean:
    def xǁMeanǁvalue__mutmut_orig(self):
        return (self.a | self.b,
                self.b)

    def xǁMeanǁvalue__mutmut_1(self):
        return (self.a & self.b,
                self.b)
"""


@in_checkout
def test_equivalent_mutants_are_named_by_their_text():
    """By a statement or a part of it, however its lines are broken."""
    changed = MUTANTS["mutants"]("skcalib/a.py", MUTATED)
    assert list(changed.values()) == [
        ("share", "return a / b", "return a * b"),
        ("share", "a, b=1):", "a, b=2):"),
        ("Mean.value", "return (self.a | self.b, self.b)", "return (self.a & self.b, self.b)"),
    ]
    lines = [
        "skcalib/a.py | share | a / b | a * b | a reason",
        "skcalib/a.py | Mean.value | self.a | self.b | self.a & self.b | an operator, too",
        "skcalib/a.py | share | a / b | a + b | no such mutant",
        "skcalib/b.py | share | a / b | a + b | another module",
    ]
    left, unused = MUTANTS["sort_out"]("skcalib/a.py", changed, lines)
    assert left == ["skcalib.a.x_share__mutmut_2"] and unused == lines[2:3]


@in_checkout
def test_listed_mutants_are_of_functions_that_exist():
    modules = MUTANTS["all_modules"]()
    for line in MUTANTS["equivalent_mutants"]():
        module, function, *_, reason = line.split(" | ")
        assert module in modules and line.count(" | ") >= 4 and len(reason) > 4, line
        tree = parsed(text_of(module))
        for name in function.split("."):
            (tree,) = (node for node in tree.body if getattr(node, "name", None) == name)


@in_checkout
def test_parts_of_a_week_are_all_modules():
    jobs = yaml.safe_load(text_of(".github/workflows/mutation.yml"))["jobs"]
    assert jobs["mutants"]["strategy"]["matrix"]["part"] == [1, 2]
    shards = [f"{2 * day - 2 + part}/14" for day in range(1, 8) for part in (1, 2)]
    modules = MUTANTS["all_modules"]()
    parts = [MUTANTS["part"](modules, shard) for shard in shards]
    assert [module for part in parts for module in part] == modules and len(modules) > 50
    for module in modules:
        assert Path(MUTANTS["tests_of"](module)[2]).parts[0] == "tests", module
        assert MUTANTS["tests_of"](module)[2] not in MUTANTS["LAWS"], module


#: Numbers in CONTRIBUTING.md: the words around each, and where it lives.
STATED = [
    (r"up to (1e-\d+) outside", "skcalib/_util/validation.py", r"PROBABILITY_ROUNDING = (\S+)"),
    (r"Lines of at most (\d+) characters", "pyproject.toml", r"line-length = (\d+)"),
    (r"stay under (\d+) lines", "tests/documentation/test_documentation.py", r'"\\n"\) < (\d+)'),
    (r"root has at most (\d+) names", "tests/public/test_root.py", r"MOST_NAMES = (\d+)"),
    (r"default is (\d+), which", "tests/conftest.py", r"option.every = 1 if .* else (\d+)"),
    (r"runs every (\d+)rd", ".ci/run", r"-s slow -- --every (\d+)"),
    (r"fewer than (\d+) % of the mutants", ".ci/mutants.py", r'"--least".* default=(\d+)'),
    (r"at most (\d+) words", "tests/documentation/test_readability.py", r"MOST_WORDS = (\d+)"),
    (r"below (\d+) minutes", "tests/documentation/test_readability.py", r"MOST_MINUTES = (\d+)"),
    (r"code of at most (\d+)", "tests/documentation/test_readability.py", r"len\(line\) > (\d+)"),
]
#: Numbers of others: 0 and 1, mutmut 3, the absolute error of pytest.approx, lines of git.
CONSTANTS = {"0", "1", "3", "1e-12", "72"}


@in_checkout
def test_numbers_of_contributing_are_those_of_the_code():
    text = re.sub(r"```.*?```|`[^`]*`|^\d+\. ", "", text_of("CONTRIBUTING.md"), flags=re.S | re.M)
    text = re.sub(r"\s+", " ", text)
    for words, file, source in STATED:
        stated, lives = re.search(words, text), re.search(source, text_of(file))
        assert stated and lives and stated[1] == lives[1], (words, file)
        text = text[: stated.start(1)] + text[stated.end(1) :]
    assert set(re.findall(r"\d+(?:e-\d+|\.\d+)?", text)) <= CONSTANTS
