"""The licenses of all that is compiled into the binaries: most ask that their text goes with every copy.

`cargo metadata` says which libraries those are. Libraries of C come in the sources of the crates that build them,
and so do their licenses. SQLite itself is in the public domain.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from tools import Skip, run

ROOT = Path(__file__).resolve().parent.parent

BINARIES = (("Cargo.toml", "synqlite"), ("ext/Cargo.toml", "synqlite-extension"))
"""The manifests of the binaries that are handed out, and their packages there."""

NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")

HEAD = """\
The programs of this package contain the libraries that follow, each under its own license. SynQLite itself is
under the Apache License 2.0 (the file LICENSE); SQLite is in the public domain (https://sqlite.org/copyright.html).
"""


def write(into: Path) -> None:
    """Writes one text: for each license the libraries that it is of, then its text."""
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        raise Skip("there is no cargo, so nobody says what is compiled in")
    host = next(line.split()[1] for line in run(["rustc", "-vV"]).splitlines() if line.startswith("host:"))
    libraries: dict[tuple[str, str], dict[str, Any]] = {}
    for manifest, package in BINARIES:
        libraries |= compiled_in(manifest, package, host)
    texts: dict[str, list[str]] = {}
    # Many are the same but for where their lines end.
    spelled: dict[str, str] = {}
    for (name, version), library in sorted(libraries.items()):
        said = f"{name} {version} ({library['license'] or 'see below'})"
        found = list(licenses(Path(library["manifest_path"]).parent))
        if not found and not library["license"]:
            sys.exit(f"error: {name} {version} says nothing of its license. Look it up, or do without it")
        # One without a text of its own names a license whose text others bring.
        for text in found or [""]:
            of = texts.setdefault(spelled.setdefault(" ".join(text.split()), text), [])
            of.extend([said] if said not in of else [])
    bare = texts.pop("", [])
    parts = [HEAD, *(f"{chr(10).join(of)}\n\n{text}" for text, of in sorted(texts.items(), key=lambda item: item[1]))]
    if bare:
        parts.append("These bring no text of their own:\n\n" + "\n".join(bare))
    into.write_text(f"\n\n{'-' * 78}\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def compiled_in(manifest: str, package: str, host: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The libraries of others that are compiled into a package: not what only builds or tests it."""
    words = ["cargo", "metadata", "--quiet", "--locked", "--format-version", "1", "--filter-platform", host]
    # What cargo says besides would spoil the answer.
    told = json.loads(run([*words, "--manifest-path", ROOT / manifest]).splitlines()[-1])
    packages = {each["id"]: each for each in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    (first,) = (each["id"] for each in packages.values() if each["name"] == package)
    waiting, seen = [first], {first}
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            made = packages[dependency["pkg"]]
            macro = any("proc-macro" in target["kind"] for target in made["targets"])
            if normal and not macro and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    others = (packages[each] for each in seen if packages[each]["source"] is not None)
    return {(each["name"], each["version"]): each for each in others}


def licenses(crate: Path) -> Any:
    """The texts of the licenses in a crate, those of libraries of C in it too."""
    for path in sorted(crate.rglob("*")):
        deep = len(path.relative_to(crate).parts)
        if deep <= 4 and path.is_file() and path.name.lower().startswith(NAMES) and path.suffix not in (".rs", ".c", ".h"):
            yield path.read_text(encoding="utf-8", errors="replace").strip()
