"""``lace why`` and ``lace why-not``: which rules and records decide, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from lace import blocking
from lace.api.handles import Lace, store_of
from lace.api.reasons import Explanation, explain
from lace.cli.arguments import (
    complete_peers,
    expose_option,
    is_address,
    key_option,
    lace_option,
    select_option,
)
from lace.cli.exitcodes import Exit
from lace.cli.files import read_frames
from lace.cli.names import key_names, verifiers_by_name
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.render import chosen_form, print_json, words_option
from lace.cli.shape import whole_hash
from lace.datalog.explain import FailedRule, Proof
from lace.datalog.source import parse_fact
from lace.errors import Code, LacegramError, UsageError
from lace.ids import RecordHash, Verifier, is_verifier
from lace.policy.module import PolicyModule
from lace.record.model import Record, Versioned
from lace.record.split import Frame
from lace.record.validate import validate_record
from lace.settings import PeerSettings, read_selector
from lace.text import shown
from lace.urc import Coordinate, parse_urc

_LINES_SHOWN: Final = 200
_VERIFIER: Final = re.compile(r"V\.[0-9A-Z_a-z~]{43}\.H3")
_SIGNS: Final = {True: "✓", False: "✗", None: "–"}


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that why and why-not share."""
    for option in (
        lace_option,
        words_option,
        key_option(),
        expose_option,
        select_option(),
        click.option(
            "--ask", is_flag=True, help="Ask the peer for a record that is not here; store nothing."
        ),
        click.option(
            "--theirs", "their_text", metavar="SELECTOR",
            help="What the peer selects.  [default: the peer's select in lace.toml, else yours]",
        ),
        click.option(
            "--peer", "peer_text", metavar="NAME|VERIFIER|ADDRESS|FOLDER",
            help="Whom it is to meet: also another lace on this machine, by its folder.",
            shell_complete=complete_peers,
        ),
        click.argument("record", metavar="RECORD"),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@_options
def why(**flags: Any) -> int:
    """Say why RECORD belongs here, or with --peer why it may travel: by which rules and records.

    RECORD is a hash or its beginning, a coordinate, or a file with one record. Exit code 6 if
    something stands in its way, which is told then.

    \b
    Example:
      lace why //notes-demo//notes/message//msg/1
      lace why S.….H3 --peer bob
      lace why S.….H3 --peer ../bob
    """
    return _explain(**flags)


@click.command("why-not")
@_options
def why_not(**flags: Any) -> int:
    """Say what stands in RECORD's way, layer by layer: here, my rules, the view, their rules.

    RECORD is a hash, a coordinate, or a file with one record that is not here. With --ask the peer
    is asked for it by an interlace for this one hash; nothing is stored. Exit code 6 if something
    stands in its way, 0 if nothing does.

    \b
    Example:
      lace why-not S.….H3 --peer bob
      lace why-not S.….H3 --peer server --ask
      lace why-not note.records
    """
    return _explain(**flags)


def _explain(
    record: str,
    peer_text: str | None,
    their_text: str | None,
    ask: bool,
    select_text: str | None,
    exposed: tuple[str, ...],
    key_text: str | None,
    form: str | None,
    where: str | None,
) -> int:
    settings = find(where)
    there = folder_of(settings, peer_text)
    if there is None:
        verifier, known = _peer(settings, peer_text)
        theirs = _theirs(settings, known, their_text)
    else:
        verifier = there.verifier()
        theirs = read_selector(their_text) if their_text else selected_by(there)
    module = settings.module(select_text)
    if theirs is None and peer_text is not None:
        echo("what the peer selects is not known: taken to be what you select", err=True)
        theirs = module
    key = settings.signing_key(key_text) if ask else None  # only a peer has it proven
    with settings.open(key, known_as=settings.verifier(key_text)) as local:
        hash, given = _record(local, record)
        if ask:
            given = _asked(settings, local, peer_text, hash)
        elif there is not None and given is None and not store_of(local).has(RecordHash(hash)):
            with there.open() as other:
                given = blocking.get(other, f"////{hash}")
        made = explain(
            local,
            hash,
            module,
            their_policy=theirs,
            peer=verifier,
            expose=settings.exposure(exposed),
            offered=given,
        )
        if chosen_form(form) == "table":
            for line in _lines(local, made):
                echo(line)
        else:
            print_json(_entry(made))
    return Exit.OK if made.allowed else Exit.NOT_FOUND


# --- what is meant ---


def _record(local: Lace, text: str) -> tuple[str, Record | None]:
    """Return the hash of what is asked about, and the record if it was given as a file."""
    hash = whole_hash(local, text)
    if hash is not None:
        return hash, None
    if text.startswith("//"):
        address = parse_urc(text)
        found = blocking.get(local, text)
        if found is not None:
            return found.hash, None
        if not isinstance(address, Coordinate):
            return str(address).removeprefix("////"), None
        raise UsageError(
            f"nothing is at {text}", code=Code.RECORD_ABSENT,
            hint="Ask by hash about a record that is not here, or give it as a file.",
        )  # fmt: skip
    if not Path(text).is_file():
        raise UsageError(f"{shown(text)} is no hash, no coordinate and no file", code=Code.URC_FORM)
    frames = list(islice(read_frames(text), 2))
    if len(frames) != 1 or not isinstance(frames[0], Frame):
        raise UsageError(f"{text} does not hold exactly one record", code=Code.RECORD_MALFORMED)
    given = validate_record(frames[0].raw).unwrap()
    return given.hash, given


def folder_of(settings: Place, peer: str | None) -> Place | None:
    """Return the lace on this machine that a peer is, if it is the path of one."""
    if peer is None or peer in settings.settings.peers or is_verifier(peer) or is_address(peer):
        return None
    if "/" not in peer and (peer in verifiers_by_name() or not Path(peer).is_dir()):
        return None
    return find(peer)


def selected_by(place: Place) -> PolicyModule | None:
    """Return what the settings of a lace select, if they say it."""
    return None if place.settings.select is None else place.module(None)


def _peer(settings: Place, text: str | None) -> tuple[Verifier | None, PeerSettings | None]:
    """Return whom --peer means, as far as it is known."""
    if text is None:
        return None, None
    known = settings.settings.peers.get(text)
    if known is None and is_verifier(text):
        known = next(
            (peer for peer in settings.settings.peers.values() if peer.expect == text), None
        )
        return Verifier(text), known
    if known is None and not is_address(text):
        named = verifiers_by_name()
        if text in named:
            return named[text], None
        there = ", ".join(settings.settings.peers) or "none"
        raise UsageError(
            f"{shown(text)} is no peer of lace.toml (there are: {there}), no verifier, no address, "
            "and no folder of a lace",
            code=Code.ADDRESS_MALFORMED,
        )
    if known is not None and known.expect is not None:
        return Verifier(known.expect), known
    return None, known


def _theirs(settings: Place, known: PeerSettings | None, text: str | None) -> PolicyModule | None:
    if text is not None:
        return read_selector(text)
    if known is not None and known.select is not None:
        return read_selector(known.select, settings.settings.folder)
    return None


def _asked(settings: Place, local: Lace, peer: str | None, hash: str) -> Record | None:
    """Return a record as a peer gives it, by an interlace for this one hash."""
    if peer is None or not (peer in settings.settings.peers or is_address(peer)):
        raise click.UsageError("--ask needs --peer with a name of lace.toml or an address")
    found = blocking.get(settings.peer(peer, key=local.key), f"////{hash}")
    if found is None:
        echo("the peer does not give it: it has it not, or its policy refuses", err=True)
    return found


# --- words ---


def _lines(local: Lace, made: Explanation) -> Iterator[str]:
    short = _Short(made.record)
    yield f"{made.record} {_place(local, made.record)}".rstrip()
    for step in made.steps:
        yield f"  {_SIGNS[step.passed]} {step.name:13} {short(step.detail)}".rstrip()
    if made.obstacle is not None:
        yield from map(short, islice(_refusals(local, made), _LINES_SHOWN))
        return
    for title, proof in (("because", made.proof), ("and for them because", made.their_proof)):
        if proof is not None:
            yield title
            for number, line in enumerate(_proof(local, made, proof)):
                if number == _LINES_SHOWN:
                    yield "  … and more; lace plumb lacegram why prints all of it"
                    break
                yield short(line)


def _refusals(local: Lace, made: Explanation) -> Iterator[str]:
    """Yield how far the rules got: the one that came closest in full, the others in brief."""
    if not made.refusals:
        return
    closest, *others = _by_reach(made)
    yield "the rule that came closest"
    yield f"  {made.rule(closest.id) or closest.id}"
    bound = ", ".join(f"{name} = {value}" for name, value in sorted(closest.bindings.items()))
    yield f"    fails at {closest.failed_atom}{f' with {bound}' if bound else ''}"
    if closest.because is None and not closest.below:
        for near in closest.near_misses:
            yield f"    there is {near}"
    yield from _deeper(local, made, closest, 2)
    if others:
        yield "and the others"
    for refusal in others:
        yield f"  {made.rule(refusal.id) or refusal.id}"
        yield f"    fails at {refusal.failed_atom}"


def _deeper(local: Lace, made: Explanation, failed: FailedRule, depth: int) -> Iterator[str]:
    """Yield what is behind a failure: the fact that a negation denies, or what nobody derives."""
    indent = "  " * depth
    if failed.because is not None:
        yield f"{indent}because"
        for line in _proof(local, made, failed.because):
            yield f"{indent}{line}"
        return
    if not failed.below:
        return
    yield f"{indent}and nobody derives that:"
    closest = max(failed.below, key=_reach)
    bound = ", ".join(f"{name} = {value}" for name, value in sorted(closest.bindings.items()))
    yield f"{indent}  {made.rule(closest.id) or closest.id}"
    yield f"{indent}    fails at {closest.failed_atom}{f' with {bound}' if bound else ''}"
    if closest.because is None and not closest.below:
        for near in closest.near_misses:
            yield f"{indent}    there is {near}"
    yield from _deeper(local, made, closest, depth + 2)


def _by_reach(made: Explanation) -> list[FailedRule]:
    """Return the rules that failed, the one that came closest first."""
    return sorted(made.refusals, key=lambda refusal: -refusal.satisfied)


def _reach(refusal: FailedRule) -> int:
    """Return how much held of a rule, and of what was to derive what it lacks."""
    return refusal.satisfied + max(map(_reach, refusal.below), default=0)


def refusal_entry(made: Explanation, refusal: FailedRule) -> dict[str, Any]:
    """Return how far a rule got as an object, with what is behind it."""
    return {
        "because": None if refusal.because is None else refusal.because.fact,
        "below": [refusal_entry(made, deeper) for deeper in refusal.below],
        "bindings": refusal.bindings,
        "failed_atom": refusal.failed_atom,
        "id": refusal.id,
        "near_misses": list(refusal.near_misses),
        "rule": made.rule(refusal.id),
    }


def _proof(local: Lace, made: Explanation, proof: Proof) -> Iterator[str]:
    """Yield a proof as lines, premises under what they prove. No recursion: proofs can be deep."""
    stack = [(proof, 1)]
    while stack:
        item, depth = stack.pop()
        indent = "  " * min(depth, 20)
        yield f"{indent}{item.fact}"
        yield f"{indent}  by {made.rule(item.rule or '') or item.rule}"
        about: dict[str, list[str]] = {}
        for premise in item.because:
            if premise.rule is None:
                record, what = _fact(premise.fact)
                about.setdefault(record, []).extend(what)
        for line in about.pop("", ()):
            yield f"{indent}  {line}"
        for record, said in about.items():
            known = "this record" if record == made.record else f"{record} {_place(local, record)}"
            yield f"{indent}  {known.strip()}: {', '.join(said) or 'is here'}"
        for condition in item.conditions:
            yield f"{indent}  {condition}"
        derived = [premise for premise in item.because if premise.rule is not None]
        stack += [(premise, depth + 1) for premise in reversed(derived)]


def _fact(line: str) -> tuple[str, list[str]]:
    """Return which record a base fact is about, and what it says of it; "" if about none."""
    try:
        name, *values = parse_fact(line)
    except LacegramError:
        return "", [line]
    match name, values:
        case "Have", [record]:
            return record, []
        case "Advertised", [record, _source]:
            return record, ["is offered"]
        case "Field", [record, field, _index, value]:
            return record, [f"{field} = {value}"]
        case "AdvertisedField", [record, _source, field, _index, value]:
            return record, [f"{field} = {value}"]
    return "", [line]


def _place(local: Lace, hash: str) -> str:
    record = blocking.get(local, f"////{hash}")
    return str(record.coordinate) if isinstance(record, Versioned) else ""


class _Short:
    """Writes ids as people read them: keys by their names, the record itself as what it is."""

    def __init__(self, record: str) -> None:
        self._record = record
        self._names = key_names()

    def __call__(self, line: str) -> str:
        line = line.replace(f"'{self._record}'", "it").replace(self._record, "it")
        return _VERIFIER.sub(lambda found: self._names.get(found[0], f"{found[0][:10]}…"), line)


def _entry(made: Explanation) -> dict[str, Any]:
    return {
        "allowed": made.allowed,
        "evidence": list(made.evidence),
        "question": str(made.question),
        "record": made.record,
        "refusals": [refusal_entry(made, refusal) for refusal in _by_reach(made)],
        "rules": [{"id": id, "rule": made.rule(id)} for id in made.rule_ids],
        "steps": [
            {"detail": step.detail, "layer": step.name, "passed": step.passed}
            for step in made.steps
        ],
    }
