"""The site: built in strict mode without a network; links and anchors lead somewhere; nothing public is left out."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import poisonproof
from command_line import COMMANDS

pytest.importorskip("mkdocs", reason="SITE NOT BUILT: pip install '.[docs]'")

ROOT = Path(__file__).parents[2]
LARGEST_PICTURE = 60_000
DEAD_END = """import socket
def refuse(*args, **more):
    raise OSError("the site must be built without a network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli()"""


class Page(HTMLParser):
    """Anchors, links, and whatever a browser would fetch by itself."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.fetched, self.words = {""}, [], [], []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in found:
            self.fetched.append(found["src"])
        if tag == "link" and found.get("rel") not in ("canonical", "prev", "next", "edit"):
            self.fetched.append(found.get("href", ""))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-c", DEAD_END, "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")} | {"": folder}


def pages_of(site):
    return {name: page for name, page in site.items() if name and name != "404.html"}


def test_links_and_anchors_lead_somewhere(site):
    pages, folder, checked = pages_of(site), site[""], 0
    for name, page in pages.items():
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            there = os.path.normpath((Path(name).parent / unquote(parts.path)).as_posix()) if parts.path else name
            assert (folder / there).is_file(), f"{name} links to {link}"
            if parts.fragment and there in pages:
                assert unquote(parts.fragment) in pages[there].anchors, f"{name} links to {link}"
            checked += 1
    assert checked > 1000


def test_pages_fetch_nothing_from_elsewhere(site):
    for name, page in pages_of(site).items():
        assert [link for link in page.fetched if urlsplit(link).scheme or link.startswith("//")] == [], name


def test_every_page_of_the_repository_is_in_the_navigation(site):
    home = pages_of(site)["index.html"]
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() in home.links
    for name in ("reference/api.html", "reference/cli.html", "results.html", "changelog.html"):
        assert name in home.links


@pytest.mark.parametrize("module", ["poisonproof", "poisonproof.core.certify", "poisonproof.verification"])
def test_the_python_reference_has_every_public_name(site, module):
    page = pages_of(site)["reference/api.html"]
    loaded = sys.modules.get(module) or __import__(module, fromlist=["__all__"])
    assert loaded.__all__
    for name in loaded.__all__:
        assert f"{module}.{name}" in page.anchors or f"{module}.{name} is poisonproof.{name}" in page.text, name


def test_the_python_reference_knows_all_modules_with_public_names(site):
    """A module that gets an __all__ of its own is shown without anybody's doing."""
    page = pages_of(site)["reference/api.html"]
    source = Path(poisonproof.__file__).parent
    for file in source.rglob("*.py"):
        if re.search(r"^__all__ = ", file.read_text(), re.M):
            parts = file.relative_to(source.parent).with_suffix("").parts
            assert ".".join(parts).removesuffix(".__init__").replace(".", "") in page.anchors


def test_the_python_reference_shows_methods_and_what_they_promise(site):
    page = pages_of(site)["reference/api.html"]
    assert {
        "poisonproof.FiniteAggregationClassifier.certify",
        "poisonproof.Spread.planes",
        "poisonproof.Certificate.radius_against",
    } <= (page.anchors)
    assert "up to radius samples in total, the prediction stays the same" in " ".join(page.text.split())
    assert not [anchor for anchor in page.anchors if re.match(r"poisonproof\..*\._", anchor)]


def first_words(text):
    """The beginning of a help, as a page shows it, up to the first that is set in code."""
    return " ".join(text.split()).partition("`")[0].strip()


def test_the_command_line_reference_has_every_command_and_option(site):
    page = pages_of(site)["reference/cli.html"]
    parts = re.split(r"poisonproof ([\w-]+)¶", page.text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name, command in COMMANDS.items():
        assert f"poisonproof-{name}" in page.anchors
        section = " ".join(sections[name].split())
        assert " ".join(command.help.split("\n\n")[0].split()).replace("`", "") in section
        assert "Example: poisonproof" in section
        for parameter in command.params:
            shown = [one for one in parameter.opts if one.startswith("--")] or [parameter.metavar or parameter.name]
            assert all(one.lower() in section.lower() for one in shown), f"{name} {shown}"
            assert parameter.help, f"{name} {shown}"  # an older Typer beside a newer Click lost that of arguments
            assert first_words(parameter.help) in section, f"{name} {shown}"


def test_the_picture_of_the_readme_is_small_and_real():
    text = (ROOT / "README.md").read_text()
    assert "](docs/curve.svg)" in text
    picture = (ROOT / "docs" / "curve.svg").read_text()
    assert len(picture) < LARGEST_PICTURE
    record = (ROOT / "research" / "paper" / "published.json").read_text()
    for stated in re.findall(r"best published figures are ([\d.]+) %\s+and ([\d.]+) %", text):
        assert all(number in record for number in stated)
        assert all(f"{float(number):.1f}" in picture for number in stated)
    assert "<script" not in picture
