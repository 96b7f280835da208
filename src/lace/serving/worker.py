"""A process that evaluates rules of strangers, and nothing else: no store, no key, no network.

It is given rules and what they may see, and says what they select. The operating system ends it
when it takes more processor time for one question, or more memory, than it may. ``workers`` starts
it.
"""

from __future__ import annotations

import json
import marshal
import os
import signal
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final

from lace import collector
from lace.datalog.ast import Predicate
from lace.datalog.change import Change
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.maintain import follow
from lace.datalog.source import MemorySource, Row
from lace.errors import LaceError, LimitExceeded
from lace.limits import FIXED, MIB, UNCOUNTED, Limits
from lace.policy.module import module_from_text
from lace.vocabulary import PLAIN_SCHEMA, SELECT_ADVERTISED, SELECT_HAVE

LENGTH: Final = struct.Struct(">I")
FACETS: Final = (SELECT_HAVE, SELECT_ADVERTISED)
Facts = list[tuple[str, int, list[bytes]]]
"""Name and arity of a predicate, and its rows in parts."""

_PART: Final = 5000  # rows that are packed at once: nothing else runs in the process meanwhile
_NICE: Final = 10  # what others ask for comes after what the server does itself
_LEAST_FACTS: Final = 1000  # that an evaluation counts for, whatever it sees
_BYTES_A_FACT: Final = 4  # of rules: what is made of them takes memory, too


@dataclass(slots=True)
class Worker:
    """Evaluations by number; those that were not asked for longest go first."""

    seconds: int
    kept: OrderedDict[int, tuple[Evaluation, int]] = field(default_factory=OrderedDict)
    dropped: list[int] = field(default_factory=list)
    """Evaluations that the next answer says are not kept any more."""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one question, or why there is none."""
        limit_time(self.seconds)
        try:
            with collector.paused():
                answer = self._answer(question)
        except LimitExceeded as error:
            told = {"limit": error.limit, "configured": error.configured}
            answer = {"exceeded": told | {"observed": error.observed}}
        except LaceError as error:
            answer = {"failed": [str(error.code), error.message]}
        except MemoryError:
            # What others left behind must not stop this one: it is asked again, with all the room.
            if not self.kept and "rules" in question:
                raise
            self.kept.clear()
            answer = {"unknown": True}
        dropped, self.dropped = self.dropped, []
        return answer | {"dropped": dropped}

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if not question["number"]:
            return {"ready": True}  # whoever asks wants to know that it is its turn
        number, limits = question["number"], Limits(**question["limits"])
        if "rules" in question:
            self.kept.pop(number, None)
            shown = source_of(question["facts"])
            program = module_from_text(question["rules"]).program
            made = evaluate(program, shown, outputs=FACETS, limits=limits)
            self._keep(number, made, _size(made, shown, question["rules"]))
            return {"whole": True, "lists": [list(made.rows(facet)) for facet in FACETS]}
        found = self.kept.pop(number, None)
        if found is None:
            return {"unknown": True}
        made, size = found
        made.limit(limits)
        changes = follow(made, source_of(question["old"]), source_of(question["new"]))
        self._keep(number, made, size)
        moved = [changes.get(facet, Change()) for facet in FACETS]
        lists = [list(rows) for change in moved for rows in (change.removed, change.added)]
        return {"whole": False, "lists": lists}

    def _keep(self, number: int, made: Evaluation, size: int) -> None:
        self.kept[number] = made, size
        held = sum(size for _, size in self.kept.values())
        while held > FIXED.kept_facts and len(self.kept) > 1:
            dropped, (_, size) = self.kept.popitem(last=False)
            self.dropped.append(dropped)
            held -= size


def _size(made: Evaluation, shown: MemorySource, rules: str) -> int:
    """Return about how many facts an evaluation is worth, by the memory that it takes."""
    derived = sum(len(made.rows(predicate)) for predicate in made.program.derived)
    return _LEAST_FACTS + shown.size_at_most() + derived + len(rules) // _BYTES_A_FACT


def facts_of(source: MemorySource) -> Facts:
    """Return facts in a form that can be sent."""
    return [
        (p.name, p.arity, [marshal.dumps(part) for part in _parts(source.iterate(p))])
        for p in source.predicates()
    ]


def source_of(facts: Facts) -> MemorySource:
    source = MemorySource(limits=UNCOUNTED, schema=PLAIN_SCHEMA)
    for name, arity, parts in facts:
        rows = chain.from_iterable(map(marshal.loads, parts))
        source.add_rows(Predicate(name, arity), rows)
    return source


def pack(answer: dict[str, Any]) -> bytes:
    """Return an answer as lines of JSON: what there is to say, and then its rows in parts."""
    lists = answer.get("lists", [])
    lines = [json.dumps(answer | {"lists": len(lists)})]
    for number, rows in enumerate(lists):
        lines += (json.dumps([number, part]) for part in _parts(iter(rows)))
    return "\n".join(lines).encode()


def unpack(said: bytes) -> dict[str, Any]:
    """Return the answer that was packed."""
    head, *lines = said.split(b"\n")
    answer: dict[str, Any] = json.loads(head)
    lists: list[list[Row]] = [[] for _ in range(answer["lists"])]
    for line in lines:
        number, part = json.loads(line)
        lists[number] += map(tuple, part)
    return answer | {"lists": lists}


def _parts(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while part := list(islice(rows, _PART)):
        yield part


def write(stream: IO[bytes], content: bytes) -> None:
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def read(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    content = stream.read(length)
    return content if len(content) == length else None


def limit_memory(mebibytes: int) -> None:
    """Let the operating system refuse more memory than so much beside what is in use now."""
    if sys.platform == "win32":
        return  # there the work limit alone holds
    import resource

    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[0]) if statm.exists() else 0
    most = pages * resource.getpagesize() + mebibytes * MIB
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def limit_time(seconds: int) -> None:
    """Let the operating system end this process after so much more processor time."""
    if sys.platform == "win32":
        return
    import resource

    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = int(used) + 1 + seconds
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def main(arguments: Iterable[str]) -> None:
    seconds, mebibytes = map(int, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides
    if sys.platform != "win32":
        os.nice(_NICE)
    limit_memory(mebibytes)
    worker = Worker(seconds)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while (asked := read(questions)) is not None:
        answer = worker.answer(marshal.loads(asked))  # noqa: S302 (from the server that started it)
        write(answers, pack(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
