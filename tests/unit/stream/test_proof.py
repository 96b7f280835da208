"""Peer proof: good for one connection, one address and one direction, and for nothing else (G8)."""

from __future__ import annotations

from dataclasses import replace

import forge
import pytest
from wires import NOW, End, ends, nonce, notes, run, store_of

from lace.crypto import SigningKey
from lace.errors import Code, ProtocolError
from lace.interlace import messages as m
from lace.policy.module import module_from_text
from lace.record import build_plex, seal, validate_record
from lace.recordstore import MemoryStore
from lace.stream import items as i
from lace.stream.binding import OFFERED
from lace.stream.proof import APP, Meeting, check_proof, make_proof

ALICE = SigningKey(b"\x0a" * 32)
SERVER = SigningKey(b"\x0b" * 32)

CLIENT_SIDE = Meeting(
    accepting=False, nonce=nonce(), peer_nonce=nonce(), addresses=("tcp:s:1",),
    module="R.client", peer_module="R.server", hello=b"client\n", peer_hello=b"server\n",
)  # fmt: skip
SERVER_SIDE = Meeting(
    accepting=True, nonce=CLIENT_SIDE.peer_nonce, peer_nonce=CLIENT_SIDE.nonce,
    addresses=("tcp:s:1", "wss:s/interlace"),
    module="R.server", peer_module="R.client", hello=b"server\n", peer_hello=b"client\n",
)  # fmt: skip


def refused(raw: bytes, meeting: Meeting) -> str:
    with pytest.raises(ProtocolError) as caught:
        check_proof(raw, meeting)
    assert caught.value.code is Code.ILTP_PROOF
    return caught.value.message


def test_each_side_can_prove_itself_to_the_other() -> None:
    assert check_proof(make_proof(ALICE, CLIENT_SIDE, NOW), SERVER_SIDE) == ALICE.verifier
    assert check_proof(make_proof(SERVER, SERVER_SIDE, NOW), CLIENT_SIDE) == SERVER.verifier


def test_the_form_is_the_decided_one() -> None:
    record = validate_record(make_proof(ALICE, CLIENT_SIDE, NOW)).unwrap()
    assert (record.group, record.app) == ("lace", "iltp/peer-proof")  # type: ignore[attr-defined]
    assert record.name == f"{CLIENT_SIDE.peer_nonce}/{CLIENT_SIDE.nonce}"  # type: ignore[attr-defined]
    assert record.extras == (  # type: ignore[attr-defined]
        ("Audience", "tcp:s:1"),
        ("Setup", CLIENT_SIDE.setup(by_peer=False)),
        ("Side", "1"),
    )
    assert record.data == b""


def test_a_recorded_proof_is_worth_nothing_on_another_connection() -> None:
    recorded = make_proof(ALICE, CLIENT_SIDE, NOW)
    assert "nonces" in refused(recorded, replace(SERVER_SIDE, nonce=nonce()))
    assert "nonces" in refused(recorded, replace(SERVER_SIDE, peer_nonce=nonce()))


def test_a_proof_is_worth_nothing_at_another_server() -> None:
    # The attacker's server gave the client the other server's nonce; everything fits but the address.
    dialled = replace(CLIENT_SIDE, addresses=("tcp:attacker:1",))
    assert "another server" in refused(make_proof(ALICE, dialled, NOW), SERVER_SIDE)
    both = replace(CLIENT_SIDE, addresses=("tcp:attacker:1", "tcp:s:1"))
    assert "another server" in refused(make_proof(ALICE, both, NOW), SERVER_SIDE)
    nowhere = replace(CLIENT_SIDE, addresses=())
    assert "another server" in refused(make_proof(ALICE, nowhere, NOW), SERVER_SIDE)


def test_a_server_behind_another_address_is_not_believed() -> None:
    # The attacker passes the server's proof on to a client that dialled the attacker.
    proof = make_proof(SERVER, SERVER_SIDE, NOW)
    assert "dialled" in refused(proof, replace(CLIENT_SIDE, addresses=("tcp:attacker:1",)))


@pytest.mark.parametrize("change", [
    {"module": "R.other"}, {"peer_module": "R.other"}, {"hello": b"other\n"}, {"peer_hello": b"other\n"},
    {"hello": b"", "peer_hello": b"client\nserver\n"},
])  # fmt: skip
def test_a_proof_passed_on_is_worth_nothing_with_another_set_up(change: dict[str, object]) -> None:
    """Whoever passes it on must pass on the modules and the hellos, and gains nothing by it."""
    for key, maker, judge in (
        (ALICE, CLIENT_SIDE, SERVER_SIDE),
        (SERVER, SERVER_SIDE, CLIENT_SIDE),
    ):
        proof = make_proof(key, replace(maker, **change), NOW)  # type: ignore[arg-type]
        assert "another set-up" in refused(proof, judge)
        honest = make_proof(key, maker, NOW)
        assert "another set-up" in refused(honest, replace(judge, **change))  # type: ignore[arg-type]


def test_over_tls_a_proof_is_for_one_certificate() -> None:
    client, server = replace(CLIENT_SIDE, channel="c"), replace(SERVER_SIDE, channel="c")
    assert check_proof(make_proof(ALICE, client, NOW), server) == ALICE.verifier
    assert check_proof(make_proof(SERVER, server, NOW), client) == SERVER.verifier
    for other in (replace(server, channel="d"), replace(server, channel="")):
        assert "ends TLS" in refused(make_proof(ALICE, client, NOW), other)
    assert "ends TLS" in refused(make_proof(SERVER, server, NOW), CLIENT_SIDE), (
        "it is not encrypted"
    )


def test_a_page_that_cannot_see_its_certificate_proves_and_checks_everything_else() -> None:
    page, server = replace(CLIENT_SIDE, channel=None), replace(SERVER_SIDE, channel="c")
    assert check_proof(make_proof(ALICE, page, NOW), server) == ALICE.verifier
    assert check_proof(make_proof(SERVER, server, NOW), page) == SERVER.verifier
    relayed = make_proof(SERVER, replace(server, hello=b"Other()\n"), NOW)
    assert "another set-up" in refused(relayed, page)
    elsewhere = make_proof(SERVER, replace(server, addresses=("wss:other.example",)), NOW)
    assert "does not call itself" in refused(elsewhere, page)


def test_the_earlier_form_is_refused() -> None:
    plex = build_plex(
        group="lace", app=APP, name=f"{SERVER_SIDE.nonce}/{SERVER_SIDE.peer_nonce}", tai=NOW,
        extras=[("Audience", "tcp:s:1")],
    )  # fmt: skip
    assert "earlier form" in refused(seal(plex, ALICE).raw, SERVER_SIDE)


def test_swapped_nonces_are_refused() -> None:
    swapped = replace(CLIENT_SIDE, nonce=CLIENT_SIDE.peer_nonce, peer_nonce=CLIENT_SIDE.nonce)
    assert "nonces" in refused(make_proof(ALICE, swapped, NOW), SERVER_SIDE)


def test_a_servers_own_proof_cannot_be_turned_against_it() -> None:
    # On one connection the attacker shows the nonce of the other, and gets a proof that fits there.
    first = replace(
        SERVER_SIDE, nonce=nonce(), peer_nonce=SERVER_SIDE.nonce, addresses=("tcp:s:1",)
    )
    second = replace(SERVER_SIDE, peer_nonce=first.nonce)
    assert "wrong side" in refused(make_proof(SERVER, first, NOW), second)
    as_client = make_proof(ALICE, CLIENT_SIDE, NOW)
    turned = replace(CLIENT_SIDE, nonce=CLIENT_SIDE.peer_nonce, peer_nonce=CLIENT_SIDE.nonce)
    assert "wrong side" in refused(as_client, turned)


def test_only_an_empty_seal_for_this_purpose_proves_anything() -> None:
    name = f"{SERVER_SIDE.nonce}/{SERVER_SIDE.peer_nonce}"
    setup = SERVER_SIDE.setup(by_peer=True)
    extras = [("Audience", "tcp:s:1"), ("Setup", setup), ("Side", "1")]

    def sealed(**changes: object) -> bytes:
        parts = {"group": "lace", "app": APP, "name": name, "tai": NOW, "extras": extras}
        plex = build_plex(**(parts | changes))  # type: ignore[arg-type]
        return seal(plex, ALICE).raw

    assert check_proof(sealed(), SERVER_SIDE) == ALICE.verifier
    assert "purpose" in refused(sealed(app="notes"), SERVER_SIDE)
    assert "purpose" in refused(sealed(group="g"), SERVER_SIDE)
    assert "purpose" in refused(sealed(data=b"x"), SERVER_SIDE)
    assert "no place" in refused(sealed(extras=[*extras, ("Zest", "x")]), SERVER_SIDE)
    plex = build_plex(group="lace", app=APP, name=name, tai=NOW, extras=extras)
    assert "not a Seal" in refused(plex.raw, SERVER_SIDE)
    lie = forge.seal(plex.raw, key=ALICE, signed_by=SERVER.verifier.encode())
    assert "refused" in refused(lie, SERVER_SIDE)


# --- in exchanges ---


def proven(left: MemoryStore, right: MemoryStore) -> tuple[End, End]:
    return ends(left, right, accepting={"key": SERVER}, connecting={"key": ALICE})


@pytest.mark.req("060-TRN-08", "050-HEL-03", "040-ORG-07")
def test_a_proof_makes_the_peer_known_and_is_never_stored() -> None:
    left, right = proven(store_of(notes(3)), MemoryStore())
    run(left, right)
    for end, peer in ((left, ALICE), (right, SERVER)):
        assert isinstance(end.last, m.Closed)
        assert end.last.result.peer == peer.verifier
        assert end.store.count() == 3
        assert peer.verifier in bytes(right.sent if end is left else left.sent).decode()


@pytest.mark.req("060-TRN-08", "050-HEL-04")
@pytest.mark.parametrize("key", [ALICE, SERVER, None])
def test_rules_see_the_peer_only_when_it_is_proven(key: SigningKey | None) -> None:
    module = module_from_text(
        f"SelectHave(P) :- Have(P), Peer('{ALICE.verifier}').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    left, right = ends(store_of(notes(3)), MemoryStore(), connecting={"key": key})
    left.module = module
    run(left, right)
    assert right.store.count() == (3 if key is ALICE else 0)


@pytest.mark.req("060-TRN-08")
def test_without_a_key_nobody_is_named() -> None:
    left, right = ends(store_of(notes(3)), MemoryStore())
    run(left, right)
    assert isinstance(left.last, m.Closed)
    assert left.last.result.peer is None
    assert b"HelloSigner" not in left.sent + right.sent


def test_one_side_alone_may_prove_itself() -> None:
    left, right = ends(store_of(notes(3)), MemoryStore(), connecting={"key": ALICE})
    run(left, right)
    assert isinstance(left.last, m.Closed)
    assert left.last.result.peer == ALICE.verifier
    assert isinstance(right.last, m.Closed)
    assert right.last.result.peer is None


def aborted(end: End) -> Code:
    assert isinstance(end.last, m.Aborted), end.events
    return end.last.code


@pytest.mark.req("050-ERR-01")
def test_a_peer_that_is_not_the_expected_one_is_refused() -> None:
    for expected, key in ((ALICE.verifier, SERVER), (SERVER.verifier, None)):
        left, right = ends(
            MemoryStore(), MemoryStore(), accepting={"key": key}, connecting={"expected": expected}
        )
        run(left, right)
        assert aborted(right) is Code.INTERLACE_SIGNER
    left, right = ends(
        MemoryStore(),
        MemoryStore(),
        accepting={"key": SERVER},
        connecting={"expected": SERVER.verifier},
    )
    run(left, right)
    assert isinstance(right.last, m.Closed)


def test_a_named_signer_without_proof_is_refused() -> None:
    left, right = proven(store_of(notes(1)), MemoryStore())
    proof = [b""]

    def strip(index: int, chunk: bytes) -> bytes:
        kept = b""
        for item in i.ItemReader().feed(chunk):
            if index == 1 and isinstance(item, i.RecordBytes):
                proof[0] = item.raw
                kept = chunk.replace(item.raw, b"")
        return kept or chunk

    run(left, right, size=10**6, tamper=strip)
    assert proof[0]
    assert aborted(left) is Code.INTERLACE_SIGNER
    assert left.store.count() == 1


def test_a_proof_in_the_wrong_phase_or_twice_is_refused() -> None:
    for twice in (False, True):
        left, right = proven(store_of(notes(1)), MemoryStore())
        early = make_proof(ALICE, CLIENT_SIDE, NOW)

        def change(index: int, chunk: bytes, early: bytes = early, twice: bool = twice) -> bytes:
            if index == 0:
                return chunk
            if not twice and "🪢".encode() in chunk:
                return chunk + early
            for item in i.ItemReader().feed(chunk):
                if twice and isinstance(item, i.RecordBytes):
                    return chunk.replace(item.raw, item.raw * 2)
            return chunk

        run(left, right, size=10**6, tamper=change)
        assert aborted(left) is (Code.ILTP_ORDER if twice else Code.INTERLACE_PHASE)


def test_what_no_proof_speaks_of_has_no_place_in_hello() -> None:
    left, right = proven(store_of(notes(1)), MemoryStore())
    late = b"HelloLimit('max_narrowing_depth','1')\n"
    run(left, right, tamper=lambda _, chunk: chunk.replace(OFFERED, OFFERED + late), size=10**6)
    assert aborted(left) is Code.ILTP_ORDER
    left, right = proven(store_of(notes(1)), MemoryStore())
    left.binding.receive(i.preface(right.endpoint.nonce) + b"\n")
    early = left.binding.receive(make_proof(ALICE, CLIENT_SIDE, NOW))
    assert [given.code for given in early if isinstance(given, m.StreamFailed)] == [Code.ILTP_PROOF]


def test_who_changes_a_hello_on_the_way_makes_the_proof_worthless() -> None:
    for index, end in ((1, 0), (0, 1)):
        both = proven(store_of(notes(1)), MemoryStore())

        def change(side: int, chunk: bytes, index: int = index) -> bytes:
            if side != index:
                return chunk
            return chunk.replace(b"'max_loop_iterations','16'", b"'max_loop_iterations','15'")

        run(*both, size=10**6, tamper=change)
        assert aborted(both[end]) is Code.ILTP_PROOF


def test_our_own_nonce_sent_back_is_refused() -> None:
    left, right = proven(MemoryStore(), MemoryStore())
    inputs = left.binding.receive(i.preface(left.endpoint.nonce))
    assert [given.code for given in inputs if isinstance(given, m.StreamFailed)] == [
        Code.ILTP_PREFACE
    ]
    assert right.binding.receive(b"MayRequest('x')\n") == [
        m.StreamFailed(Code.ILTP_PREFACE, "a stream begins with one preface")
    ]
