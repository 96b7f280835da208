"""Reference pages made from the code: predicates, events, metrics and the Python API."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Final, get_args

import lace
from lace import blocking
from lace.cli.events import as_entries
from lace.cli.serve import _LEVEL_OF
from lace.datalog.builtins import MEANINGS
from lace.errors import Code
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.lake.tally import RUN_METRICS, STREAM_METRICS
from lace.policy.plan import PlanId
from lace.serving.events import EVENTS
from lace.serving.metrics import METRICS
from lace.vocabulary import EXPOSE, PLAIN, SELECTOR, VOCABULARY, Kind

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_EMPTY: Final = {"dict": "{}", "list": "[]", "tuple": "()"}


def cell(text: str) -> str:
    """Return text for a cell of a table; code stays as it is."""
    parts = re.split(r"(`+[^`]*`+)", " ".join(text.split()).replace("|", "\\|"))
    return "".join(p if p.startswith("`") else p.replace("<", "&lt;") for p in parts)


def notes(body: ast.ClassDef) -> dict[str, str]:
    """Return what stands below the fields of a class, by field."""
    return {
        ast.unparse(field.target): " ".join(ast.literal_eval(note.value).split())
        for field, note in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(note, ast.Expr)
        and isinstance(note.value, ast.Constant)
    } | {
        ast.unparse(field.targets[0]): " ".join(ast.literal_eval(note.value).split())
        for field, note in pairwise(body.body)
        if isinstance(field, ast.Assign)
        and isinstance(note, ast.Expr)
        and isinstance(note.value, ast.Constant)
    }


def _class(owner: type) -> ast.ClassDef:
    body = ast.parse(inspect.getsource(owner)).body[0]
    assert isinstance(body, ast.ClassDef)
    return body


# --- predicates -----------------------------------------------------------------------------------


def predicates() -> str:
    lines = [
        "# Predicates",
        "",
        "Every predicate that Lace gives a meaning to, and the built-ins of the language. Rules",
        "may use any other name for predicates of their own. [How rules read](../rules.md)",
        "explains the language.",
        "",
        "## Built-ins",
        "",
        "They test values that are bound elsewhere in the body. None of them can fail: a text that",
        "is no integer compares with nothing.",
        "",
        "| Built-in | Holds when |",
        "|---|---|",
        *(f"| `{written}` | {cell(meaning)} |" for written, meaning in MEANINGS.items()),
        "| `x != y` | The texts differ. |",
        "| `not Atom` | There is no such fact. |",
        "| `true` | Always. |",
    ]
    told = notes(_class(Kind))
    for kind in Kind:
        lines += ["", f"## Kind: {kind}", "", told[kind.name], ""]
        lines += ["| Predicate | A fact says |", "|---|---|"]
        lines += [f"| `{one}` | {cell(one.meaning)} |" for one in VOCABULARY if one.kind is kind]
    lines += [
        "",
        "## Who may use what",
        "",
        "Rules are checked under a role: `lace check --role ROLE FILE`.",
        "",
        "| Predicate | `plain` | `selector` | `expose` |",
        "|---|---|---|---|",
    ]
    for one in VOCABULARY:
        if one.kind not in {Kind.WIRE, Kind.PLAN, Kind.PROVENANCE}:
            cells = []
            for role in (PLAIN, SELECTOR, EXPOSE):
                if one.predicate in role.base:
                    cells.append("given")
                elif not role.may_mention(one.predicate):
                    cells.append("no")
                else:
                    cells.append(
                        "may define" if role.may_define(one.predicate) else "may not define"
                    )
            lines.append(f"| `{one.name}/{one.arity}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# --- events and metrics ---------------------------------------------------------------------------


def _samples() -> dict[type, m.Event]:
    hash = "S.….H3"
    result = m.InterlaceResult(
        plan=PlanId("E.…"), peer=Verifier("V.….H3"), received=(hash,), sent=(hash,),
        bytes_received=512, bytes_sent=540, loops=2,
    )  # fmt: skip
    found: Sequence[m.Event] = (
        m.RecordSaved(hash),
        m.RecordDuplicate(hash),
        m.RecordRejected(hash, Code.RECORD_HASH_MISMATCH, "Blob: expected … got …"),
        m.FixedPoint(result),
        m.Closed(m.Ending.FIXED_POINT, result),
        m.Aborted(Code.INTERLACE_TIMEOUT, "30 s without a word", m.Blame.REMOTE, result),
    )
    return {type(event): event for event in found}


def events() -> str:
    lines = [
        "# Events",
        "",
        "What an exchange and a server tell while they run.",
        "",
        "## Of an exchange",
        "",
        "`lace.open_interlace` gives them as objects. `lace sync` and `lace follow` print them",
        "into a pipe as JSON lines; what was sent has a line for each record.",
        "",
        "| Event | When | As JSON lines |",
        "|---|---|---|",
    ]
    samples = _samples()
    for kind in get_args(m.Event):
        shown = "<br>".join(
            f"`{json.dumps(entry, ensure_ascii=False)}`" for entry in as_entries(samples[kind])
        )
        lines.append(f"| `{kind.__name__}` | {cell(_first(kind))} | {shown} |")
    lines += [
        "",
        "An application that does not read its events gets `EventsMissed` with their number in the",
        "place of those that found no room.",
        "",
        "## Of a server",
        "",
        "`lace serve` writes one JSON object a line to standard error, with `event`, `tai`, often",
        "`connection`, and more; `lace.serve` gives the same as `ServerEvent`. `--log-level` hides",
        "what is below it.",
        "",
        "| Event | Level | What it tells |",
        "|---|---|---|",
    ]
    for name, meaning in EVENTS.items():
        lines.append(f"| `{name}` | {_LEVEL_OF.get(name, 'info')} | {cell(meaning)} |")
    return "\n".join(lines) + "\n"


def metrics() -> str:
    lines = [
        "# Metrics",
        "",
        "`lace serve --metrics PORT` answers `GET /metrics` on this machine, in the text form of",
        "Prometheus. A counter only grows while the server runs.",
        "",
        "| Metric | Kind | What it counts |",
        "|---|---|---|",
    ]
    lines += _metric_rows(METRICS)
    for title, known in (
        ("`lace lake stream --metrics PORT` answers in the same way:", STREAM_METRICS),
        ("`lace lake run --metrics-file FILE` writes at the end of a run:", RUN_METRICS),
    ):
        lines += ["", title, "", "| Metric | Kind | What it counts |", "|---|---|---|"]
        lines += _metric_rows(known)
    return "\n".join(lines) + "\n"


def _metric_rows(known: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"| `{name}` | {kind} | {cell(help)} |" for name, (kind, help) in known.items()]


# --- the Python API -------------------------------------------------------------------------------

TOPICS: Final = {
    "Laces": ("lace.api.handles", "lace.api.backups"),
    "Records in a lace": (
        "lace.api.operations", "lace.api.currents", "lace.api.differences", "lace.projection",
    ),
    "Meeting others": (
        "lace.api.interlaces", "lace.api.serving", "lace.api.events", "lace.interlace.messages",
        "lace.serving.grants", "lace.transport.address", "lace.transport.tls", "lace.invitations",
    ),
    "Rooms": ("lace.api.rooms", "lace.rooms"),
    "Reasons": ("lace.api.reasons", "lace.datalog.explain"),
    "In and out": ("lace.api.importing", "lace.api.rows", "lace.api.exporting"),
    "Keys": ("lace.crypto.keys", "lace.crypto.provider", "lace.keyring", "lace.ids"),
    "Records as bytes": (
        "lace.record.build", "lace.record.model", "lace.record.validate", "lace.record.bulk",
        "lace.record.split", "lace.record.inspect", "lace.record.facts",
    ),
    "Places and time": ("lace.urc", "lace.tai", "lace.clock"),
    "Selectors and policy": (
        "lace.selectors", "lace.rulefiles", "lace.policy.module", "lace.policy.origin",
        "lace.policy.plan", "lace.policy.executable", "lace.policy.view", "lace.policy.audit",
    ),
    "The rule engine": (
        "lace.rules", "lace.datalog.program", "lace.datalog.evaluate", "lace.datalog.maintain",
        "lace.datalog.source",
    ),
    "Limits and errors": ("lace.limits", "lace.errors"),
}  # fmt: skip


def python_api() -> str:
    """Write every public name with its types and what it guarantees."""
    homes = lace._HOMES  # noqa: SLF001 (there is no other list of where names live)
    listed = [module for modules in TOPICS.values() for module in modules]
    left = set(homes) ^ set(listed)
    if left or len(listed) != len(set(listed)):
        raise ValueError(f"TOPICS and lace._HOMES do not have the same modules: {sorted(left)}")
    lines = [
        "# Python API",
        "",
        "Every public name, with its types and what it guarantees. Everything is imported from",
        "`lace`; whatever is not on this page is not public. `async` functions have a twin in",
        "[`lace.blocking`](#without-await), which returns when it is done.",
    ]
    for topic, modules in TOPICS.items():
        lines += ["", f"## {topic}"]
        for home in modules:
            module = importlib.import_module(home)
            found = {node.name: node for node in _tree(module).body if isinstance(node, Definition)}
            for name in homes[home]:
                lines += ["", f"### {name}", ""]
                if name in found:
                    lines += _entry(found[name])
                else:
                    lines += _value(module, name)
    lines += [
        "",
        "## Without await",
        "",
        "`lace.blocking` has these.",
        "",
        cell(inspect.getdoc(blocking) or ""),
        "",
    ]
    lines += ["| Call | What it does |", "|---|---|"]
    for node in _tree(blocking).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            first = (ast.get_docstring(node) or "").partition("\n\n")[0]
            lines.append(f"| {_code(_head(node))} | {_prose(first)} |")
    return "\n".join(lines) + "\n"


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _value(module: ModuleType, name: str) -> list[str]:
    """Describe a name that is no class and no function, such as a type made of others."""
    tree = _tree(module)
    for node, note in pairwise([*tree.body, ast.Pass()]):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(ast.unparse(target) == name for target in targets):
            lines = ["```text", ast.unparse(node), "```"]
            if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
                lines += ["", _prose(ast.literal_eval(note.value))]
            return lines
    value = getattr(module, name)
    origin = importlib.import_module(value.__module__)
    node = next(n for n in _tree(origin).body if isinstance(n, Definition) and n.name == name)
    return _entry(node)


def _entry(node: Definition) -> list[str]:
    lines = ["```text", _wrapped(_head(node)), "```"]
    if doc := ast.get_docstring(node):
        lines += ["", _prose(doc)]
    if isinstance(node, ast.ClassDef):
        lines += _members(node)
    return lines


def _members(node: ast.ClassDef) -> Iterator[str]:
    told = notes(node)
    rows = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            name = ast.unparse(part.target)
            written = f"{name}: {ast.unparse(part.annotation)}{_default(part.value)}"
        elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant):
            name = ast.unparse(part.targets[0])
            written = f"{name} = {ast.unparse(part.value)}"
        else:
            continue
        if not name.startswith("_"):
            rows.append(f"| {_code(written)} | {_prose(told.get(name, ''))} |")
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            doc = _prose((ast.get_docstring(part) or "").partition("\n\n")[0])
            if doc:  # else it is made by something else
                made = _head(part).replace("__init__", node.name, 1).removesuffix(" -> None")
                rows.insert(0, f"| {_code(made)} | {doc} |")
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and not part.name.startswith(
            "_"
        ):
            doc = _prose((ast.get_docstring(part) or "").partition("\n\n")[0])
            property_ = any("property" in ast.unparse(d) for d in part.decorator_list)
            returns = f": {ast.unparse(part.returns)}" if part.returns else ""
            written = f"{part.name}{returns}" if property_ else _head(part)
            rows.append(f"| {_code(written)} | {doc} |")
    if rows:
        yield from ("", "| Member | What it is |", "|---|---|", *rows)


def _default(value: ast.expr | None) -> str:
    """Return what a field is if it is not given, as one would write it, unless that is private."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        value = given.get("default")
        made = given.get("default_factory")
        if isinstance(made, ast.Lambda):
            value = made.body
        elif made is not None:
            name = ast.unparse(made)
            return f" = {_EMPTY.get(name, f'{name}()')}"
    if value is None or (isinstance(value, ast.Name) and value.id.startswith("_")):
        return ""
    return f" = {ast.unparse(value)}"


def _head(node: Definition) -> str:
    """Return how a thing is called: its signature, or the bases of a class."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("cls, ")
    arguments = "" if arguments in {"self", "cls"} else arguments
    word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{word}{node.name}({arguments}){returns}"


def _wrapped(head: str) -> str:
    """Break a long signature, one argument a line."""
    if len(head) <= 100 or "(" not in head:
        return head
    name, _, rest = head.partition("(")
    depth, start = 0, 0
    pieces: list[str] = []
    for at, character in enumerate(rest):
        if character in "([":
            depth += 1
        elif character in ")]":
            if depth == 0:
                return "\n".join(
                    [
                        f"{name}(",
                        *(f"    {p.strip()}," for p in [*pieces, rest[start:at]]),
                        rest[at:],
                    ]
                )
            depth -= 1
        elif character == "," and depth == 0:
            pieces.append(rest[start:at])
            start = at + 1
    return head


def _code(text: str) -> str:
    """Return code for a cell of a table, as it is written."""
    return cell(f"`{text}`")


def _first(owner: type) -> str:
    return (inspect.getdoc(owner) or "").partition("\n\n")[0]


def _prose(text: str) -> str:
    """Return a docstring as Markdown; marks of code become those of Markdown."""
    return cell(inspect.cleandoc(text)).replace("``", "`")
