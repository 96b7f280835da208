// Made from lace/workbench/shapes.py by make docs. Do not edit.

/** @typedef {object} Row
 * @property {string} hash
 * @property {"have"|"advertised"|"requestable"|"in flight"|"rejected"} state
 * @property {boolean} [sendable]
 * @property {boolean} [hidden]
 * @property {string|null} [code]
 * @property {[string, string][]} [told]
 * @property {string} [at]
 * @property {boolean} [tip]
 * @property {boolean} [seen_tip]
 */
/** @typedef {object} Check
 * @property {string} text
 * @property {boolean} ok
 * @property {string} detail
 * @property {number|null} since
 * @property {boolean} [watch]
 */
/** @typedef {object} Event_
 * @property {string} kind
 * @property {string} text
 * @property {string} [hash]
 * @property {string} [code]
 * @property {string} [detail]
 * @property {string} [meaning]
 * @property {string} [fix]
 */
/** @typedef {object} Frame
 * @property {number} step
 * @property {string} sentence
 * @property {number[]} tables
 * @property {(number|null)[]} policies
 * @property {number} [to]
 * @property {string} [kind]
 * @property {number|null} [message]
 * @property {string} [before]
 * @property {string} [after]
 * @property {number} [loop]
 * @property {number[]} [sent]
 * @property {number[]} [lost]
 * @property {Event_[]} [events]
 */
/** @typedef {object} Part
 * @property {number} start
 * @property {number} end
 * @property {string} part
 * @property {string} text
 * @property {number} [cut]
 */
/** @typedef {object} RecordCheck
 * @property {string} rule
 * @property {boolean} ok
 * @property {string} detail
 * @property {string|null} code
 * @property {string} meaning
 * @property {string} expected
 * @property {string} got
 */
/** @typedef {object} Inspection
 * @property {number} size
 * @property {boolean} ok
 * @property {string|null} code
 * @property {string} detail
 * @property {Part[]} parts
 * @property {RecordCheck[]} checks
 * @property {string[]} facts
 */
/** @typedef {object} Message
 * @property {number} number
 * @property {number} sender
 * @property {number} own
 * @property {string} phase
 * @property {number} loop
 * @property {string} kind
 * @property {string} summary
 * @property {number} bytes
 * @property {number} sent
 * @property {number|null} arrives
 * @property {string|null} deed
 * @property {string|null} record
 * @property {string[]} lines
 * @property {number} more
 * @property {string} [module]
 * @property {string[]} [added]
 * @property {string[]} [removed]
 * @property {string[]} [arrived]
 * @property {Inspection} [inspection]
 */
/** @typedef {object} RecordInfo
 * @property {string|null} id
 * @property {string} type
 * @property {[string, number, string][]} fields
 * @property {[string, string, string][]} links
 * @property {string} data
 * @property {Inspection} inspection
 */
/** @typedef {object} Proof
 * @property {string} fact
 * @property {string} [rule]
 * @property {string[]} [conditions]
 * @property {Proof[]} [because]
 * @property {number} [cut]
 */
/** @typedef {object} Refusal
 * @property {string} rule
 * @property {string} failed
 * @property {Record<string, string>} bindings
 * @property {number} satisfied
 * @property {string[]} near
 * @property {Refusal[]} [because]
 */
/** @typedef {object} Verdict
 * @property {boolean} allowed
 * @property {string} layer
 * @property {string} detail
 * @property {Proof|null} [mine]
 * @property {Proof|null} [theirs]
 * @property {Refusal[]} [refusals]
 */
/** @typedef {object} Verdicts
 * @property {Record<string, Verdict>} send
 * @property {Record<string, Verdict>} request
 */
/** @typedef {object} Policy
 * @property {string[]} may_send
 * @property {string[]} may_request
 * @property {string[]} visible
 * @property {string} viewer
 * @property {Verdicts} verdicts
 * @property {Record<string, number>} hits
 * @property {Record<string, number>} peer_hits
 * @property {number} unexplained
 */
/** @typedef {object} Diagnostic
 * @property {string} code
 * @property {string} message
 * @property {number} line
 * @property {number} column
 * @property {number} length
 * @property {string} hint
 * @property {string} severity
 * @property {string} meaning
 */
/** @typedef {object} RuleInfo
 * @property {string} id
 * @property {string} line
 * @property {[number, number]|null} lines
 * @property {Record<string, string>} notes
 * @property {string} head
 * @property {number|null} stratum
 */
/** @typedef {object} CheckedRules
 * @property {boolean} ok
 * @property {Diagnostic[]} diagnostics
 * @property {string} [id]
 * @property {string} [canonical]
 * @property {RuleInfo[]} [rules]
 */
/** @typedef {object} Peer
 * @property {string} id
 * @property {string} title
 * @property {string|null} verifier
 * @property {string} rules
 * @property {string|null} shared
 * @property {CheckedRules} checked
 * @property {string[]} expose
 * @property {CheckedRules[]} exposed
 */
/** @typedef {object} Bait
 * @property {string} field
 * @property {string} value
 * @property {boolean} learned
 */
/** @typedef {object} Compared
 * @property {boolean} ok
 * @property {string} text
 */
/** @typedef {object} Audit
 * @property {boolean} holds
 * @property {Compared|null} compared
 * @property {string[]} sentences
 * @property {string} viewer
 * @property {number} records
 * @property {number} visible
 * @property {boolean} hidden_matter
 * @property {[string, string[]][]} declassified
 * @property {Bait[]} baits
 */
/** @typedef {object} Stop
 * @property {string} word
 * @property {string} detail
 * @property {string} [code]
 * @property {string} [meaning]
 * @property {string} [fix]
 * @property {number} [loops]
 * @property {number} [received]
 * @property {number} [rejected]
 * @property {number} [bytes_received]
 * @property {number} [bytes_sent]
 */
/** @typedef {object} Stopped
 * @property {string} outcome
 * @property {Stop[]} sides
 */
/** @typedef {object} Learned
 * @property {number} side
 * @property {number} step
 * @property {string} kind
 * @property {string} text
 * @property {number} message
 */
/** @typedef {object} Operand
 * @property {number} index
 * @property {string} origin
 * @property {string|null} verifier
 * @property {string} module
 */
/** @typedef {object} Plan
 * @property {string} id
 * @property {string} transcript
 * @property {string} lowering
 * @property {string[]|null} fields
 * @property {Operand[]} operands
 */
/** @typedef {object} Scene
 * @property {number} number
 * @property {string} say
 * @property {[string, string]|null} pair
 * @property {string} now
 * @property {Record<string, string[]>} before
 * @property {Record<string, string[]>} after
 * @property {Record<string, string>} rules
 * @property {Check[]} checks
 * @property {Record<string, number>} [tables]
 * @property {Frame[]} [frames]
 * @property {Message[]} [messages]
 * @property {Learned[]} [ledger]
 * @property {Plan|null} [plan]
 * @property {Stopped} [stopped]
 * @property {(Audit|null)[]} [audits]
 * @property {number} [cut]
 */
/** @typedef {object} FaultChange
 * @property {number} scene
 * @property {string} do
 * @property {string} sender
 * @property {string|null} record
 * @property {number|null} message
 * @property {number} byte
 */
/** @typedef {object} OrderChange
 * @property {number} scene
 * @property {number} step
 * @property {string} do
 * @property {string} peer
 * @property {string} text
 * @property {number} seconds
 */
/** @typedef {object} Changes
 * @property {number} seed
 * @property {string[]} watched
 * @property {FaultChange[]} faults
 * @property {OrderChange[]} orders
 */
/** @typedef {object} Story
 * @property {string} name
 * @property {string} title
 * @property {string} story
 * @property {string} now
 * @property {string[]} columns
 * @property {Record<string, string>} keys
 * @property {string} toml
 * @property {Peer[]} peers
 * @property {string[]} fields
 */
/** @typedef {object} Recording
 * @property {string} format
 * @property {string} engine
 * @property {Story} scenario
 * @property {Changes} changes
 * @property {Record<string, RecordInfo>} records
 * @property {Policy[]} policies
 * @property {Row[][]} tables
 * @property {Scene[]} scenes
 */
/** @typedef {object} Listed
 * @property {string} name
 * @property {string} title
 */
/** @typedef {object} Hello
 * @property {"hello"} type
 * @property {number|null} id
 * @property {string} protocol
 * @property {string} engine
 * @property {Listed[]} scenarios
 * @property {string} first
 * @property {string} links
 */
/** @typedef {object} Recorded
 * @property {"recording"} type
 * @property {number|null} id
 * @property {Recording} recording
 */
/** @typedef {object} Source
 * @property {string} name
 * @property {string} toml
 */
/** @typedef {object} Problems
 * @property {"problems"} type
 * @property {number|null} id
 * @property {Diagnostic[]} diagnostics
 * @property {Source} [source]
 */
/** @typedef {object} Problem
 * @property {"problem"} type
 * @property {number|null} id
 * @property {string} message
 * @property {string} code
 * @property {string} hint
 */
/** @typedef {object} Checked
 * @property {"checked"} type
 * @property {number|null} id
 * @property {CheckedRules} checked
 */
/** @typedef {object} Judged
 * @property {"judged"} type
 * @property {number|null} id
 * @property {Diagnostic[]} diagnostics
 */
/** @typedef {object} Inspected
 * @property {"inspected"} type
 * @property {number|null} id
 * @property {string} hash
 * @property {number|null} flip
 * @property {Inspection} inspection
 */
/** @typedef {object} Shared
 * @property {"shared"} type
 * @property {number|null} id
 * @property {string} toml
 * @property {string} commands
 * @property {string} test
 */
/** @typedef {object} Journals
 * @property {"journal"} type
 * @property {number|null} id
 * @property {number} scene
 * @property {string[]} sides
 */
/** @typedef {object} Page
 * @property {"page"} type
 * @property {number|null} id
 * @property {string} html
 */
/** @typedef {object} LiveProblem
 * @property {string} message
 * @property {string|null} hint
 */
/** @typedef {object} LiveTold
 * @property {"live"} type
 * @property {string|null} run
 * @property {Listed[]} scenarios
 * @property {LiveProblem|null} problem
 */
/** @typedef {object} Answers
 * @property {Hello} hello
 * @property {Recorded|Problems} open
 * @property {Recorded|Problems} run
 * @property {Checked} check
 * @property {Judged} judge
 * @property {Inspected} inspect
 * @property {Shared} share
 * @property {Journals} journal
 * @property {Page} page
 */
export {};
