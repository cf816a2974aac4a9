"""The tests of what has changed since the branch left main: python .ci/changed.py

Changed files are those of the commits since then, of the working tree, and new ones. Prints two
lines: the files of tests that changed themselves, and the tests of everything else that changed.
"""

import re
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ["tests/documentation/test_layers.py", "tests/public/test_annotations.py"]
# what each function gives on fixed data
NUMBERS = "tests/laws/test_recorded_numbers.py"
# tests outside of the folder of the name of a package or module; of the others the recorded numbers
ELSEWHERE = {
    "_util": ["tests/public"],
    "testing": ["tests/laws"],
    "data": ["tests/laws"],
    "scores": ["tests/laws"],
    "kernels": ["tests/laws"],
    "stats": ["tests/significance", NUMBERS],
    "__init__": ["tests/public"],
    "__init__.pyi": ["tests/public"],
    "__main__": ["tests/cli"],
}


def git(*arguments):
    """The lines that a command of git prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def changed_files():
    """Paths of the files that differ from where the branch left main."""
    for main in ("origin/main", "main", "HEAD"):
        if start := git("merge-base", "HEAD", main):
            break
    new = git("ls-files", "--others", "--exclude-standard")
    return sorted({*git("diff", "--name-only", *start), *new})


def tests_of(path):
    """Paths of the tests that judge a changed file, as far as they exist."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    if parts[0] == "skcalib":
        unit = parts[1].removesuffix(".py")
        places = {f"tests/{unit}", f"tests/test_{unit}.py", *ELSEWHERE.get(unit, [NUMBERS])}
        return sorted(place for place in places if (ROOT / place).exists())
    if parts[0] == "tests":
        if name.startswith("test_") and name.endswith(".py"):
            return [path] if (ROOT / path).exists() else []
        if name == "conftest.py" or not name.endswith(".py"):
            return []
        imported = re.compile(rf"^(from|import) {name.removesuffix('.py')}\b", re.MULTILINE)
        files = (ROOT / "tests").rglob("test_*.py")
        users = [file for file in files if imported.search(file.read_text(encoding="utf-8"))]
        return sorted(file.relative_to(ROOT).as_posix() for file in users)
    if parts[0] in ("doc", "examples") or name.endswith(".md"):
        return ["tests/documentation"]
    return ["tests/documentation/test_project.py"]


def main():
    changed = changed_files()
    themselves = [path for path in changed if tests_of(path) == [path]]
    judges = {test for path in changed for test in tests_of(path)} - set(themselves)
    print(*themselves)
    print(*sorted(judges.union(ALWAYS)))


if __name__ == "__main__":
    main()
