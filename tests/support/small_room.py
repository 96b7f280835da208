"""The rules of a small room, as an application may write them for itself: a policy to test with.

They join records, recurse where members admit members, and negate where memberships end. A real
room, with roles and grants that are renewed, is ``lace.Room``.
"""

from __future__ import annotations

from lace.policy.module import PolicyModule, module_from_text
from lace.urc import Prefix, parse_urc


def room(
    prefix: str, *, authority: str, delegation: bool = False, revocation_app: str | None = None
) -> PolicyModule:
    """Return the selector of what members signed, with the grants and the ends that say so."""
    place = parse_urc(prefix)
    assert isinstance(place, Prefix)
    owner, apps, standing = f"'{authority}'", [f"{place.app}/member"], "Member(V)"

    def here(record: str, *fields: tuple[str, str]) -> str:
        given = (("Group", f"'{place.group}'"), *fields)
        return ", ".join([
            f"Have({record})", *(f"Field({record},'{name}',_,{value})" for name, value in given)
        ])  # fmt: skip

    def both(*fields: tuple[str, str], then: str = "") -> list[str]:
        body = here("P", *fields)
        there = body.replace("Have(P)", "Advertised(P,S)").replace(
            "Field(P,", "AdvertisedField(P,S,"
        )
        return [f"SelectHave(P) :- {body}{then}.", f"SelectAdvertised(P,S) :- {there}{then}."]

    grant = ("App", f"'{apps[0]}'")
    names = ("Member", "V")
    rules = [f"Member(V) :- {here('G', grant, names, ('Signed-By', owner))}."]
    rules += both(grant, ("Signed-By", owner))
    if revocation_app is not None:
        apps.append(f"{place.app}/{revocation_app}")
        end = (("App", f"'{apps[1]}'"), ("Signed-By", owner))
        rules += [f"Revoked(V) :- {here('G', *end, names)}.", *both(*end)]
        standing += ", not Revoked(V)"
    if delegation:
        by_member = here("G", grant, names, ("Signed-By", "W"))
        rules.append(f"Member(V) :- {by_member}, {standing.replace('(V)', '(W)')}.")
        rules += both(grant, ("Signed-By", "V"), then=f", {standing}")
    rules += both(("App", f"'{place.app}'"), ("Signed-By", "V"), then=f", {standing}")
    below = f", TextShape(A,'{place.app}/','','')" + "".join(f", A != '{app}'" for app in apps)
    rules += both(("App", "A"), ("Signed-By", "V"), then=f"{below}, {standing}")
    return module_from_text("\n".join(rules))
