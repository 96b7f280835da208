"""Lace: an embedded engine for converging signed, local-first record sets.

The names below are the public surface. They are loaded when first used, so that importing ``lace``
costs next to nothing.
"""

from __future__ import annotations

from lace._version import __version__

TYPE_CHECKING = False  # type checkers know the name; importing typing would slow the start down
if TYPE_CHECKING:
    from typing import Any

    from lace.api.backups import (
        backup,
    )
    from lace.api.currents import (
        current,
        table,
    )
    from lace.api.differences import (
        Difference,
        diff,
    )
    from lace.api.events import EventsMissed
    from lace.api.exporting import Exported, export_file
    from lace.api.handles import Lace, Peer, RecordKind, connect, open
    from lace.api.importing import Imported, Refused, import_file
    from lace.api.interlaces import (
        Opening,
        OpenInterlace,
        SteppedInterlace,
        open_interlace,
        sync,
    )
    from lace.api.operations import (
        count,
        for_each,
        forget,
        forgotten,
        get,
        history,
        list,
        remember,
        store,
    )
    from lace.api.reasons import (
        Explanation,
        Question,
        Step,
        Trial,
        explain,
        try_rules,
    )
    from lace.api.rooms import (
        Membership,
        admit,
        members,
        move,
        remove,
    )
    from lace.api.rows import RowMap
    from lace.api.serving import ServerEvent, Serving, serve
    from lace.clock import tai_now
    from lace.crypto.keys import SigningKey
    from lace.crypto.provider import PlainPythonWarning
    from lace.datalog.evaluate import Evaluation, evaluate
    from lace.datalog.explain import (
        Explainer,
        FailedRule,
        Proof,
    )
    from lace.datalog.maintain import Maintained
    from lace.datalog.program import RuleProgram
    from lace.datalog.source import FactSource
    from lace.errors import (
        Code,
        Diagnostic,
        EncodingError,
        InterlaceAborted,
        LaceError,
        LacegramError,
        LakeError,
        LimitExceeded,
        LocalProtocolError,
        MissingExtra,
        Outcome,
        PolicyError,
        ProtocolError,
        RecordError,
        Severity,
        Status,
        StoreError,
        TransportError,
        UsageError,
    )
    from lace.ids import LinkTarget, RecordHash, Signature, Verifier
    from lace.interlace.messages import (
        Aborted,
        Blame,
        Closed,
        Ending,
        Event,
        FixedPoint,
        InterlaceResult,
        RecordDuplicate,
        RecordRejected,
        RecordSaved,
    )
    from lace.invitations import (
        Invitation,
    )
    from lace.keyring import (
        Keyring,
        KnownKey,
        NamedKey,
    )
    from lace.limits import Limits
    from lace.policy.audit import (
        AuditReport,
        Bait,
        Declassified,
        audit,
    )
    from lace.policy.executable import (
        ExchangePolicy,
        Verdict,
    )
    from lace.policy.module import Facet, PolicyModule, module_from_text
    from lace.policy.origin import (
        Operand,
        Origin,
        Party,
        SourceLabel,
        Viewer,
        label_operands,
    )
    from lace.policy.plan import ExchangePlan
    from lace.policy.view import Exposure
    from lace.projection import (
        Fault,
        Projection,
    )
    from lace.record.build import build_blob, build_plex, seal
    from lace.record.bulk import validate_frames
    from lace.record.facts import facts
    from lace.record.inspect import (
        Check,
        Inspection,
        inspect_record,
    )
    from lace.record.model import Blob, Plex, Record, Seal
    from lace.record.split import (
        BrokenFrame,
        Frame,
        RecordSplitter,
        split_records,
    )
    from lace.record.validate import validate_record
    from lace.rooms import Room, room
    from lace.rulefiles import (
        module_from_file,
    )
    from lace.rules import LocalFacts, MemorySource, check_lacegram, compile_program
    from lace.selectors import all_of, any_of, hashes, selector, with_support
    from lace.serving.grants import Grant, Quota, ServerLimits
    from lace.tai import Tai
    from lace.transport.address import (
        Address,
        Scheme,
    )
    from lace.transport.tls import Certificate
    from lace.urc import (
        Coordinate,
        HashAddress,
        Prefix,
        VersionSelector,
        parse_urc,
    )

_HOMES = {
    "lace.api.events": ("EventsMissed",),
    "lace.api.exporting": ("Exported", "export_file"),
    "lace.api.importing": ("Imported", "Refused", "import_file"),
    "lace.api.handles": ("Lace", "Peer", "RecordKind", "connect", "open"),
    "lace.api.interlaces": (
        "OpenInterlace", "Opening", "SteppedInterlace", "open_interlace", "sync",
    ),
    "lace.api.operations": (
        "count", "for_each", "forget", "forgotten", "get", "history", "list", "remember", "store",
    ),
    "lace.api.reasons": ("Explanation", "Question", "Step", "Trial", "explain", "try_rules"),
    "lace.api.rooms": ("Membership", "admit", "members", "move", "remove"),
    "lace.api.rows": ("RowMap",),
    "lace.api.serving": ("ServerEvent", "Serving", "serve"),
    "lace.crypto.keys": ("SigningKey",),
    "lace.crypto.provider": ("PlainPythonWarning",),
    "lace.datalog.evaluate": ("Evaluation", "evaluate"),
    "lace.datalog.explain": ("Explainer", "FailedRule", "Proof"),
    "lace.datalog.maintain": ("Maintained",),
    "lace.datalog.program": ("RuleProgram",),
    "lace.datalog.source": ("FactSource",),
    "lace.errors": (
        "Code", "Diagnostic", "EncodingError", "InterlaceAborted", "LaceError", "LacegramError",
        "LakeError", "LimitExceeded", "LocalProtocolError", "MissingExtra", "Outcome",
        "PolicyError", "ProtocolError", "RecordError", "Severity", "Status", "StoreError",
        "TransportError", "UsageError",
    ),
    "lace.interlace.messages": (
        "Aborted", "Blame", "Closed", "Ending", "Event", "FixedPoint", "InterlaceResult",
        "RecordDuplicate", "RecordRejected", "RecordSaved",
    ),
    "lace.keyring": ("Keyring", "KnownKey", "NamedKey"),
    "lace.limits": ("Limits",),
    "lace.policy.audit": ("AuditReport", "Bait", "Declassified", "audit"),
    "lace.policy.executable": ("ExchangePolicy", "Verdict"),
    "lace.policy.module": ("Facet", "PolicyModule", "module_from_text"),
    "lace.policy.origin": (
        "Operand", "Origin", "Party", "SourceLabel", "Viewer", "label_operands",
    ),
    "lace.policy.plan": ("ExchangePlan",),
    "lace.policy.view": ("Exposure",),
    "lace.projection": ("Fault", "Projection"),
    "lace.record.build": ("build_blob", "build_plex", "seal"),
    "lace.record.facts": ("facts",),
    "lace.record.inspect": ("Check", "Inspection", "inspect_record"),
    "lace.record.model": ("Blob", "Plex", "Record", "Seal"),
    "lace.record.split": ("BrokenFrame", "Frame", "RecordSplitter", "split_records"),
    "lace.record.validate": ("validate_record",),
    "lace.rooms": ("Room", "room"),
    "lace.rules": ("LocalFacts", "MemorySource", "check_lacegram", "compile_program"),
    "lace.record.bulk": ("validate_frames",),
    "lace.clock": ("tai_now",),
    "lace.selectors": ("all_of", "any_of", "hashes", "selector", "with_support"),
    "lace.serving.grants": ("Grant", "Quota", "ServerLimits"),
    "lace.tai": ("Tai",),
    "lace.transport.address": ("Address", "Scheme"),
    "lace.transport.tls": ("Certificate",),
    "lace.api.currents": ("current", "table"),
    "lace.api.differences": ("Difference", "diff"),
    "lace.ids": ("LinkTarget", "RecordHash", "Signature", "Verifier"),
    "lace.invitations": ("Invitation",),
    "lace.rulefiles": ("module_from_file",),
    "lace.api.backups": ("backup",),
    "lace.urc": ("Coordinate", "HashAddress", "Prefix", "VersionSelector", "parse_urc"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Aborted",
    "Address",
    "AuditReport",
    "Bait",
    "Blame",
    "Blob",
    "BrokenFrame",
    "Certificate",
    "Check",
    "Closed",
    "Code",
    "Coordinate",
    "Declassified",
    "Diagnostic",
    "Difference",
    "EncodingError",
    "Ending",
    "Evaluation",
    "Event",
    "EventsMissed",
    "ExchangePlan",
    "ExchangePolicy",
    "Explainer",
    "Explanation",
    "Exported",
    "Exposure",
    "Facet",
    "FactSource",
    "FailedRule",
    "Fault",
    "FixedPoint",
    "Frame",
    "Grant",
    "HashAddress",
    "Imported",
    "Inspection",
    "InterlaceAborted",
    "InterlaceResult",
    "Invitation",
    "Keyring",
    "KnownKey",
    "Lace",
    "LaceError",
    "LacegramError",
    "LakeError",
    "LimitExceeded",
    "Limits",
    "LinkTarget",
    "LocalFacts",
    "LocalProtocolError",
    "Maintained",
    "Membership",
    "MemorySource",
    "MissingExtra",
    "NamedKey",
    "OpenInterlace",
    "Opening",
    "Operand",
    "Origin",
    "Outcome",
    "Party",
    "Peer",
    "PlainPythonWarning",
    "Plex",
    "PolicyError",
    "PolicyModule",
    "Prefix",
    "Projection",
    "Proof",
    "ProtocolError",
    "Question",
    "Quota",
    "Record",
    "RecordDuplicate",
    "RecordError",
    "RecordHash",
    "RecordKind",
    "RecordRejected",
    "RecordSaved",
    "RecordSplitter",
    "Refused",
    "Room",
    "RowMap",
    "RuleProgram",
    "Scheme",
    "Seal",
    "ServerEvent",
    "ServerLimits",
    "Serving",
    "Severity",
    "Signature",
    "SigningKey",
    "SourceLabel",
    "Status",
    "Step",
    "SteppedInterlace",
    "StoreError",
    "Tai",
    "TransportError",
    "Trial",
    "UsageError",
    "Verdict",
    "Verifier",
    "VersionSelector",
    "Viewer",
    "__version__",
    "admit",
    "all_of",
    "any_of",
    "audit",
    "backup",
    "build_blob",
    "build_plex",
    "check_lacegram",
    "compile_program",
    "connect",
    "count",
    "current",
    "diff",
    "evaluate",
    "explain",
    "export_file",
    "facts",
    "for_each",
    "forget",
    "forgotten",
    "get",
    "hashes",
    "history",
    "import_file",
    "inspect_record",
    "label_operands",
    "list",
    "members",
    "module_from_file",
    "module_from_text",
    "move",
    "open",
    "open_interlace",
    "parse_urc",
    "remember",
    "remove",
    "room",
    "seal",
    "selector",
    "serve",
    "split_records",
    "store",
    "sync",
    "table",
    "tai_now",
    "try_rules",
    "validate_frames",
    "validate_record",
    "with_support",
]


if not TYPE_CHECKING:  # a type checker that saw it would take every misspelt name for a right one

    def __getattr__(name: str) -> Any:
        module = _HOME_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'lace' has no attribute {name!r}")
        from importlib import import_module  # not needed just to start

        value = getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> Any:
    return __all__
