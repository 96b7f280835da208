"""The pictures of docs/concepts, drawn by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from drawing import BLUE, GOLD, GREEN, PAPER, RED, SOFT, Picture


def records() -> str:
    """A Seal around a Plex around a Blob."""
    picture = Picture(760, 300, "A Seal holds a Plex, which holds a Blob; each is named by a hash")
    picture.box(24, 24, 470, 252, fill=GOLD)
    picture.text(40, 48, "Seal", bold=True)
    picture.text(84, 48, "S.fGrYXb9M….H3", mono=True, size=12)
    picture.text(40, 72, "Signed-By: V.OEL2sxn4….H3", mono=True, size=12)
    picture.text(40, 90, "Signature: P5YRLEJB…", mono=True, size=12)
    picture.box(40, 104, 438, 156, fill=BLUE)
    picture.text(56, 128, "Plex", bold=True)
    picture.text(100, 128, "P.tyYEj0zI….H3", mono=True, size=12)
    picture.text(56, 150, "Group: notes-demo   App: notes/message", mono=True, size=12)
    picture.text(56, 168, "Name: msg/1   TAI: 1640995200:000000000", mono=True, size=12)
    picture.text(56, 186, "Title: Hello", mono=True, size=12)
    picture.box(56, 198, 406, 50, fill=GREEN)
    picture.text(72, 220, "Blob", bold=True)
    picture.text(116, 220, "B.kQIYZC1_….H3   Data-Length: 5", mono=True, size=12)
    picture.text(72, 239, "hello", mono=True, size=12)
    for y, head, line in (
        (60, "who said it", "a signature that anyone can check"),
        (142, "where and when", "a place, a time, and fields for rules"),
        (216, "what was said", "bytes, whatever they are"),
    ):
        picture.arrow(f"M520 {y} H500")
        picture.text(530, y + 1, head, bold=True)
        picture.text(530, y + 18, line, size=12, colour=SOFT)
    return picture.svg()


def reasons() -> str:
    """A proof as a tree whose leaves are records."""
    picture = Picture(760, 300, "A note is selected because a rule and two records say so")
    picture.label(230, 20, 300, 36, "SelectHave(bob's note)", fill=GREEN)
    picture.label(40, 118, 300, 36, "Field(note, 'Signed-By', bob)", fill=BLUE)
    picture.label(420, 118, 300, 36, "Member(bob)", fill=GREEN)
    picture.label(420, 218, 300, 36, "Field(grant, 'Member', bob)", fill=BLUE)
    picture.arrow("M190 118 V86 H370 V58")
    picture.arrow("M570 118 V86 H390 V58")
    picture.arrow("M570 218 V156")
    picture.text(380, 106, "rule: notes of members belong", size=12, at="middle", colour=SOFT)
    picture.text(558, 190, "rule: a grant makes a member", size=12, at="end", colour=SOFT)
    picture.text(190, 172, "from bob's note", size=12, at="middle", colour=SOFT)
    picture.text(
        570, 272, "from the grant that the authority signed", size=12, at="middle", colour=SOFT
    )
    picture.text(40, 250, "green: derived by a rule", size=12)
    picture.text(40, 270, "blue: read from a record", size=12)
    return picture.svg()


def travels() -> str:
    """Two selections, and their common part."""
    picture = Picture(760, 320, "What both sides' rules select travels, until nothing is missing")
    for cx, fill in ((300, BLUE), (460, GOLD)):
        picture.raw(f'<circle cx="{cx}" cy="130" r="110" fill="{fill}" fill-opacity="0.75"/>')
    for cx in (300, 460):
        picture.raw(f'<circle cx="{cx}" cy="130" r="110" fill="none" stroke="{SOFT}"/>')
    picture.text(246, 116, "my rules", at="middle", bold=True)
    picture.text(246, 134, "select this", at="middle", size=12)
    picture.text(514, 116, "their rules", at="middle", bold=True)
    picture.text(514, 134, "select this", at="middle", size=12)
    picture.text(380, 122, "this", at="middle", bold=True)
    picture.text(380, 140, "travels", at="middle", bold=True)
    for number, (x, words, fill) in enumerate((
        (24, "offer what I may send", BLUE), (210, "ask for what I lack", BLUE),
        (396, "send and validate", BLUE), (582, "nothing left: stop", GREEN),
    )):  # fmt: skip
        picture.label(x, 258, 156, 36, words, fill=fill)
        if number:
            picture.arrow(f"M{x - 30} 276 H{x - 2}")
    picture.arrow("M474 294 V308 H102 V296")
    return picture.svg()


def views() -> str:
    """Records, a gate, and the rules of a peer behind it."""
    picture = Picture(760, 270, "Rules of a peer see the records that you expose, and no others")
    picture.box(24, 40, 220, 200, fill=PAPER)
    picture.text(36, 30, "my records", bold=True)
    for row, (name, fill) in enumerate((
        ("shared note 1", GREEN), ("shared note 2", GREEN), ("diary", RED), ("salary", RED),
    )):  # fmt: skip
        picture.label(40, 56 + row * 44, 188, 32, name, fill=fill)
    picture.box(306, 40, 40, 200, fill=GOLD)
    picture.text(326, 30, "expose", at="middle", bold=True)
    picture.arrow("M230 72 H418")
    picture.arrow("M230 116 H418")
    picture.arrow("M230 160 H302", dashed=True)
    picture.arrow("M230 204 H302", dashed=True)
    picture.box(420, 40, 316, 200, fill=BLUE)
    picture.text(420, 30, "the peer's rules, run here", bold=True)
    picture.text(436, 76, "see: shared note 1, shared note 2")
    picture.text(436, 112, "Have(P)             2 facts", mono=True, size=12)
    picture.text(436, 134, "not Have(diary)     holds", mono=True, size=12)
    picture.text(436, 156, "count of records    2", mono=True, size=12)
    picture.text(436, 196, "To them, the rest does not exist.", size=12)
    return picture.svg()


def time() -> str:
    """Two clocks, and the tick that both have reached."""
    picture = Picture(760, 270, "Rules see the instant that both sides have reached")
    for y, name, at in ((70, "Alice's clock", 520), (130, "Bob's clock", 420)):
        picture.text(24, y + 4, name, bold=True)
        picture.raw(f'<path d="M150 {y} H{at}" stroke="{SOFT}" stroke-width="6"/>')
        picture.raw(f'<circle cx="{at}" cy="{y}" r="7" fill="{GOLD}" stroke="{SOFT}"/>')
    for tick in range(6):
        x = 150 + tick * 90
        picture.raw(
            f'<path d="M{x} 50 V200" stroke="{SOFT}" stroke-width="1" stroke-dasharray="2 5"/>'
        )
    picture.label(330, 176, 180, 32, "TickTAI: here for both", fill=GREEN)
    picture.arrow("M420 140 V174")
    picture.raw(f'<path d="M600 40 V210" stroke="{SOFT}" stroke-width="3"/>')
    picture.text(600, 32, "Not-Before of a record", at="middle", size=12)
    picture.text(610, 166, "travels only when", size=12)
    picture.text(610, 182, "the tick is past this", size=12)
    picture.text(
        24, 246, "The side that is ahead waits for the other. Ticks never go back.", size=12
    )
    return picture.svg()


def forgetting() -> str:
    """What forgetting does here, and what it cannot do elsewhere."""
    picture = Picture(760, 250, "To forget removes a record here, and nowhere else")
    for x, name, first, fill in (
        (24, "my laptop", "forgotten", RED), (276, "the server", "still there", GREEN),
        (528, "Bob's phone", "still there", GREEN),
    ):  # fmt: skip
        picture.box(x, 44, 208, 110, fill=BLUE)
        picture.text(x + 12, 34, name, bold=True)
        picture.label(x + 20, 62, 168, 32, "the record", fill=fill)
        picture.text(x + 104, 126, first, at="middle", size=12)
    picture.arrow("M274 78 H236", dashed=True)
    picture.text(
        24, 190, "It comes back if a peer offers it and your rules still ask for it:", size=13
    )
    picture.text(
        24, 212, "first change the rules so that it no longer belongs, then forget it.", size=13
    )
    return picture.svg()


def trust() -> str:
    """A chain of signatures that any machine can check."""
    picture = Picture(760, 280, "Trust follows signatures, not machines")
    for x, head, line, fill in (
        (24, "the authority's verifier", "stands in your rules", GOLD),
        (278, "a grant", "signed by the authority", BLUE),
        (532, "Bob's note", "signed by Bob", BLUE),
    ):
        picture.box(x, 36, 204, 60, fill=fill)
        picture.text(x + 102, 62, head, at="middle", bold=True)
        picture.text(x + 102, 82, line, at="middle", size=12)
    picture.arrow("M230 66 H274")
    picture.arrow("M484 66 H528")
    picture.text(380, 124, "names Bob's verifier", at="middle", size=12, colour=SOFT)
    for x, name in ((60, "a server you rent"), (290, "a stranger's phone"), (520, "a USB stick")):
        picture.label(x, 196, 180, 36, name, fill=GREEN)
        picture.arrow(f"M{x + 90} 194 V150")
    picture.text(380, 144, "the records may come from anywhere: the check is the same", at="middle")
    picture.text(380, 262, "No place on the network has to be believed.", at="middle", size=12)
    return picture.svg()


CONCEPTS: Final[Mapping[str, Callable[[], str]]] = {
    f"images/concept-{drawn.__name__}.svg": drawn
    for drawn in (records, reasons, travels, views, time, forgetting, trust)
}
