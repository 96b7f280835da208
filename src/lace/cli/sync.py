"""``lace sync`` and ``lace follow``: interlace to the fixed point, or for as long as it lasts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import click

from lace.api.events import EventsMissed
from lace.api.handles import Lace, Peer, store_of
from lace.api.interlaces import open_interlace
from lace.api.interlaces import sync as interlace_sync
from lace.api.rooms import members
from lace.cli.arguments import (
    complete_peers,
    expect_option,
    expose_option,
    is_address,
    key_option,
    lace_option,
    select_option,
    trust_option,
)
from lace.cli.events import Reporter, summary
from lace.cli.exitcodes import Exit
from lace.cli.loudness import loudness
from lace.cli.met import note_meeting
from lace.cli.names import named
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.render import chosen_form, words_option
from lace.crypto.keys import SigningKey
from lace.dates import local_date
from lace.errors import Code, InterlaceAborted, UsageError
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.recordstore.sqlite_file import check_rights
from lace.settings import Settings
from lace.text import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meeting:
    """Everything that an exchange needs."""

    local: Lace
    other: Lace | Peer
    module: PolicyModule
    exposure: Exposure
    their_module: PolicyModule | None = None
    their_exposure: Exposure | None = None


def _exchange_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that sync and follow share."""
    for option in (
        lace_option,
        words_option,
        key_option(),
        expose_option,
        trust_option,
        expect_option,
        select_option(),
        click.option(
            "--phase-timeout",
            type=click.IntRange(1, 86_400),
            default=DEFAULT_LIMITS.phase_timeout,
            show_default=True,
            metavar="SECONDS",
            help="How long the peer may say nothing; a large lake needs more.",
        ),
        click.argument(
            "peer_text", metavar="[PEER]", required=False, shell_complete=complete_peers
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--journal", metavar="FILE", help="Write every step of this side into a new FILE.")
@_exchange_options
def sync(
    journal: str | None,
    peer_text: str | None,
    select_text: str | None,
    expect: str | None,
    trust: str | None,
    exposed: tuple[str, ...],
    key_text: str | None,
    phase_timeout: int,
    form: str | None,
    where: str | None,
) -> int:
    """Exchange with PEER exactly the records that both sides select, until none is left.

    Where either side stores records all the while, it ends when everything that was there at the
    beginning has been exchanged, says so, and exits with 0: the next sync brings the rest.

    PEER is a name of lace.toml, an address (tcp:host:port, unix:/path, ws:…, wss:…), or the path of
    another lace on this machine. Without one it is the peer of lace.toml, or the only one there. A
    terminal shows what travelled; a pipe gets one JSON object for
    each event. A journal can be run again with lace plumb journal replay; it holds the records that
    came. Exit code 3 if records were rejected, here or by the peer, 4 if it ended early, 5 if a
    limit ended it; what was stored stays stored, and the next sync goes on from there.

    \b
    Example:
      lace sync
      lace sync tcp:notes.example.org:4790
      lace sync ../bob
      lace sync server --select //notes-demo//notes//
    """
    settings = find(where)
    peer = _peer_or_default(settings, peer_text)
    with _meeting(
        settings, peer, select_text, expect, trust, exposed, key_text, phase_timeout
    ) as meeting:
        return asyncio.run(_sync(meeting, settings.settings, peer, form, journal))


async def _sync(
    meeting: _Meeting, settings: Settings, peer: str, form: str | None, journal: str | None
) -> int:
    reporter = Reporter(meeting.local, brief=not loudness.verbose, form=chosen_form(form))
    began = store_of(meeting.local).high_water()
    try:
        async with reporter.progress():
            result = await interlace_sync(
                meeting.local,
                meeting.other,
                meeting.module,
                their_policy=meeting.their_module,
                expose=meeting.exposure,
                their_expose=meeting.their_exposure,
                listen=reporter.hear,
                journal=journal,
            )
    except InterlaceAborted as error:
        await reporter.flush()
        echo(f"until then: {summary(error.result)}", err=True)
        raise
    await reporter.flush()
    note_meeting(settings, peer, meeting.local, result, began)
    if result.fixed_point:
        echo(f"fixed point: {summary(result)}", err=True)
    else:
        echo(f"everything that was there at the beginning: {summary(result)}", err=True)
        echo("no fixed point: records were stored all the while; lace sync again for the rest",
             err=True)  # fmt: skip
    await _tell_standing(meeting, settings, result)
    refused = result.sent and result.not_stored is not None
    return Exit.SOME_REJECTED if result.rejected or refused else Exit.OK


@click.command()
@_exchange_options
def follow(
    peer_text: str | None,
    select_text: str | None,
    expect: str | None,
    trust: str | None,
    exposed: tuple[str, ...],
    key_text: str | None,
    phase_timeout: int,
    form: str | None,
    where: str | None,
) -> int:
    """Stay interlaced with PEER: what either side stores reaches the other, if both select it.

    PEER is what lace sync takes. When the connection breaks it is made again, after a while that
    grows up to a minute. Each event is a line, in a pipe a JSON object. Ctrl-C ends it in order,
    with exit code 130.

    \b
    Example:
      lace follow tcp:notes.example.org:4790
      lace follow server | jq -r 'select(.event == "saved").hash'
    """
    settings = find(where)
    peer = _peer_or_default(settings, peer_text)
    with _meeting(
        settings, peer, select_text, expect, trust, exposed, key_text, phase_timeout
    ) as meeting:
        return asyncio.run(_follow(meeting, settings.settings, peer, form))


async def _follow(meeting: _Meeting, settings: Settings, peer: str, form: str | None) -> int:
    reporter = Reporter(meeting.local, brief=False, form=chosen_form(form))
    live = await open_interlace(
        meeting.local,
        meeting.other,
        meeting.module,
        their_policy=meeting.their_module,
        expose=meeting.exposure,
        their_expose=meeting.their_exposure,
        retry=_tell_retry,
    )
    asked: list[int] = []
    closing: set[asyncio.Task[None]] = set()

    def stop(number: int) -> None:
        asked.append(number)
        closing.add(asyncio.create_task(live.close()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # not every system can; Ctrl-C ends it less gently
            loop.add_signal_handler(number, stop, number)
    last: m.Event | None = None
    offers: bool | None = None
    try:
        async for event in live:
            if isinstance(event, EventsMissed):
                echo(f"{event.count:,} events were not told in time", err=True)
                continue
            last = event
            reporter.hear(event)
            await reporter.flush()
            if isinstance(event, m.FixedPoint):
                note_meeting(settings, peer, meeting.local, event.result)
                echo(f"fixed point: {summary(event.result)}", err=True)
                if offers is not bool(event.result.offered):
                    offers = bool(event.result.offered)
                    await _tell_standing(meeting, settings, event.result)
    finally:
        await asyncio.gather(live.close(), *closing)
    if asked:
        return Exit.INTERRUPTED if asked[0] == signal.SIGINT else Exit.OK
    if isinstance(last, m.Aborted):
        echo(f"lace: {last.detail} [{last.code}]\n  {last.code.fix}", err=True)
        return Exit.LIMIT if last.code is Code.LIMIT_EXCEEDED else Exit.ABORTED
    if isinstance(last, m.Closed) and last.ending is m.Ending.LOOPS:
        echo(f"lace: {last.reason} [{Code.LIMIT_EXCEEDED}]", err=True)
        return Exit.LIMIT
    return Exit.OK


async def _tell_standing(meeting: _Meeting, settings: Settings, result: m.InterlaceResult) -> None:
    """Say why an exchange may have moved nothing: by what was offered, and by what is here.

    What a peer keeps to itself cannot be told from what it does not have, and is not told here.
    """
    own = meeting.local.verifier
    who = "somebody without a key" if own is None else named(own)
    if result.not_stored is not None:
        echo(_refusal(result.not_stored, result.sent), err=True)
    nothing = not (result.offered or result.sent)
    room = settings.room
    if room is None:
        if nothing:
            echo(f"the peer offers nothing to {who}: it has nothing that both of you select, "
                 "or shows it to others only", err=True)  # fmt: skip
        return
    if own == room.authority:
        return
    authority = named(room.authority)
    grants = [one for one in await members(meeting.local, room) if one.verifier == own]
    stands = [one for one in grants if one.ended is None and one.moved is None]
    if stands and not nothing:
        return
    if stands and stands[0].granted != own:
        old = named(stands[0].granted)
        echo(f"the peer offers nothing to {who}, who stands for {old} by what is here: a peer that "
             f"has not heard of it looks like this; lace sync --key {old}", err=True)  # fmt: skip
    elif stands:
        echo(f"the peer offers nothing to {who}, who is a member by what is here: a membership "
             f"that was ended since looks like this; ask {authority}", err=True)  # fmt: skip
    elif heir := next((one.moved for one in grants if one.moved is not None), None):
        echo(f"{who} has handed its place in the room on: sync with the key of {named(heir)} "
             "from now on", err=True)  # fmt: skip
    elif ended := max((one.ended for one in grants if one.ended is not None), default=None):
        echo(f"{who} has been no member of the room since {local_date(ended)}; "
             f"{authority} can admit them again", err=True)  # fmt: skip
    elif nothing:
        echo(f"the peer offers nothing to {who}, who is no member by what is here; {authority} "
             f"admits members: lace room admit {own or 'VERIFIER'}", err=True)  # fmt: skip


def _refusal(code: str, sent: Sequence[str]) -> str:
    """Return what a peer said that stores nothing more, in words where it is known."""
    what = f"of the {len(sent):,} sent it may lack some" if sent else "nothing was sent"
    known = next((one for one in Code if str(one) == code), None)
    why = "" if known is None else f": {known.meaning} {known.fix}"
    return f"the peer stores nothing more of yours, and {what}{why} [{code}]"


def _peer_or_default(place: Place, text: str | None) -> str:
    if text is not None:
        return text
    meant = place.settings.default_peer
    if meant is None:
        known = ", ".join(place.settings.peers) or "none"
        raise UsageError(
            f"say which peer: lace.toml names no default (there are: {known})",
            code=Code.SETTINGS_MALFORMED,
            hint='Give a PEER, or write peer = "name" into lace.toml.',
        )
    return meant


def _tell_retry(seconds: float, why: str) -> None:
    echo(f"{why}; trying again in {seconds:.1f} s", err=True)


def _found(peer: str, settings: Place) -> Place:
    """Return the settings of another lace on this machine."""
    try:
        return find(peer)
    except UsageError as error:
        if error.code is not Code.SETTINGS_MISSING:
            raise
        known = ", ".join(settings.settings.peers) or "none"
        raise UsageError(
            f"{shown(peer)} is no peer of lace.toml (there are: {known}), no address, and no lace",
            code=Code.ADDRESS_MALFORMED,
        ) from None


def _opened(place: Place, key: SigningKey | None, limits: Limits = DEFAULT_LIMITS) -> Lace:
    """Open a lace that will store; that it may not is said before anybody is met."""
    opened = place.open(key, limits)
    try:
        check_rights(place.settings.store)
    except BaseException:
        opened.close()
        raise
    return opened


@contextmanager
def _meeting(
    settings: Place,
    peer: str,
    select: str | None,
    expect: str | None,
    trust: str | None,
    exposed: tuple[str, ...],
    key: str | None,
    phase_timeout: int,
) -> Iterator[_Meeting]:
    """Open what an exchange needs, and close it at the end."""
    module = settings.module(select)
    exposure = settings.exposure(exposed)
    limits = replace(DEFAULT_LIMITS, phase_timeout=phase_timeout)
    with ExitStack() as stack:
        if peer in settings.settings.peers or is_address(peer):
            other = settings.peer(peer, expect=expect, trust=trust)
            local = stack.enter_context(_opened(settings, settings.signing_key(key), limits))
            yield _Meeting(local=local, other=other, module=module, exposure=exposure)
            return
        if expect is not None or trust is not None:
            raise click.UsageError("--expect and --trust are about a peer at an address")
        theirs = _found(peer, settings)
        local = stack.enter_context(_opened(settings, settings.signing_key(key), limits))
        there = stack.enter_context(_opened(theirs, theirs.signing_key(None)))
        yield _Meeting(
            local=local,
            other=there,
            module=module,
            exposure=exposure,
            their_module=theirs.module(None) if theirs.settings.select is not None else module,
            their_exposure=theirs.exposure(()),
        )
