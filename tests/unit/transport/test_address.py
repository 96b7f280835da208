from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace.errors import Code, EncodingError
from lace.transport.address import Address, parse_address


@pytest.mark.req("060-TRN-02")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("stdio", "stdio"),
        ("unix:/tmp/lace.sock", "unix:/tmp/lace.sock"),
        ("tcp:127.0.0.1:4790", "tcp:127.0.0.1:4790"),
        ("tcp:example.com:9000", "tcp:example.com:9000"),
        ("tcp:example.com", "tcp:example.com:4790"),
        ("tcp:[::1]:4790", "tcp:[::1]:4790"),
        ("tcp:[0:0:0:0:0:0:0:1]", "tcp:[::1]:4790"),
        ("tcp:Example.COM.", "tcp:example.com:4790"),
        ("ws:host", "ws:host/interlace"),
        ("ws:host:80", "ws:host/interlace"),
        ("ws:127.0.0.1:4790/interlace", "ws:127.0.0.1:4790/interlace"),
        ("ws:host:443", "ws:host:443/interlace"),
        ("wss:example.com/interlace", "wss:example.com/interlace"),
        ("wss:example.com:443", "wss:example.com/interlace"),
        ("wss://example.com/interlace", "wss:example.com/interlace"),
        ("ws://[::1]:8080", "ws:[::1]:8080/interlace"),
    ],
)
def test_addresses_have_one_spelling(text: str, canonical: str) -> None:
    address = parse_address(text)
    assert str(address) == canonical
    assert parse_address(str(address)) == address


@pytest.mark.req("060-TRN-02")
@pytest.mark.parametrize(
    "text",
    [
        "", "tcp", "tcp:", "stdio:", "stdio:x", "STDIO", "http:example.com", "example.com:4790",
        "unix:", "unix:relative", "unix:/a\nb", "unix:/" + "x" * 107, "unix:/\udcff",
        "tcp://example.com", "tcp:host:", "tcp:host:x", "tcp:host:65536", "tcp:host:080",
        "tcp:host:-1", "tcp:::1", "tcp:[::1", "tcp:[::g]", "tcp:[127.0.0.1]:1", "tcp:ho st:1",
        "tcp:-host", "tcp:host:1/interlace", "tcp:exämple.com", "tcp:" + "a" * 254,
        "ws:host/", "ws:host/other", "ws:host/interlace/", "ws:host/interlace?x=1", "ws:host?x",
        "ws:host/interlace#x", "wss:user@host", "x" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(EncodingError) as caught:
        parse_address(text)
    assert caught.value.code is Code.ADDRESS_MALFORMED
    assert len(caught.value.message) < 200


@given(st.text(max_size=40), st.sampled_from(["", "tcp:", "ws:", "wss:", "unix:/", "tcp:["]))
def test_any_text_is_an_address_or_an_error(text: str, start: str) -> None:
    try:
        address = parse_address(start + text)
    except EncodingError:
        return
    assert parse_address(str(address)) == address


def test_an_address_for_every_interface_is_known_as_one() -> None:
    assert parse_address("tcp:0.0.0.0:1").is_wild
    assert parse_address("wss:[::]").is_wild
    assert not parse_address("tcp:localhost").is_wild
    assert parse_address("wss:h:1").url == "wss://h:1/interlace"
    assert isinstance(parse_address("stdio"), Address)
