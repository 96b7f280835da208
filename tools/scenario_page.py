"""The reference page of the scenario format: entries, sentences and limits."""

from __future__ import annotations

from dataclasses import fields

from lace.limits import SCENARIO
from lace.scenario.expect import FORMS
from lace.scenario.model import FORMAT

EXAMPLE = """\
format = "lace-scenario/1"
title = "Two devices"
story = "A phone and a laptop share notes."
now = "1700000000:000000000"

[keys]
owner = "owner"

[record.note]
at = "//home//notes//monday"
by = "owner"
fields = { Title = "Monday" }
data = "Buy bread."

[peer.phone]
has = ["note"]
rules = "//home//notes//"

[peer.laptop]
rules = "//home//notes//"

[[step]]
say = "They meet."
interlace = ["phone", "laptop"]
expect = ["laptop has note"]
"""

ENTRIES = {
    "The whole": (
        ("format", f"`{FORMAT}`."),
        ("title", "One line."),
        ("story", "What it is about, in a few sentences."),
        ("now", "The time at which it begins, as TAI. No clock is ever read."),
        ("columns", "Optional: fields that tables show first."),
        (
            "[keys]",
            "A name and the words that its demo key is made from. Real secrets are refused.",
        ),
        ("[rules]", "Optional: rules that several peers share, by name."),
    ),
    "`[record.NAME]`": (
        ("at", "Its place, `//group//app//name`."),
        ("by", "The key that seals it. Without one it is a Plex."),
        ("tai", "When it says it was made; `now` if left out."),
        ("fields", "A table of extra headers; a list of texts repeats one."),
        ("data", "Its data, as text."),
    ),
    "`[peer.NAME]`": (
        ("title", "What it is called; its name if left out."),
        ("key", "The key that it proves to whoever it meets. Without one it is a stranger."),
        ("has", "The records it starts with."),
        ("rules", "Rules, a coordinate or prefix, or the name of shared rules."),
        (
            "expose",
            (
                "What peers' rules may see: `selected` (the default), `none`, `everything`, or "
                "one or more texts of expose rules."
            ),
        ),
    ),
    "`[[step]]`, done in this order": (
        ("say", "What happens, in one line."),
        ("advance", "Seconds that pass first."),
        ("rules", "A table: peers, and the rules they change to."),
        ("store", "A table: peers, and the records they come by."),
        ("forget", "A table: peers, and the records they forget."),
        ("interlace", "Two peers that meet; the first accepts, the second connects."),
        (
            "stay",
            (
                "`true` leaves the exchange open after its fixed point; a later step in which the "
                "same two meet goes on with it: new records, rules and time wake it."
            ),
        ),
        (
            "fault",
            (
                "A list of tables `{ do, from, record | message, byte }`: `flip` turns over a bit "
                "of a byte, `drop`, `duplicate`, `swap` with the next message, `cut` the line. "
                "Messages of a sender count from 1."
            ),
        ),
        ("ends", "`fixed point` (the default), or the code with which the exchange must end."),
        ("expect", "Sentences that must be true after the step."),
    ),
}


def scenario_page() -> str:
    lines = [
        "# Scenarios",
        "",
        "A scenario is one TOML file: who takes part, what there is, what happens, and what must",
        "come of it. `lace scenario run FILE` tells it, `lace scenario test FILE` checks it, and",
        "the workbench shows it. The same file always gives the same run, byte for byte.",
        "",
        "```toml",
        *EXAMPLE.rstrip().split("\n"),
        "```",
        "",
        "`{name}` in rules, fields and sentences stands for the verifier of a key or the hash of a",
        "record. Names are lower-case letters, digits and hyphens. An entry not listed here",
        "is an error.",
    ]
    for title, entries in ENTRIES.items():
        lines += ["", f"## {title}", "", "| Entry | What it takes |", "|---|---|"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in entries]
    lines += ["", "## Sentences", "", "| For example | What it asks for |", "|---|---|"]
    lines += [f"| `{form.example}` | {form.meaning} |" for form in FORMS]
    lines += ["", "## Limits", "", "| Limit | Value |", "|---|---|"]
    lines += [
        f"| {f.name.replace('_', ' ')} | {getattr(SCENARIO, f.name):,} |" for f in fields(SCENARIO)
    ]
    return "\n".join(lines) + "\n"
