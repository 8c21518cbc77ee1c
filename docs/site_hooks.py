"""What the site shows that no page of docs/ holds: home from the README, references from the code, stray pages.

MkDocs calls these functions by name. Nothing generated is written into the repository.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import poisonproof
from poisonproof import registry
from poisonproof.cli.main import app, load

ROOT = Path(__file__).parents[1]
ELSEWHERE = {  # pages of the repository that lie outside docs/, and their place in the site
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "results.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(!?)\[([^][]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that stand in no list of mkdocs.yml under "Guides"."""
    known = set(_pages_of(config.nav))
    guides = next(section["Guides"] for section in config.nav if "Guides" in section)
    docs = Path(config.docs_dir)
    for page in sorted(docs.rglob("*.md")):
        name = page.relative_to(docs).as_posix()
        if name not in known:
            guides.append(name)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from elsewhere."""
    for source, name in ELSEWHERE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
    files.append(File.generated(config, "reference/api.md", content=api_reference()))
    files.append(File.generated(config, "reference/cli.md", content=cli_reference()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as they stand in the repository become links within the site; to files it does not hold, plain words."""
    here = page.file.src_uri
    home = {name: source for source, name in ELSEWHERE.items()}.get(here, f"docs/{here}")

    def within_site(link: re.Match[str]) -> str:
        shows, words, target, anchor = link.groups()
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        wanted = normpath(f"{dirname(home)}/{target}" if dirname(home) else target)
        inside = ELSEWHERE.get(wanted) or (wanted.removeprefix("docs/") if wanted.startswith("docs/") else None)
        if inside is None:
            return words
        return f"{shows}[{words}]({relpath(inside, dirname(here) or '.')}{anchor or ''})"

    return LINK.sub(within_site, markdown)


def public_names() -> dict[str, tuple[str, ...]]:
    """Every module with an ``__all__``, `poisonproof` itself first, and the names that it gives."""
    modules = ["poisonproof", *(found.name for found in pkgutil.walk_packages(poisonproof.__path__, "poisonproof."))]
    found = {name: tuple(getattr(import_module(name), "__all__", ())) for name in modules}
    return {name: names for name, names in found.items() if names}


def api_reference() -> str:
    """A page with the docstring of every public name, each shown once, where a reader would import it from."""
    parts = ["# Python reference\n\nMade from the docstrings. Each states first what is guaranteed.\n"]
    shown: dict[int, str] = {}
    for module, names in public_names().items():
        parts.append(f"## `{module}`\n\n{_first_line(import_module(module))}\n")
        for name in names:
            thing = _get(module, name)
            if id(thing) in shown and callable(thing):
                parts.append(f"`{module}.{name}` is [`{shown[id(thing)]}`](#{shown[id(thing)]}).\n")
            else:
                shown[id(thing)] = f"{module}.{name}"
                parts.append(f"::: {module}.{name}\n")
    return "\n".join(parts)


def cli_reference() -> str:
    """A page with the help of every command."""
    group = typer.main.get_command(app)
    context = group.make_context("poisonproof", [], resilient_parsing=True)
    parts = [
        "# Command line reference\n\nMade from `--help`. stdout is data (`--json` gives JSON), stderr is progress.\n",
        f"{import_module('poisonproof.cli.main').__doc__.partition(chr(10) * 2)[2]}",
        "| command | what it does |\n|---|---|",
    ]
    found = {name: load(name) for name in registry.names("commands")}
    parts += [f"| [`{name}`](#poisonproof-{name}) | {_cell(_paragraphs(one.help)[0])} |" for name, one in found.items()]
    parts += [_command_section(name, one, context) for name, one in found.items()]
    parts.append(
        "## Shell completion\n\n`poisonproof --install-completion` completes commands, options and values (data sets, "
        "learners, methods) in bash, zsh, fish and PowerShell; `poisonproof --show-completion` prints the script "
        "instead.\n"
    )
    return "\n".join(parts)


def _command_section(name: str, command: Any, parent: Any) -> str:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    usage = " ".join(["poisonproof", name, *command.collect_usage_pieces(context)])
    lines = [f"\n## poisonproof {name}\n", *_paragraphs(command.help), "", f"```text\n{usage}\n```\n"]
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        panel = getattr(parameter, "rich_help_panel", None) or "Arguments and options"
        panels.setdefault(panel, []).append(_parameter_row(parameter, context))
    for panel, rows in panels.items():
        lines += [f"| {panel} | |", "|---|---|", *rows, ""]
    lines.append(command.epilog or "")
    return "\n".join(lines)


def _parameter_row(parameter: Any, context: Any) -> str:
    names, words = parameter.get_help_record(context)
    return f"| `{_cell(names)}` | {_cell(words)} |"


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) + "\n" for part in (text or "").split("\n\n") if part.strip()]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_line(module: Any) -> str:
    return (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _get(module: str, dotted: str) -> Any:
    *inner, name = dotted.split(".")
    return getattr(import_module(".".join([module, *inner])), name)


def _pages_of(nav: Any) -> Iterator[str]:
    """The pages that a navigation names, at any depth."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for part in nav.values():
            yield from _pages_of(part)
    elif nav:
        for part in nav:
            yield from _pages_of(part)
