#!/usr/bin/env python3
"""Applies the recorded moves and renames to a tree: apply.py TREE [FILE...]

The tables beside this file, *.tsv, are applied in the order of their names. Their rows:

    move  OLD  NEW          a file or folder changes its path; longest OLD wins
    word  OLD  NEW  [IN]    an identifier changes its name in *.rs files below IN (default: all)
    code  OLD  NEW  [IN]    the same, in comments only between backticks: for names that are words
    text  OLD  NEW  [IN]    an exact text changes in *.rs and Cargo.toml files below IN

IN is one path prefix after the moves of the same table. With FILEs, paths relative to TREE, only
these files change. A planted bug is carried over the moves and renames by applying them to the
tree that it was made for: see `cargo xtask prove --carry`.
"""
import os
import re
import sys
from pathlib import Path

ENDINGS = (".rs", "Cargo.toml")


def rows(table):
    for number, line in enumerate(table.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if fields[0] not in ("move", "word", "code", "text") or len(fields) not in (3, 4):
            sys.exit(f"{table}:{number}: expected move, word, code or text, OLD, NEW and perhaps IN")
        yield fields + [""] * (4 - len(fields))


def moved(path, moves):
    for old, new in moves:
        if path == old or path.startswith(old + "/"):
            return new + path[len(old):]
    return path


def renamed(text, path, renames):
    for kind, old, new, place in renames:
        if kind == "text":
            old, new = old.replace("\\n", "\n"), new.replace("\\n", "\n")
        if not path.startswith(place) or old not in text:
            continue
        if kind == "text":
            text = text.replace(old, new)
            continue
        pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(old)}(?![A-Za-z0-9_])")
        parts = []
        for line in text.splitlines(keepends=True):
            if kind == "code" and line.lstrip(" +-").startswith("//"):
                quoted = line.split("`")
                quoted[1::2] = [pattern.sub(new, part) for part in quoted[1::2]]
                parts.append("`".join(quoted))
            else:
                parts.append(pattern.sub(new, line))
        text = "".join(parts)
    return text


def files_of(tree):
    for folder, folders, names in os.walk(tree):
        folders[:] = [f for f in folders if f not in ("target", ".git")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), tree)


def drop_empty(folder):
    while not os.listdir(folder):
        folder.rmdir()
        folder = folder.parent


def apply(tree, table, only):
    listed = list(rows(table))
    moves = sorted(((o, n) for k, o, n, _ in listed if k == "move"), key=lambda m: -len(m[0]))
    renames = [row for row in listed if row[0] != "move"]
    result = []
    for path in sorted(only if only is not None else files_of(tree)):
        new = moved(path, moves)
        result.append(new)
        source, target = tree / path, tree / new
        if not source.is_file() or (new == path and not path.endswith(ENDINGS)):
            continue
        if new.endswith(ENDINGS):
            before = source.read_text()
            after = renamed(before, new, renames)
        else:
            before = after = None
        if new != path:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
            drop_empty(source.parent)
        if after != before:
            target.write_text(after)
    return result


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tree = Path(sys.argv[1])
    only = sys.argv[2:] or None
    here = Path(__file__).resolve().parent
    for table in sorted(here.glob("*.tsv")):
        only_after = apply(tree, table, only)
        only = only_after if only is not None else None


if __name__ == "__main__":
    main()
