"""YAML read strictly into plain values and written back, with every refusal on one line."""

import difflib
import json
import math
import re
import reprlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

Tree = dict[str, object]

MAX_BYTES = 2**20
MAX_NESTING = 20
MAX_LINE = 200
MAX_LINES = 50

_WORDS = {"": None, "~": None, "null": None, "true": True, "yes": True, "on": True}
_WORDS |= {"false": False, "no": False, "off": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]{0,99})")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0([0-9_]+|[xob][0-9a-fA-F_]+)")
_HALF = re.compile("[\ud800-\udfff]")  # what escapes can make, and no file can hold
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)


class StudyError(ValueError):
    """What is wrong with a study: one line a problem, with its place and what would be right."""

    def __init__(self, problems: Iterable[str]) -> None:
        lines = [_cut(" ".join(problem.split()), MAX_LINE) for problem in problems]
        self.problems = tuple(lines)
        super().__init__(self.problems)

    def __str__(self) -> str:
        hidden = len(self.problems) - MAX_LINES
        more = (f"and {hidden} more",) if hidden > 0 else ()
        return "\n".join(self.problems[:MAX_LINES] + more)


def read_mapping(path: Path) -> Tree:
    """The mapping that the YAML file at `path` holds, as plain values."""
    tree = parse(read_text(path), str(path))
    if not isinstance(tree, dict):
        what = "is empty" if tree is None else f"holds {shown(tree)}"
        raise StudyError([f"{path}: {what}; a study is a mapping, such as name: first"])
    return tree


def read_text(path: Path, kind: str = "study") -> str:
    """The text of a `kind` file, which is short and in UTF-8."""
    if not path.is_file():
        raise StudyError([f"{path}: {_why_no_file(path, kind)}"])
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise StudyError([f"{path}: cannot be read: {error.strerror}"]) from None
    if len(content) > MAX_BYTES:
        raise StudyError([f"{path}: is larger than {MAX_BYTES:,} bytes; is it a {kind} file?"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"{path}: is not text in UTF-8 (at byte {error.start}); is it a {kind} file?"
        raise StudyError([problem]) from None


def parse(text: str, source: str) -> object:
    """The plain values that `text` stands for; `source` names it in errors."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else _value(node)
    except yaml.MarkedYAMLError as error:
        raise StudyError([f"{source}{_what(error)}"]) from None
    except yaml.reader.ReaderError as error:
        problem = f"{source}: character {error.position} cannot stand in YAML; is it a text file?"
        raise StudyError([problem]) from None
    except (ValueError, OverflowError) as error:  # PyYAML on escapes such as "\UFFFFFFFF"
        raise StudyError([f"{source}: is not YAML: {error}"]) from None


def write(tree: object) -> str:
    """YAML that `parse` reads back as `tree`."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100)


def with_overrides(tree: Tree, overrides: Sequence[str]) -> Tree:
    """`tree` with each override such as `grid.seeds=3` or `rules.0.label=x` written into it."""
    for override in overrides:
        path, equals, text = override.partition("=")
        steps = path.strip().split(".")
        if not equals or not all(steps) or len(steps) > MAX_NESTING:
            raise StudyError([f"--set {shown(override)}: should look like grid.seeds=3"])
        value = parse(text, f"--set {path.strip()}")
        tree = {**tree, steps[0]: _put(tree.get(steps[0]), steps[1:], value, tuple(steps[:1]))}
    return tree


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean "depth"?`, or nothing where no known name is near."""
    found = difflib.get_close_matches(name[:64], sorted(known), n=1, cutoff=cutoff)
    return f"; did you mean {shown(found[0])}?" if found else ""


def shown(value: object) -> str:
    """A value as a short piece of one line, the way a study file would write it."""
    if value is None or isinstance(value, bool | str):
        plain = not isinstance(value, str) or value.isprintable()
        return _cut(json.dumps(value, ensure_ascii=not plain), 60)
    try:
        return _cut(" ".join(reprlib.repr(value).split()), 60)
    except ValueError:  # repr refuses integers of thousands of digits
        return "a number too long to show"


class _Loader(yaml.BaseLoader):
    """Composes nodes of plain text, lists and mappings: no aliases, no tags, no deep nesting."""

    nesting = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's own
        if isinstance(event, yaml.AliasEvent):
            raise _refusal(event, "aliases (*name) are not read; write the text again")
        if event.tag is not None:
            tag = shown(event.tag.replace("tag:yaml.org,2002:", "!!"))
            raise _refusal(event, f"tags such as {tag} are not read; remove it")
        if self.nesting >= MAX_NESTING:
            raise _refusal(event, f"nested deeper than {MAX_NESTING} levels")
        self.nesting += 1
        node = super().compose_node(parent, index)
        self.nesting -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes what `parse` would not read back as text; writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _LEADING_ZERO.fullmatch(text) is None and _plain_value(text) == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _value(node: yaml.Node) -> object:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    return _mapping(node)


def _scalar(node: yaml.ScalarNode) -> object:
    text: str = node.value
    if _HALF.search(text):
        raise _refusal(node, "half of a character; write it whole, without \\u escapes")
    if node.style is not None:
        return text
    if _LEADING_ZERO.fullmatch(text):
        raise _refusal(node, f"{shown(text)} is ambiguous; write it in decimal, or in quotes")
    value = _plain_value(text)
    if _NOT_FINITE.fullmatch(text) or value in (math.inf, -math.inf):
        raise _refusal(node, f"{shown(text)} is not a finite number")
    return value


def _plain_value(text: str) -> object:
    if text.lower() in _WORDS and text in (text.lower(), text.capitalize(), text.upper()):
        return _WORDS[text.lower()]
    digits = text.replace("_", "")
    if _INT.fullmatch(text):
        return int(digits)
    return float(digits) if _FLOAT.fullmatch(text) else text


def _mapping(node: yaml.Node) -> Tree:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name = _value(key)
        if not isinstance(name, str):
            raise _refusal(key, f"a key should be text; got {shown(name)}")
        if name in lines:
            repeated = f"key {shown(name)} stands here again (first on line {lines[name]})"
            raise _refusal(key, repeated)
        lines[name] = key.start_mark.line + 1
    return {key.value: _value(value) for key, value in node.value}


def _put(node: object, steps: Sequence[str], value: object, done: tuple[str, ...]) -> object:
    """`node` with `value` at `steps`; a scalar on the way gives place to a mapping."""
    if not steps:
        return value
    step, rest, trail = steps[0], steps[1:], (*done, steps[0])
    if not isinstance(node, list):
        known = node if isinstance(node, dict) else {}
        return {**known, step: _put(known.get(step), rest, value, trail)}
    if not step.isdecimal() or int(step) >= len(node):
        here = ".".join(done)
        example = ".".join([*done, "0", *(rest if step.isdecimal() else steps)])
        problem = f"{here} is a list of {len(node)}, counted from 0; say {example}=..."
        raise StudyError([f"--set {'.'.join(trail)}: {problem}"])
    entry = int(step)
    return [*node[:entry], _put(node[entry], rest, value, trail), *node[entry + 1 :]]


def _why_no_file(path: Path, kind: str) -> str:
    if path.is_dir():
        return f"is a folder; a {kind} is a YAML file"
    try:
        names = [other.name for other in path.parent.iterdir() if other.is_file()]
    except (OSError, ValueError):
        names = []
    return "no such file" + nearest(path.name, names)


def _refusal(at: yaml.Node | yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    mark: Any = at.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _what(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{place}: {', '.join(filter(None, (error.context, error.problem)))}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
