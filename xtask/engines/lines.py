"""The text files of engines/: reading, writing and comparing them. engines/README.md describes their form."""

import re
import sys
from pathlib import Path

ENGINES = Path(__file__).resolve().parents[2] / "engines"


def blocks(name):
    """The blocks of a file: the words of each first line, and the words of each line below it."""
    found = []
    for line in (ENGINES / name).read_text().splitlines():
        words = line.split(" #")[0].split(maxsplit=0 if line.startswith("#") else -1)
        if not words or line.startswith("#"):
            continue
        if line.startswith(" "):
            found[-1][1].append(words)
        else:
            found.append((words, []))
    return found


def model_types():
    """The values of model_type in the files of families, sorted."""
    # Lines of renames, which have sections of their own, begin with `hf` too.
    files = [re.sub(r"(?ms)^\[renames .*?(?=^\[|\Z)", "", path.read_text()) for path in (ENGINES.parent / "families").glob("*.family")]
    words = [line.split(" #")[0].split() for file in files for line in file.splitlines()]
    return sorted({name for first, *names in filter(None, words) if first == "hf" for name in names})


class Files:
    """Files that one command writes, or only compares."""

    def __init__(self):
        self.check, self.different = "--check" in sys.argv, []

    def put(self, name, program, about, content):
        """Writes a file of blocks, each a line and the lines below it."""
        text, apart = f"# {program}. {about} Written by `cargo xtask engines`.\n", True
        for first, rest in content:
            text += "\n" if apart or rest else ""
            text += "".join(f"{line}\n" for line in [first, *(f"  {line}" for line in rest)])
            apart = bool(rest)
        target = ENGINES / name
        if not target.is_file() or target.read_text() != text:
            self.different.append(name)
            if not self.check:
                target.write_text(text)

    def finish(self):
        """Reports which files differ from the installed packages; fails if they were to be compared."""
        for name in self.different:
            print(f"engines/{name} {'differs from the installed packages' if self.check else 'is new: review the diff'}")
        sys.exit(1 if self.check and self.different else 0)
