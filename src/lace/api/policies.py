"""What a call means by a policy, and by what it exposes; nothing here connects to anybody."""

from __future__ import annotations

from typing import get_args

from lace.api.handles import Lace
from lace.errors import Code, UsageError
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Expose, Exposure
from lace.rooms import Room
from lace.selectors import selector
from lace.text import shown

__all__: list[str] = []

Policy = PolicyModule | Room | str
"""A selector: as a module, as a coordinate or prefix, or as rules. A room says what is exposed
too, where nothing else does, and so does its module."""
Exposes = Expose | Exposure | PolicyModule | Room
"""What the peer's rules may see: by default what the local selector selects."""


def as_module(policy: Policy) -> PolicyModule:
    """Return the policy module that is meant."""
    if isinstance(policy, PolicyModule):
        return policy
    if isinstance(policy, Room):
        return policy.module
    if not isinstance(policy, str):
        raise UsageError(
            f"a policy is a module, a room or a text, not {type(policy).__name__}",
            code=Code.INPUT_TYPE,
            hint="Give a place such as //group//app//, rules, or a lace.Room.",
        )
    is_place = policy.startswith("//") or "(" not in policy  # rules have parentheses
    return selector(policy) if is_place else module_from_text(policy)


def policy_of(lace: Lace, policy: Policy | None) -> PolicyModule:
    """Return the policy that a call gives, else the one of the lace; raise if there is none."""
    if policy is not None:
        return as_module(policy)
    if lace.policy is None:
        from lace.settings import nothing_selects  # a lace without settings needs none of it

        raise nothing_selects()
    return lace.policy


def exposure_of(lace: Lace, exposes: Exposes | None, policy: Policy | None) -> Exposure:
    """Return the exposure that a call gives, else that of its room, else that of the lace."""
    if exposes is not None:
        return as_exposure(exposes)
    if isinstance(policy, Room):
        return policy.exposure
    if isinstance(policy, PolicyModule) and policy.views:
        return Exposure(modules=policy.views)
    return lace.exposure


def as_exposure(exposes: Exposes) -> Exposure:
    """Return the exposure that is meant."""
    if isinstance(exposes, Exposure):
        return exposes
    if isinstance(exposes, Room):
        return exposes.exposure
    if isinstance(exposes, PolicyModule) and exposes.facet is Facet.EXPOSE:
        return Exposure(modules=(exposes,))
    if isinstance(exposes, str) and exposes in get_args(Expose):
        return Exposure(default=exposes)
    found = shown(exposes) if isinstance(exposes, str) else f"a {type(exposes).__name__}"
    what = "a selector" if isinstance(exposes, PolicyModule) else found
    raise UsageError(
        f"{what} does not say what is exposed", code=Code.POLICY_FACET,
        hint="Give none, selected or everything, a Room, or rules for AllowQueryRecord: "
        "lace.module_from_text(text, lace.Facet.EXPOSE).",
    )  # fmt: skip
