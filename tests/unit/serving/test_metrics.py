"""Metrics over HTTP: which thread reads what, and under which names the port answers."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable

import pytest
from servers import policy, served
from wires import notes, store_of

from lace.serving.answering_port import is_meant
from lace.serving.metrics import Metrics, serve_metrics

RULES = '[[allow]]\nwho = "anyone"\nsync = ["//g//notes//"]\n'


async def scrape(port: int, host: str | None = "127.0.0.1") -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    named = "" if host is None else f"Host: {host}\r\n"
    writer.write(f"GET /metrics HTTP/1.1\r\n{named}Accept: */*\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def test_the_event_loop_reads_what_it_changes_and_a_thread_reads_the_store() -> None:
    """Else a scrape fails where the loop changes a table while a thread goes through it."""
    readers: dict[str, int] = {}

    def noting(name: str, read: Callable[[], float]) -> Callable[[], float]:
        def noted() -> float:
            readers[name] = threading.get_ident()
            return read()

        return noted

    async def main() -> tuple[set[str], set[str]]:
        async with served(store_of(notes(3)), policy(RULES)) as host:
            metrics = host.server.metrics
            for numbers in (metrics.gauges, metrics.stored):
                numbers.update({name: noting(name, read) for name, read in numbers.items()})
            port = await serve_metrics(metrics, 0)
            text = await scrape(port.sockets[0].getsockname()[1])
            port.close()
            assert "lace_store_records 3\n" in text
            here = {name for name, who in readers.items() if who == threading.get_ident()}
            assert set(readers) == {*metrics.gauges, *metrics.stored}
            assert "lace_memory_bytes" in here
            return here, set(metrics.gauges)

    here, gauges = asyncio.run(main())
    assert here == gauges


def test_a_scrape_goes_through_tables_that_change_meanwhile() -> None:
    table = OrderedDict.fromkeys(range(2000), 1)

    async def main() -> None:
        metrics = Metrics(gauges={"lace_memory_bytes": lambda: sum(table.values())})
        port = await serve_metrics(metrics, 0)
        number = port.sockets[0].getsockname()[1]

        async def change() -> None:
            for _ in range(300):
                table.popitem(last=False)
                table[object()] = 1  # type: ignore[index]
                await asyncio.sleep(0)

        changing = asyncio.create_task(change())
        texts = await asyncio.gather(*(scrape(number) for _ in range(20)))
        await changing
        port.close()
        assert all("lace_memory_bytes 2000\n" in text for text in texts)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("127.0.0.1:9100", 200), ("localhost:1", 200), ("LocalHost", 200),
        ("[::1]:9100", 200), (None, 200), ("evil.example", 421), ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:9100", 421), ("127.0.0.1@evil.example", 421), ("", 421),
        ("127.0.0.1:9100\r\nHost: evil.example", 421), ("10.0.0.1", 421), ("localhost:123456", 421),
    ],
)  # fmt: skip
def test_the_port_answers_under_the_names_of_this_machine_alone(
    host: str | None, status: int
) -> None:
    async def main() -> str:
        port = await serve_metrics(Metrics(), 0)
        answer = await scrape(port.sockets[0].getsockname()[1], host)
        port.close()
        return answer

    answer = asyncio.run(main())
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert ("lace_connections" in answer) is (status == 200)


@pytest.mark.parametrize("line", ["HOST: evil.example", "host:evil.example", "Host : evil.example"])
def test_a_host_is_found_however_it_is_written(line: str) -> None:
    assert not is_meant(f"GET /metrics HTTP/1.1\r\n{line}\r\n\r\n".encode())
    assert is_meant(b"GET /metrics HTTP/1.1\r\nX-Host: evil.example\r\n\r\n")
