"""Make what the README and the start page show of a report: its text, its picture, and their words.

python doc/make_start_page.py            # after a number or a word of the report changed
python doc/make_start_page.py --check    # fails if a page or the picture is not current

The code is that of README.md. Its output goes to README.md and doc/index.rst, the description of
the picture to all pages that show it. The picture, ``doc/_static/report.png``, contains the text of
the page that it shows, which ``--check`` compares: pixels depend on the machine. Chromium draws it.
"""

import re
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from html import unescape
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

DOC = Path(__file__).resolve().parent
README, START, PICTURE = DOC.parent / "README.md", DOC / "index.rst", DOC / "_static" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT, MARGIN = 1040, 1600, 18
CODE = re.compile(r"(?s)<!-- ci: example -->\n```python\n(.*?)```")
#: What precedes the output of the code in a page, and the output.
PRINTED = {
    README: re.compile(r"(?s)(?<=```text\n)(.*?)(?=```)"),
    START: re.compile(r"(?s)(?<=>>> print\(report\)\n)(.*?\n)(?=\n)"),
}
#: The description of the picture in Markdown and in reStructuredText.
MARKDOWN = re.compile(r"(?<=!\[)([^]]*)(?=\]\(doc/_static/report\.png\))")
DESCRIBED = re.compile(
    r"(?<=:: /_static/report\.png\n   :alt: )(.*(?:\n {9}\S.*)*)|"
    r"(?<=:: /_static/report\.png\n   :alt:\n)( {6}\S.*(?:\n {6}\S.*)*)"
)


def example():
    """What the code of README.md prints, and the page that it writes."""
    (code,) = CODE.findall(README.read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()) as printed:
        exec(code, {})
        return printed.getvalue(), Path("report.html").read_text(encoding="utf-8")


def first_screen(page):
    """The text of a page above its details."""
    text = re.sub(r"(?s)<(head|style|svg)\b.*?</\1>|<[^>]*>", " ", page.partition("<details")[0])
    return " ".join(unescape(text).split())


def description(printed):
    """The picture in words, for those who cannot see it."""
    text = " ".join(printed.split())
    (headline,) = re.findall(r"intervals\. (.*?\.) - ", text)
    (error,) = re.findall(r"- (Typical error): (.*?) \(", text)
    maps = re.findall(r"Recalibrate with (.*?):", text)
    diagrams = f"Diagrams before and after {maps[0]}." if maps else "A reliability diagram."
    return f"First screen of a report. {headline} {' '.join(error)}. {diagrams}"


def pages():
    """The pages that show the report or its picture, with the texts that they have now."""
    guide = sorted((DOC / "user_guide").glob("*.rst"))
    found = {path: path.read_text(encoding="utf-8") for path in (README, START, *guide)}
    return {path: text for path, text in found.items() if "_static/report.png" in text}


def current(printed):
    """The texts that the pages must have."""
    words = description(printed)
    wrapped = fill(words, 140, initial_indent=" " * 9, subsequent_indent=" " * 9).lstrip()
    texts = pages()
    for path, pattern in PRINTED.items():
        output = printed if path == README else re.sub(r"(?m)^$\n", "<BLANKLINE>\n", printed)
        texts[path] = pattern.sub(lambda _, output=output: output, texts[path], count=1)
    for path, text in texts.items():
        pattern, told = (MARKDOWN, words) if path == README else (DESCRIBED, wrapped)
        texts[path], times = pattern.subn(lambda _, told=told: told, text)
        if times != text.count("_static/report.png"):
            sys.exit(f"{path}: each report.png needs a description in one paragraph")
    return texts


def picture_text():
    """The text of the page that the picture shows, as the picture contains it."""
    with Image.open(PICTURE) as image:
        return image.info.get("Description", "")


def draw(page):
    """Write the picture: a screenshot of the page above its details."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(
            f"{PICTURE} was not drawn, the texts are current: Chromium is needed, one of "
            f"{', '.join(BROWSERS)} (apt-get install chromium)."
        )
    with TemporaryDirectory() as folder, chdir(folder):
        hidden = "<style>details { display: none }</style></head>"
        Path("report.html").write_text(page.replace("</head>", hidden, 1), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
        options += [f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder}/profile"]
        options += ["--screenshot=shot.png", Path("report.html").absolute().as_uri()]
        done = subprocess.run([browser, *options], capture_output=True, text=True, timeout=120)
        if not Path("shot.png").exists():
            sys.exit(f"{browser} has drawn no picture: {done.stderr.strip()}")
        with Image.open("shot.png") as shot:
            image = shot.convert("RGB")
    rows = np.asarray(image)
    drawn = np.flatnonzero((rows != rows[0, 0]).any(axis=(1, 2)))
    info = PngInfo()
    info.add_itxt("Description", first_screen(page))
    image = image.crop((0, 0, image.width, min(drawn[-1] + MARGIN, image.height)))
    image.quantize(256, dither=Image.Dither.NONE).save(PICTURE, optimize=True, pnginfo=info)


def main():
    printed, page = example()
    texts = current(printed)
    if "--check" not in sys.argv[1:]:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        if picture_text() != first_screen(page):
            draw(page)
        return
    old = [path for path, text in pages().items() if texts[path] != text]
    old += [PICTURE] if picture_text() != first_screen(page) else []
    if old:
        names = ", ".join(str(path.relative_to(DOC.parent)) for path in old)
        sys.exit(f"not current: {names}. Run python doc/make_start_page.py")


if __name__ == "__main__":
    main()
