"""Tables share what they have alike. None of that can be seen: each is as if it were alone."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, replace

import pytest
from effort import examples
from elsewhere import Elsewhere

from lace import b64a
from lace.datalog.source import Fact
from lace.ids import RecordHash, is_record_hash
from lace.interlace.advertise import Advertisement
from lace.interlace.parameters import DEFAULT_PARAMETERS
from lace.interlace.partition import Partitions
from lace.interlace.reconcile import PeerAdverts
from lace.interlace.runs import DIGEST, Entries, cut, entry_size, key_of, record_of, records_of
from lace.interlace.sketching import Sketching
from lace.interlace.summary import payload
from lace.interlace.telling import Told
from lace.limits import DEFAULT_LIMITS
from lace.policy.origin import SourceLabel


@dataclass
class Both:
    """A table, and the same as a dictionary: now, and when it was marked."""

    table: Partitions
    plain: dict[str, bytes] = field(default_factory=dict)
    marked: dict[str, bytes] = field(default_factory=dict)

    def copy(self) -> Both:
        return Both(self.table.copy(), dict(self.plain), dict(self.marked))

    def mark(self) -> None:
        self.table.mark()
        self.marked = dict(self.plain)

    def put(self, digests: dict[str, bytes]) -> None:
        self.table.put(digests)
        self.plain |= digests

    def remove(self, records: list[str]) -> None:
        self.table.remove(records)
        for record in records:
            self.plain.pop(record, None)

    def afresh(self) -> Partitions:
        made = Partitions(2, standard=self.table.standard)
        made.put(self.plain)
        return made

    def check(self, chance: random.Random) -> None:
        """Compare, by what is asked at random: an answer may be noted, and must stay right."""
        table, afresh = self.table, self.afresh()
        if chance.random() < 0.5:
            assert table.check == afresh.check
        if chance.random() < 0.5:
            self._check_expected(chance)
        if chance.random() < 0.5:
            changed = {
                payload(record)[: table.standard]
                for record in self.plain.keys() | self.marked.keys()
                if is_record_hash(record) and self.plain.get(record) != self.marked.get(record)
            }
            assert {table.standard_prefix(run) for run in table.changed()} == changed
        assert len(table) == len(self.plain)
        assert set(table.records("")) == self.plain.keys()
        length = chance.randrange(4)
        assert list(table.summaries(length)) == list(afresh.summaries(length))
        assert all(table.find(record) == found for record, found in self.plain.items())
        asked = {*chance.sample(sorted(self.plain), len(self.plain) // 2), name(chance)}
        assert table.among(asked) == {r: self.plain[r] for r in asked if r in self.plain}
        runs = sorted({*table.filled(), *afresh.filled()})
        assert [table.run(run) for run in runs] == [afresh.run(run) for run in runs]

    def _check_expected(self, chance: random.Random) -> None:
        """Compare with what the peer would say: entries with the last digest, of this format."""
        table = self.table.copy()
        expected = table.expected()
        plain = Partitions(1, standard=table.standard)
        plain.put({r: d[DIGEST:] for r, d in self.plain.items() if is_record_hash(r)})
        table.put({name(chance): chance.randbytes(64)})  # which changes nothing of it
        for _ in range(2):
            assert expected.check == plain.check
            assert len(expected) == len(plain)
            assert list(expected.records("")) == list(plain.records(""))
            assert list(expected.summaries(1)) == list(plain.summaries(1))
            assert {r: expected.find(r) for r in self.plain} == {
                r: plain.find(r) for r in self.plain
            }
            more = {name(chance): chance.randbytes(32) for _ in range(2)}
            for one in (expected, plain):
                one.put(more)
                one.remove(list(self.plain)[:2])


def name(chance: random.Random) -> str:
    """Return one of not too many records, now and then of another format."""
    hash = bytes([chance.randrange(8) * 31, chance.randrange(3)]).ljust(32, b"x")
    suffix = "H3" if chance.random() < 0.95 else "H9"
    return f"{chance.choice('BPS')}.{b64a.encode(hash)}.{suffix}"


@pytest.mark.parametrize("seed", range(examples(30)))
@pytest.mark.parametrize("standard", [1, 2])
def test_tables_that_share_change_by_themselves(seed: int, standard: int) -> None:
    chance = random.Random(seed)
    tables = [Both(Partitions(2, standard=standard))]
    for _ in range(60):
        one = chance.choice(tables)
        match chance.randrange(6):
            case 0 | 1:
                one.put({name(chance): chance.randbytes(64) for _ in range(chance.randrange(9))})
            case 2:
                here = list(one.plain)
                one.remove([*chance.sample(here, min(len(here), 3)), name(chance)])
            case 3:
                one.mark()
            case 4:
                tables.append(one.copy())
            case _:
                kept = Elsewhere(one.table.copy(), stays=chance.random() < 0.5, odd=one.table.odd)
                table = Partitions.from_kept(2, standard, kept)
                tables.append(Both(table, dict(one.plain), dict(one.plain)))
        chance.choice(tables).check(chance)
    for one in tables:
        one.check(chance)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_tables_say_how_they_differ_from_what_they_were_made_from(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    then = Both(Partitions(2, standard=1))
    then.put({name(chance): chance.randbytes(64) for _ in range(12)})
    now = then.copy()
    for one in (now, then):
        one.put({name(chance): chance.randbytes(64) for _ in range(chance.randrange(4))})
        one.remove([name(chance)])
    wanted = [n for n in range(64) if now.table.run(n) != then.table.run(n)]
    assert now.table.differing(then.table) == wanted
    for one in (now, then):  # also where one or both were kept, and only in part looked at
        if chance.random() < 0.7:
            kept = Elsewhere(one.table.copy(), stays=chance.random() < 0.5, odd=one.table.odd)
            one.table = Partitions.from_kept(2, 1, kept)
        for record in chance.sample(sorted(one.plain), len(one.plain) // 3):
            one.table.find(record)
    assert now.table.differing(then.table) == wanted
    monkeypatch.setattr("lace.interlace.partition._COMPARED_AT_ONCE", chance.choice((0, 300, 9999)))
    each = [now.table.moved(n, then.table.run(n)) for n in wanted]
    come, gone = now.table.moved_in(wanted, then.table.run)
    assert come == [record for some, _ in each for record in some]
    assert gone == [record for _, some in each for record in some]
    again = now.table.copy()
    assert again.differing(now.table) == []


def test_an_empty_table_takes_no_room() -> None:
    """A server has several for each of its peers."""
    one, other = Partitions(2), Partitions()
    assert all(a is b for a, b in zip(one._groups, other._groups, strict=True))
    assert one.copy()._groups[0] is one._groups[0]
    one.put({name(random.Random(1)): b"d" * 64})
    assert sum(a is not b for a, b in zip(one._groups, other._groups, strict=True)) == 1
    assert not len(other)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_what_is_foreseen_of_a_peer_follows_what_was_sent_and_taken_back(seed: int) -> None:
    chance = random.Random(seed)
    own = Both(Partitions(2))
    own.put({name(chance): chance.randbytes(64) for _ in range(12)})
    limits = {"max_advertisements_in_delta": chance.randrange(2)}
    sketching = Sketching(b"", 0, own.table, 0)
    source, theirs = SourceLabel("Opq_a"), Partitions()
    theirs.put({record: chance.randbytes(32) for record in chance.sample(sorted(own.plain), 3)})
    peers = PeerAdverts(source, limits, DEFAULT_PARAMETERS, own.table, theirs.copy(), sketching)
    sent = chance.sample(sorted(own.plain), 6)
    back = chance.sample(sorted(own.plain), chance.randrange(6))
    peers.take_sent(sent)
    peers.take_back(back)
    left = [record for record in sent if record not in back and record not in theirs]
    theirs.put({record: own.plain[record][DIGEST:] for record in left})
    assert peers._foresee().check == theirs.check


def test_what_was_foreseen_is_let_go_when_the_peer_speaks_in_another_way() -> None:
    """It may list what it has, and tell a table later in the round."""
    chance = random.Random(1)
    own = Partitions(2)
    leaves = {name(chance): chance.randbytes(64) for _ in range(9)}
    own.put(leaves)
    source, limits = SourceLabel("Opq_a"), asdict(DEFAULT_LIMITS)
    adverts = [Advertisement(RecordHash(name(chance)), source, ()) for _ in range(3)]
    listing = {advert.record: (advert, advert.digest()) for advert in adverts}
    has = Partitions()
    has.put({record: both[DIGEST:] for record, both in leaves.items()})
    has.put({record: leaf for record, (_, leaf) in listing.items()})
    parameters = replace(DEFAULT_PARAMETERS, foresee_from=1)
    asked: list[list[Fact]] = []
    for looks_ahead in (False, True):
        sketching = Sketching(b"", 0, own, 0)
        peers = PeerAdverts(source, limits, parameters, own, Partitions(), sketching)
        peers.take_sent(leaves)
        if looks_ahead:
            assert peers.can_look_ahead
            peers.look_ahead()
        assert not peers.take_advertise([], 0, listing)
        asked.append(peers.take_advertise([Told(len(has), has.check).fact()], 0, {}))
        assert peers.table.check == has.check
    assert asked == [[], []]


def spoiled(record: str, chance: random.Random) -> str:
    """Return a record with one fault, which may be none."""
    letters = list(record)
    at = chance.randrange(len(letters))
    match chance.randrange(3):
        case 0:
            letters[at] = chance.choice("BPS.H30zA~é-=+/")
        case 1:
            del letters[at]
        case _:
            letters.insert(at, chance.choice("aP3"))
    return "".join(letters)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_entries_that_are_packed_together_are_those_of_each(seed: int) -> None:
    chance = random.Random(seed)
    size = entry_size(1)
    for _ in range(20):
        records = [
            f"{chance.choice('BPS')}.{b64a.encode(chance.randbytes(32))}.H3"
            for _ in range(chance.randrange(1, 6))
        ]
        if chance.random() < 0.5:
            records[0] = spoiled(records[0], chance)
        digests = {record: chance.randbytes(32) for record in records}
        packed = Entries(2)
        packed.add(digests)
        found = [entry for _, run in packed.take_runs(size) for entry in cut(run, size)]
        keys = {record: key_of(record) for record in digests}
        assert packed.odd == {r: digests[r] for r, key in keys.items() if key is None}
        assert sorted(found) == sorted(key + digests[r] for r, key in keys.items() if key)
        run = b"".join(found)
        assert records_of(run, size) == [record_of(entry) for entry in found]
