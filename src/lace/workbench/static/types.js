// The shapes of what the engine says. Nothing here runs.

/** @typedef {{hash: string, state: string, sendable?: boolean, hidden?: boolean, code?: string|null, told?: [string, string][], at?: string, tip?: boolean, seen_tip?: boolean}} Row */
/** @typedef {{text: string, ok: boolean, detail: string, since: number|null, watch?: boolean}} Check */
/** @typedef {{kind: string, text: string, hash?: string, code?: string, detail?: string, meaning?: string, fix?: string}} Event_ */
/** @typedef {{step: number, to?: number, kind?: string, message?: number|null, before?: string, after?: string, loop?: number, sent?: number[], lost?: number[], events?: Event_[], sentence: string, tables: number[], policies: (number|null)[]}} Frame */
/** @typedef {{number: number, sender: number, own: number, phase: string, loop: number, kind: string, summary: string, bytes: number, sent: number, arrives: number|null, deed: string|null, record: string|null, lines: string[], more: number, module?: string, added?: string[], removed?: string[], arrived?: string[], inspection?: Inspection}} Message */
/** @typedef {{start: number, end: number, part: string, text: string, cut?: number}} Part */
/** @typedef {{rule: string, ok: boolean, detail: string, code: string|null, meaning: string, expected: string, got: string}} RecordCheck */
/** @typedef {{size: number, ok: boolean, code: string|null, detail: string, parts: Part[], checks: RecordCheck[], facts: string[]}} Inspection */
/** @typedef {{id: string|null, type: string, fields: [string, number, string][], links: [string, string, string][], data: string, inspection: Inspection}} RecordInfo */
/** @typedef {{fact: string, rule?: string, conditions?: string[], because?: Proof[], cut?: number}} Proof */
/** @typedef {{rule: string, failed: string, bindings: Record<string, string>, satisfied: number, near: string[], because?: Refusal[]}} Refusal */
/** @typedef {{allowed: boolean, layer: string, detail: string, mine?: Proof, theirs?: Proof, refusals?: Refusal[]}} Verdict */
/** @typedef {{may_send: string[], may_request: string[], visible: string[], viewer: string, verdicts: {send: Record<string, Verdict>, request: Record<string, Verdict>}, hits: Record<string, number>, peer_hits: Record<string, number>, unexplained: number}} Policy */
/** @typedef {{code: string, message: string, line: number, column: number, length: number, hint: string, severity: string, meaning: string}} Diagnostic */
/** @typedef {{id: string, line: string, lines: [number, number]|null, notes: Record<string, string>, head: string, stratum: number}} RuleInfo */
/** @typedef {{ok: boolean, diagnostics: Diagnostic[], id?: string, canonical?: string, rules?: RuleInfo[]}} CheckedRules */
/** @typedef {{id: string, title: string, verifier: string|null, rules: string, shared: string|null, checked: CheckedRules, expose: string[], exposed: CheckedRules[]}} Peer */
/** @typedef {{holds: boolean, compared: {ok: boolean, text: string}|null, sentences: string[], viewer: string, records: number, visible: number, hidden_matter: boolean, declassified: [string, string[]][], baits: {field: string, value: string, learned: boolean}[]}} Audit */
/** @typedef {{word: string, detail: string, code?: string, meaning?: string, fix?: string, loops?: number, received?: number, rejected?: number, bytes_received?: number, bytes_sent?: number}} Stop */
/** @typedef {{number: number, say: string, pair: [string, string]|null, now: string, before: Record<string, string[]>, after: Record<string, string[]>, rules: Record<string, string>, tables?: Record<string, number>, frames?: Frame[], messages?: Message[], ledger?: {side: number, step: number, kind: string, text: string, message: number}[], plan?: {id: string, transcript: string, lowering: string, fields: string[]|null, operands: {index: number, origin: string, verifier: string|null, module: string}[]}|null, stopped?: {outcome: string, sides: Stop[]}, audits?: (Audit|null)[], cut?: number, checks: Check[]}} Scene */
/** @typedef {{scene: number, do: string, sender: string, record: string|null, message: number|null, byte: number}} FaultChange */
/** @typedef {{scene: number, step: number, do: string, peer: string, text: string, seconds: number}} OrderChange */
/** @typedef {{seed: number, watched: string[], faults: FaultChange[], orders: OrderChange[]}} Changes */
/** @typedef {{format: string, engine: string, scenario: {name: string, title: string, story: string, now: string, columns: string[], keys: Record<string, string>, toml: string, peers: Peer[], fields: string[]}, changes: Changes, records: Record<string, RecordInfo>, policies: Policy[], tables: Row[][], scenes: Scene[]}} Recording */

export {};
