"""Reasons as data: proofs, near misses and verdicts, cut where a page could not show them."""

from __future__ import annotations

from typing import Any

from lace.datalog.explain import FailedRule, Proof
from lace.interlace import messages as m
from lace.limits import WORKBENCH
from lace.policy.executable import ExchangePolicy, Verdict
from lace.scenario.run import Meeting

Json = dict[str, Any]


def proof_json(proof: Proof | None) -> Json | None:
    """Return a proof as a tree; what goes beyond the limit is said to be left out."""
    if proof is None:
        return None
    return _tree(proof, [WORKBENCH.proof_nodes])


def _tree(proof: Proof, left: list[int]) -> Json:
    left[0] -= 1
    node: Json = {"fact": proof.fact}
    if proof.rule is not None:
        node["rule"] = proof.rule
    if proof.conditions:
        node["conditions"] = list(proof.conditions)
    if proof.because:
        if left[0] < len(proof.because):
            node["cut"] = proof.size - 1
        else:
            node["because"] = [_tree(premise, left) for premise in proof.because]
    return node


def refusal_json(refusal: FailedRule) -> Json:
    """Return how far a rule got, and beneath it the rules of what it lacked."""
    made: Json = {
        "rule": refusal.id,
        "failed": refusal.failed_atom,
        "bindings": dict(sorted(refusal.bindings.items())),
        "satisfied": refusal.satisfied,
        "near": list(refusal.near_misses),
    }
    if refusal.below:
        made["because"] = [refusal_json(beneath) for beneath in refusal.below]
    return made


def verdict_json(verdict: Verdict) -> Json:
    """Return why a record may be sent or requested, or what stands in its way."""
    made: Json = {
        "allowed": verdict.allowed,
        "layer": str(verdict.layer),
        "detail": verdict.detail,
    }
    if verdict.mine is not None:
        made["mine"] = proof_json(verdict.mine)
    if verdict.theirs is not None:
        made["theirs"] = proof_json(verdict.theirs)
    if verdict.refusals:
        made["refusals"] = [refusal_json(refusal) for refusal in verdict.refusals]
    return made


def verdicts_json(policy: ExchangePolicy, held: set[str], advertised: set[str]) -> Json:
    """Return the verdict on each record that one side has or has heard of."""
    by = policy.explainers()
    return {
        "send": {hash: verdict_json(policy.explain_send(hash, by)) for hash in sorted(held)},
        "request": {
            hash: verdict_json(policy.explain_request(hash, by))
            for hash in sorted(advertised - held)
        },
    }


def stopped_json(meeting: Meeting) -> Json:
    """Return why an exchange stopped, for both sides."""
    sides: list[Json] = []
    for index in (0, 1):
        end = meeting.end(index)
        if isinstance(end, m.Aborted):
            sides.append(
                {"word": "aborted", "code": str(end.code), "meaning": end.code.meaning,
                 "detail": end.detail, "fix": end.code.fix}
            )  # fmt: skip
        elif isinstance(end, m.Closed):
            sides.append({"word": "closed", "detail": end.reason})
        else:
            sides.append({"word": "still open", "detail": "the exchange did not come to an end"})
        if end is not None:
            sides[-1] |= {
                "loops": end.result.loops,
                "received": len(end.result.received),
                "rejected": len(end.result.rejected),
                "bytes_received": end.result.bytes_received,
                "bytes_sent": end.result.bytes_sent,
            }
    return {"outcome": meeting.outcome, "sides": sides}
