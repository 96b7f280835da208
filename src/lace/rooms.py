"""Rooms: who may write where, said by records, and the rules that follow from a few choices.

The authority of a room says who is a member, with records at ``//group//app/member//``: a grant
names a member and a role, an end names a member. Of what one signer said about one member, the
newest counts, so that whoever was removed can be admitted again. A member may hand its place on to
another key of its own, with a record there that the old key signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NoReturn

from lace.datalog.ast import (
    Anonymous,
    BodyAtom,
    Compare,
    Constant,
    Negated,
    NotEqual,
    Operator,
    Predicate,
    Rule,
    Term,
    TextShape,
    Variable,
)
from lace.errors import Code, EncodingError, PolicyError
from lace.ids import is_verifier
from lace.limits import FIXED
from lace.policy.module import Facet, PolicyModule, module_from_rules
from lace.policy.view import Exposure
from lace.selectors import Filter
from lace.text import shown
from lace.urc import Prefix, parse_urc, path_fault
from lace.vocabulary import ALLOW_QUERY_RECORD, PEER, SELECT_ADVERTISED, SELECT_HAVE

Removed = Literal["goes", "stays"]
Places = Literal["shared", "own"]
Reads = Literal["members", "anyone"]

REMOVED: Final[tuple[Removed, ...]] = ("goes", "stays")
PLACES: Final[tuple[Places, ...]] = ("shared", "own")
READS: Final[tuple[Reads, ...]] = ("members", "anyone")
EVERYWHERE: Final = "*"
ROLES: Final[Mapping[str, tuple[str, ...]]] = {"writer": (EVERYWHERE,), "reader": ()}
"""Who writes where, unless a room says it otherwise."""

MEMBER_APP: Final = "member"
MEMBER_FIELD: Final = "Member"
"""Where a room's grants are, and which field of them names the member."""

ROLE_FIELD: Final = "Role"
ENDED_FIELD: Final = "Ended"
UNDER_FIELD: Final = "Under"
ADMITS_FIELD: Final = "May-Admit"
NEXT_FIELD: Final = "Next"

GRANT: Final = Predicate("Grant", 3)
"""``Grant(verifier,role,record)``: the newest grant of somebody whose word counts."""
ENDS: Final = Predicate("Ends", 2)
"""``Ends(grant,instant)``: whoever granted it has ended it since."""
MEMBER: Final = Predicate("Member", 2)
"""``Member(verifier,role)``: the verifier is a member now."""
ADMITS: Final = Predicate("Admits", 2)
"""``Admits(verifier,depth)``: the verifier may admit others, and let them do so depth - 1 deep."""

MOVED: Final = Predicate("Moved", 3)
"""``Moved(old,new,instant)``: the old key says that the new one stands for it from then on."""

_SPLIT: Final = Predicate("Split", 1)
_GONE: Final = Predicate("Gone", 1)
_LATE: Final = Predicate("Late", 1)
_SAID: Final = Predicate("Said", 4)
_GRANTED: Final = Predicate("Granted", 4)
_OLDER: Final = Predicate("Older", 1)
_OUTDATED: Final = Predicate("Outdated", 1)
_CLOSED: Final = Predicate("Closed", 1)
_RULED: Final = Predicate("Ruled", 1)
_BELONGS: Final = Predicate("Belongs", 1)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ANY: Final = Anonymous()
_P, _S, _A, _K, _N, _C, _R = map(Variable, ("P", "S", "A", "K", "N", "C", "R"))
_V, _W, _T, _U, _G, _H, _D, _E = map(Variable, ("V", "W", "T", "U", "G", "H", "D", "E"))


@dataclass(frozen=True, kw_only=True)
class Room:
    """A room at a place: the choices that make its rules. All who meet there make the same ones."""

    prefix: str
    """A whole app, ``//group//app//``."""
    authority: str
    """The verifier whose word on membership is final."""
    roles: Mapping[str, Sequence[str]] = field(default_factory=lambda: ROLES)
    """Each role with the sub-apps it writes in; ``*`` is all of them, nothing is none. The first is
    the usual one: who is admitted without a word about roles has it."""
    removed: Removed = "goes"
    """Whether what a removed member wrote before goes with them, or stays.

    What stays is told by the time that a record says of itself: a removed member who writes into
    the past cannot be told from one who wrote then.
    """
    places: Places = "shared"
    """Whether members write at any place, or only under names that their grant gives them."""
    reads: Reads = "members"
    """Whose rules see what belongs here."""
    delegation: int = 0
    """How far the right to admit can be handed on: 0 leaves it to the authority alone."""

    def __post_init__(self) -> None:
        try:
            place = parse_urc(self.prefix)
        except EncodingError:
            place = None  # as //group//app, which is no address of anything
        if not isinstance(place, Prefix) or place.name:
            _refuse(f"{shown(self.prefix)} is not a whole app", "Write //group//app//.")
        if not is_verifier(self.authority):
            # A name would match no signature, and the room would be empty without a word.
            _refuse(
                f"authority: {shown(self.authority)} is not a verifier",
                'Give a verifier, V.….H3: lace.Keyring().get("alice").verifier.',
            )
        for what, given, known in (
            ("removed", self.removed, REMOVED),
            ("places", self.places, PLACES),
            ("reads", self.reads, READS),
        ):
            if given not in known:
                _refuse(f"{what} is {shown(str(given))}", f"Say {' or '.join(known)}.")
        if type(self.delegation) is not int or not 0 <= self.delegation <= FIXED.delegation:
            _refuse(f"delegation is {shown(str(self.delegation))}", f"Say 0 to {FIXED.delegation}.")
        if not isinstance(self.roles, Mapping):
            _refuse("roles is not a mapping", 'Write {"writer": ["*"], "reader": []}.')
        for role, apps in self.roles.items():
            if isinstance(apps, str):
                _refuse(f"role {shown(role)} has a text for its apps", f"Write [{apps!r}].")
        # However they were given, two rooms with the same choices are equal.
        object.__setattr__(self, "roles", {role: tuple(self.roles[role]) for role in self.roles})
        if not self.roles:
            _refuse("a room needs a role", "Name at least one.")
        for role, apps in self.roles.items():
            if not _NAME.fullmatch(role):
                _refuse(f"{shown(role)} cannot be a role", "Use letters, digits, _ and -.")
            for app in apps:
                if app == MEMBER_APP or (app != EVERYWHERE and path_fault(app) is not None):
                    _refuse(f"role {role} cannot write in {shown(app)}", "Name a sub-app, or *.")

    @property
    def usual_roles(self) -> bool:
        """Whether it has the roles that a room has by itself, in their order too."""
        return [*self.roles.items()] == [*ROLES.items()]

    @property
    def group(self) -> str:
        """The Group of its place."""
        return self._place.group

    @property
    def app(self) -> str:
        """The App of its place."""
        return self._place.app

    @property
    def member_app(self) -> str:
        """The app of grants and ends."""
        return f"{self.app}/{MEMBER_APP}"

    @cached_property
    def module(self) -> PolicyModule:
        """The selector: what members signed where they may, with the records that admit them.

        It brings the view of the room, which holds wherever nothing else says what is exposed.
        """
        made = module_from_rules((*self._members(), *self._selected()))
        return replace(made, views=self.exposure.modules)

    @cached_property
    def exposure(self) -> Exposure:
        """What a peer's rules may see of the room."""
        if self.reads == "anyone":
            return Exposure(default="selected")
        belongs = [
            Rule(_BELONGS(_P), rule.body)
            for rule in self._selected()
            if rule.head.predicate == SELECT_HAVE
        ]
        member = (PEER(_V), MEMBER(_V, _ANY), Negated(_GONE(_V)))
        viewers = ((_V, member), (self._owner, (PEER(self._owner),)))
        allowed = [
            Rule(ALLOW_QUERY_RECORD(viewer, _P), (*is_there, _BELONGS(_P)))
            for viewer, is_there in viewers
        ]
        rules = (*self._members(), *belongs, *allowed)
        return Exposure(modules=(module_from_rules(rules, Facet.EXPOSE),))

    # --- who is a member ---

    @property
    def _place(self) -> Prefix:
        place = parse_urc(self.prefix)
        assert isinstance(place, Prefix)
        return place

    @property
    def _owner(self) -> Constant:
        return Constant(self.authority)

    @property
    def _statements(self) -> Filter:
        return Filter((("Group", Constant(self.group)), ("App", Constant(self.member_app))))

    def _members(self) -> Iterator[Rule]:
        said = self._statements.and_also(
            **{MEMBER_FIELD: _V, "Signed_By": _W if self.delegation else self._owner, "TAI": _T}
        )
        signer: Term = _W if self.delegation else self._owner
        yield Rule(_SAID(signer, _V, _T, _G), said.here(_G))
        role = Filter(((ROLE_FIELD, _ANY),)).here(_G)[1:]
        yield Rule(_GRANTED(_W, _V, _T, _G), (_SAID(_W, _V, _T, _G), *role))
        for older, of in ((_OLDER, _SAID), (_OUTDATED, _GRANTED)):
            one = of(_W, _V, _T, _G)
            yield Rule(older(_G), (one, of(_W, _V, _U, _H), _lex(_T, "<", _U)))
            yield Rule(older(_G), (one, of(_W, _V, _T, _H), _lex(_G, "<", _H)))
        ended = Filter(((ENDED_FIELD, _ANY),)).here(_E)[1:]
        newest = (_GRANTED(_W, _V, _T, _G), Negated(_OUTDATED(_G)))
        yield Rule(ENDS(_G, _U), (*newest, _SAID(_W, _V, _U, _E), Negated(_OLDER(_E)), *ended))
        yield Rule(_CLOSED(_G), (ENDS(_G, _ANY),))
        yield Rule(MEMBER(_V, _R), (GRANT(_V, _R, _G), Negated(_CLOSED(_G))))
        has_role = Filter(((ROLE_FIELD, _R),)).here(_G)[1:]
        by_owner = (_GRANTED(self._owner, _V, _T, _G), Negated(_OUTDATED(_G)), *has_role)
        yield Rule(GRANT(_V, _R, _G), by_owner)
        yield from self._moved()
        if self.delegation:
            depth = Filter(((ADMITS_FIELD, _D),)).here(_G)[1:]
            most = (_int(Constant("1"), "<=", _D), _int(_D, "<=", Constant(str(self.delegation))))
            stands = Negated(_CLOSED(_G))
            yield Rule(ADMITS(_V, _D), (*by_owner, stands, *depth, *most))
            yield Rule(_RULED(_V), (_SAID(self._owner, _V, _ANY, _ANY),))
            # Nobody gives a role that they do not have, and the authority's word goes first.
            by_member = (*newest, Negated(_LATE(_G)), *has_role, MEMBER(_W, _R))
            by_member += (Negated(_RULED(_V)),)
            yield Rule(_LATE(_G), (_SAID(_W, _V, _T, _G), MOVED(_W, _ANY, _U), _lex(_U, "<=", _T)))
            yield Rule(GRANT(_V, _R, _G), (*by_member, ADMITS(_W, _ANY)))
            deeper = (ADMITS(_W, _E), _int(Constant("1"), "<=", _D), _int(_D, "<", _E))
            yield Rule(ADMITS(_V, _D), (*by_member, stands, *depth, *deeper))

    def _moved(self) -> Iterator[Rule]:
        """Yield who stands for whom. Two heirs of one key are none: then somebody has stolen it."""
        # What only such a record has stands first: else a grant would look almost like one.
        said = Filter(((NEXT_FIELD, _N), *self._statements.fields)).and_also(
            **{MEMBER_FIELD: _V, "Signed_By": _V, "TAI": _T}
        )
        yield Rule(MOVED(_V, _N, _T), said.here(_H))
        other = Variable("M")
        twice = (MOVED(_V, _N, _ANY), MOVED(_V, other, _ANY), NotEqual(_N, other))
        yield Rule(_SPLIT(_V), twice)
        yield Rule(_GONE(_V), (MOVED(_V, _ANY, _ANY),))
        heir = (MOVED(_V, _N, _ANY), GRANT(_V, _R, _G), Negated(_SPLIT(_V)))
        yield Rule(GRANT(_N, _R, _G), heir)

    # --- what belongs ---

    def _selected(self) -> Iterator[Rule]:
        yield from _both(self._statements.and_also(Signed_By=self._owner))
        moves = self._statements.and_also(**{MEMBER_FIELD: _V, "Signed_By": _V, NEXT_FIELD: _N})
        yield from _both(moves, GRANT(_V, _ANY, _ANY))
        if self.delegation:
            yield from _both(self._statements.and_also(Signed_By=_V), ADMITS(_V, _ANY))
        for role, apps in self.roles.items():
            for content in self._contents(apps):
                yield from self._written(content.and_also(Signed_By=_V), Constant(role))

    def _contents(self, apps: Iterable[str]) -> Iterator[Filter]:
        """Yield what makes up the sub-apps of a role."""
        group = ("Group", Constant(self.group))
        not_members = NotEqual(_A, Constant(self.member_app))
        for app in (EVERYWHERE,) if EVERYWHERE in apps else tuple(apps):
            whole = self.app if app == EVERYWHERE else f"{self.app}/{app}"
            yield Filter((group, ("App", Constant(whole))))
            below = TextShape(_A, Constant(f"{whole}/"), "", Constant(""))
            tests = (below, not_members) if app == EVERYWHERE else (below,)
            yield Filter((group, ("App", _A)), tests)

    def _written(self, content: Filter, role: Constant) -> Iterator[Rule]:
        """Yield the rules for what somebody wrote with a role: now, and before it ended."""
        own: tuple[BodyAtom, ...] = ()
        if self.places == "own":
            content = content.and_also(Name=_N)
            under = Filter(((UNDER_FIELD, _K),)).here(_G)[1:]
            own = (*under, TextShape(_N, _K, "", Constant("")))
            now: tuple[BodyAtom, ...] = (GRANT(_V, role, _G), Negated(_CLOSED(_G)), *own)
        else:
            now = (MEMBER(_V, role),)
        yield from _both(content, *now, Negated(_GONE(_V)))
        moved = MOVED(_V, _ANY, _T)
        yield from _both(content, *now, moved, then=Filter((("TAI", _C),), (_lex(_C, "<", _T),)))
        if self.removed == "stays":
            before = (GRANT(_V, role, _G), ENDS(_G, _U), *own)
            yield from _both(content, *before, then=Filter((("TAI", _C),), (_lex(_C, "<", _U),)))


def room(prefix: str, *, authority: str, **choices: Any) -> PolicyModule:
    """Return the selector of a ``Room`` with these choices, which brings the view of that room."""
    return Room(prefix=prefix, authority=authority, **choices).module


def _both(filter: Filter, *conditions: BodyAtom, then: Filter | None = None) -> Iterator[Rule]:
    """Yield the two facets for the records that pass a filter, further conditions, and another."""
    last = then or Filter()
    here = (*filter.here(_P), *conditions, *last.here(_P)[1:])
    yield Rule(SELECT_HAVE(_P), here)
    there = (*filter.advertised(_P, _S), *conditions, *last.advertised(_P, _S)[1:])
    yield Rule(SELECT_ADVERTISED(_P, _S), there)


def _lex(left: Term, operator: Operator, right: Term) -> Compare:
    return Compare("LexCompare", left, operator, right)


def _int(left: Term, operator: Operator, right: Term) -> Compare:
    return Compare("IntCompare", left, operator, right)


def _refuse(message: str, hint: str) -> NoReturn:
    raise PolicyError(message, code=Code.POLICY_ROOM, hint=hint)
