"""Every limit stands here; peers, files and rules are held to them before memory is taken."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

MIB: Final = 1024 * 1024
UNLIMITED: Final = 1 << 62
"""More than any machine can hold."""

# 'Signature: ' and 86 characters
_LONGEST_FIXED_LINE: Final = 97
# What a regular expression may count to
_LONGEST_STREAM_LINE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The defaults are the specification's; ``dataclasses.replace`` makes others."""

    # Records (decision G3)
    header_line_bytes: int = 1024
    """Longest header line, without its LF."""
    extra_headers: int = 512
    """Most extra headers in one Plex."""
    blob_bytes: int = 32 * MIB
    """Most data bytes in one record."""

    # Rules (spec 030)
    base_facts: int = 1 << 24
    """Most facts that one evaluation begins with, without runtime facts. In an exchange: most facts
    of visible records that a peer's rules look at."""
    advertised_facts: int = 1 << 23
    """Most facts that a peer may have advertised at a time."""
    runtime_facts: int = 1 << 20
    """Most runtime facts that one evaluation begins with."""
    derived_facts: int = 1 << 22
    """Most facts that one derived predicate may have."""
    rules: int = 1024
    """Most rules in one lacegram."""
    body_atoms: int = 128
    """Most atoms in the body of one rule."""
    iterations: int = 10_000
    """Most rounds in which rules that build on each other are applied until nothing follows."""
    arity: int = 16
    """Most values in one fact."""
    value_bytes: int = 1024
    """Longest value, in UTF-8 bytes."""
    work: int = 1 << 32
    """Most work of one evaluation: a tuple that is looked at counts 1, a row that is kept 10, and
    the preparation of a rule as many tuples as could be looked at meanwhile."""
    own_derived_facts: int = 1 << 26
    """The same as `derived_facts`, for one's own rules in an exchange."""
    own_work: int = 1 << 40
    """The same as `work`, for one's own rules in an exchange."""
    lacegram_bytes: int = MIB
    """Longest text of rules."""

    # Rules of a peer, beside those above (decision L62)
    peer_work: int = 1_000_000
    """Work that the rules of a peer may do whatever they see; never more than `work`."""
    peer_work_per_fact: int = 100
    """Work that they may do beside that for each fact that they see."""
    peer_lacegram_bytes: int = 64 * 1024
    """Longest text of a peer's rules."""
    peer_atoms: int = 4096
    """Most body atoms of all rules of a peer together."""
    peer_joins: int = 32
    """Most joins in one rule of a peer. Each atom of a derived predicate is a join, and so are all
    atoms together that speak of one record or advertisement."""
    peer_variables: int = 64
    """Most variables in one rule of a peer."""
    peer_products: int = 3
    """Most parts of one rule of a peer that share no variable: their facts are multiplied."""

    # Exchanges (spec 050); the names are those on the wire
    max_fact_block_size: int = 64 * MIB
    """Largest fact block, in bytes."""
    max_advertisement_records_listed: int = 100_000
    """Most advertisements in one listing."""
    max_partition_summaries: int = 16_384
    """Most partition summaries in one round."""
    max_narrowing_depth: int = 12
    """Most steps of narrowing from a starting partition."""
    max_advertisements_in_delta: int = 100_000
    """Most advertisements that are told as what is new since the last time; 0 for none."""
    max_cells_in_sketch: int = 65_536
    """Most cells of a sketch of what is advertised; 0 for none."""
    max_places_listed: int = 100_000
    """Most records that a side lists in one loop and that are requested by place; 0 for none."""
    max_deferred_advertisements: int = 100_000
    """Most advertisements that do not fit a block and are put off at a time; 0 for none."""
    max_total_transferred_bytes: int = 1024 * MIB
    """Most record bytes in one round."""
    max_loop_iterations: int = 16
    """Most loops in one round."""
    phase_timeout: int = 30
    """Seconds that set-up and hello may take, and for which a peer may say nothing later on."""
    round_seconds: int = 3600
    """Seconds that a round may take in all, however much is said in it."""
    clock_seconds: int = 300
    """Seconds that the agreed start of an exchange may lie ahead of one's own clock: rules that
    look at the time can be off by so much, and no more."""
    transfer_phase_bytes: int = 32 * MIB
    """Record bytes after which a side defers what else was requested to the next phase."""
    partition_prefix_start: int = 2
    """Length of the partition prefixes that reconciliation starts with."""

    # Streams (spec 060)
    stream_line_bytes: int = 16 * 1024
    """Longest fact or comment line on a stream, without its LF."""

    # Addresses and command input
    urc_bytes: int = 4096
    """Longest address text."""
    input_line_bytes: int = 64 * MIB
    """Longest line that a plumbing command reads."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"limit {field.name} is negative")
        if self.header_line_bytes < _LONGEST_FIXED_LINE:
            raise ValueError(
                f"limit header_line_bytes is below {_LONGEST_FIXED_LINE}: no Seal fits"
            )
        if self.blob_bytes >= 10**15:
            raise ValueError("limit blob_bytes is beyond what a Data-Length may say")
        if self.stream_line_bytes > _LONGEST_STREAM_LINE:
            raise ValueError(f"limit stream_line_bytes is beyond {_LONGEST_STREAM_LINE}")

    @property
    def own(self) -> Limits:
        """The limits that one's own rules are held to in an exchange (L62).

        One's own records have no limit. Rounds need none: each of them is work.
        """
        return replace(
            self,
            base_facts=UNLIMITED,
            derived_facts=self.own_derived_facts,
            iterations=UNLIMITED,
            work=self.own_work,
        )

    def for_peer(self, facts: int) -> Limits:
        """Return the limits of a peer's rules that see so many facts; they are counted already."""
        allowed = self.peer_work + self.peer_work_per_fact * facts
        return replace(self, base_facts=UNLIMITED, work=min(self.work, allowed))

    @property
    def record_head_bytes(self) -> int:
        """Most bytes before any record's data: three marklines, seven fixed headers, extras."""
        fixed_lines = 3 + 2 + 4 + 1
        return (fixed_lines + self.extra_headers) * (self.header_line_bytes + 1) + 1


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLimits:
    """Limits that hold for every lace alike: nobody has a reason to choose others."""

    # Rules that are judged before they are served
    admission_work: int = 20_000_000
    """Most steps of finding out whether rules take records from anyone; beyond it they do."""

    # Files and lines that people hand over
    table_columns: int = 16_384
    """Most columns of a table of values that is imported."""
    settings_bytes: int = MIB
    """Largest file of settings, of served policy or of keys' names."""
    key_file_bytes: int = 4096
    """Largest file of a secret key."""
    passphrase_characters: int = 8
    """Shortest passphrase that a keyring or a backup of it can be sealed with."""
    certificate_bytes: int = MIB
    """Largest file of certificates."""
    facts_file_bytes: int = 1024 * MIB
    """Largest file of facts that a plumbing command reads."""
    journal_bytes: int = 256 * MIB
    """Longest journal; nothing more is written to it then."""
    journal_prefix: int = 3
    """Longest prefix that a journal may give to the partitions of its tables, which is 2 in every
    real exchange: each character more takes 64 times the memory."""
    invitation_bytes: int = 64 * 1024
    """Longest invitation."""
    included_files: int = 64
    """Most files that one text of rules may include."""
    delegation: int = 8
    """Most times that the right to admit members can be handed on in a room."""
    sealing_kib: int = MIB
    """Most memory, in KiB, that it may take to open a sealed keyring."""
    sealing_passes: int = 16
    """Most passes over that memory (Argon2)."""
    sealing_lanes: int = 16
    """Most parts of that memory (lanes of Argon2)."""

    kit_file_bytes: int = 64 * MIB
    """Largest file of test vectors."""
    kit_seconds: int = 3600
    """Longest that a peer under test may be waited for."""
    kit_seeds: int = 10_000
    """Most random exchanges in one run against a peer under test."""

    # What a server shows to whoever watches it
    watched_exchanges: int = 16
    """Most exchanges that are kept to be looked at."""
    watched_bytes: int = 4 * MIB
    """Most bytes of one such exchange."""
    watchers: int = 64
    """Most readers of such exchanges at a time."""
    unheard_requests: int = 64
    """Most connections at a time that have asked for nothing yet, where plain requests are
    answered; a further one takes the place of the oldest."""
    token_characters: int = 200
    """Longest token that opens `lace serve --watch`."""
    least_token_characters: int = 16
    """Shortest such token."""

    # What peers say, beside what `Limits` says
    hello_bytes: int = MIB
    """Longest hello that a proof is bound to."""
    unadvertised_requests: int = 1000
    """Most records that a peer may request at a time beyond those that are advertised."""
    packed_bytes: int = MIB
    """Most bytes of one block of packed lines, packed or unpacked."""
    websocket_message_bytes: int = 4 * MIB
    """Largest WebSocket message."""
    metrics_request_bytes: int = 8192
    """Longest request for metrics."""
    refused_bytes: int = 4 * MIB
    """Record bytes beyond a quota that are refused before the connection is ended."""
    cached_modules: int = 1000
    """Most peers whose granted rules a server keeps compiled."""
    kept_crowds: int = 4
    """Most evaluations that are kept for exchanges to come, while no exchange shares them."""
    shared_advertisements: int = 1000
    """Most advertisements that exchanges which share an evaluation keep for each other."""
    shared_records: int = 100
    """Most new records that are read once for all exchanges which share an evaluation."""
    shared_record_bytes: int = MIB // 4
    """Most bytes of these that are kept until anything else is stored or forgotten."""
    kept_passages: int = 8
    """Most ways from one rest to the next that a server keeps for exchanges that stand alike."""
    passage_bytes: int = MIB
    """Most bytes of one of them."""
    kept_facts: int = 400_000
    """Most facts of earlier evaluations that a worker process keeps for the next question."""

    # What a lace remembers
    links: int = 10_000
    """Most links that a store remembers; those that were not used for longest go first."""
    link_bytes: int = 256 * MIB
    """Most bytes that a store remembers of links."""
    forgotten: int = 100_000
    """Most hashes of forgotten records that a store keeps, so that exchanges can follow."""
    reserve_bytes: int = 5 * MIB
    """Size of the file that a store keeps for forgetting while little is free on its disk."""
    reserve_below_bytes: int = 256 * MIB
    """How much must be free on the disk of a store, or else it keeps that file."""
    peers_met: int = 1000
    """Most peers that a folder remembers to have met."""
    waiting_events: int = 10_000
    """Most events that wait for a reader; what comes beyond is counted, and told as missed."""

    # Explanations
    explained_facts: int = 200_000
    """Most facts or derivations that an explanation looks at."""
    explained_ways: int = 10_000
    """Most ways in which one rule is tried for a reason why not."""
    explained_depth: int = 8
    """Deepest that a reason why not goes below the first rule."""
    explained_below: int = 200
    """Most facts that a reason why not asks about in all."""
    explained_premises: int = 10_000
    """Most premises that a record's reasons are gathered from."""
    audited_records: int = 2000
    """Most records that an audit of rules tries out."""
    audited_baits: int = 20
    """Most values of hidden records that an audit tries to find out, as rules of a peer could."""
    projection_faults: int = 1000
    """Most values that a projection reports as not of their type."""
    deliveries: int = 20_000
    """Most messages that one exchange of a scenario delivers."""


FIXED: Final = FixedLimits()

UNCOUNTED: Final = Limits(base_facts=UNLIMITED, advertised_facts=UNLIMITED, runtime_facts=UNLIMITED)
"""For facts that were counted elsewhere, and are held a second time for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioLimits:
    """How large a scenario may be: small enough to be read by people."""

    file_bytes: int = 256 * 1024
    keys: int = 32
    records: int = 500
    peers: int = 4
    steps: int = 64
    expectations: int = 256
    faults: int = 64
    data_bytes: int = 16 * 1024
    seconds: int = 10**9


SCENARIO: Final = ScenarioLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeLimits:
    """Fixed limits of the lake."""

    hashes_file_bytes: int = 1024 * MIB
    """Largest file of hashes that are forgotten together."""
    forgotten: int = 10_000_000
    """Most records that are forgotten together."""
    index_bytes: int = 256 * MIB
    """Largest index of a bundle."""
    manifest_bytes: int = 256 * MIB
    """Largest list of the files of one ingest."""
    peer_joins: int = 128
    """Most joins in all rules of a peer that Spark evaluates."""
    peer_adverts: int = 10_000_000
    """Most advertisements in words of its own that one peer sends in an exchange, for Spark."""
    supporting_records: int = 200_000
    """Most records that rules may look at beside the one in question."""
    links: int = 64
    """Most links whose state is kept beside a lake; the newest stay."""
    plans: int = 32
    """Most plans whose table of what may be sent is kept."""
    pipeline_bytes: int = MIB
    """Largest description of a pipeline."""
    pipeline_entries: int = 100
    """Most entries of one kind in it."""
    checkpoint_bytes: int = 65_536
    """Largest file that says how far a stream has come."""
    prefix_characters: int = 6
    """Longest prefix of partitions that a summary keeps."""
    query_characters: int = 65_536
    """Longest query that is looked at without Spark."""
    query_parts: int = 2_000
    """Most parts of such a query: names, values, operations."""
    shell_line_bytes: int = MIB
    """Longest line that a shell reads from a pipe."""
    shell_lines: int = 1000
    """Most questions that a shell remembers."""
    least_heap_bytes: int = 512 * MIB
    """Least memory that Spark's driver works with."""


LAKE: Final = LakeLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbenchLimits:
    """Fixed limits of the workbench: enough to look at, and quick to show."""

    command_bytes: int = MIB
    """Longest command of a page."""
    sessions: int = 32
    """Most sessions at a time."""
    name_characters: int = 255
    """Longest name of a file that is asked for."""
    changes: int = 64
    """Most changes, orders or watched sentences at a time."""
    sentence_characters: int = 300
    """Longest watched sentence."""
    seconds: int = 10**8
    """Most seconds that may pass by one order."""
    steps: int = 10_000
    """Most steps of one run."""
    lines: int = 2000
    """Most lines of one message that are shown."""
    proof_nodes: int = 300
    """Most facts of one reason."""
    rule_hits: int = 10_000
    """Most facts that one line of rules is shown with."""
    data_bytes: int = 4096
    """Most data bytes of a record that are shown."""
    records: int = 2000
    """Most records that are read from a real lace."""
    journal_lines: int = 20_000
    """Most lines that are read from a journal."""
    watched_bytes: int = 32 * MIB
    """Most bytes that are read from a server that is watched."""
    watched_line_bytes: int = 65_536
    """Longest line of the events of such a server."""
    watched_proof_bytes: int = 4096
    """Longest answer in which a server that is watched proves its token."""
    watched_exchanges: int = 1000
    """Most exchanges of such a server that are listed."""
    picture_steps: int = 300
    """Most steps that a picture shows."""


WORKBENCH: Final = WorkbenchLimits()
