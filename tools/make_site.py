"""Make the site of docs/ into build/site. ``serve`` shows it on this machine and follows changes.

A warning is a fault: a link or an anchor that leads nowhere, a page that no list leads to.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
import tempfile
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"


def build(source: Path = DOCS, into: Path = SITE) -> subprocess.CompletedProcess[str]:
    """Build the site; the outcome has a code other than 0 if anything is wrong with a page."""
    with tempfile.TemporaryDirectory() as trees:
        command = [
            sys.executable, "-m", "sphinx", "--builder", "html", "--fresh-env", "--quiet",
            "--fail-on-warning", "--doctree-dir", trees, str(source), str(into),
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=False)


def newest() -> float:
    """Return when a file of docs/ was changed last."""
    return max(path.stat().st_mtime for path in DOCS.rglob("*") if path.is_file())


def tell(done: subprocess.CompletedProcess[str]) -> int:
    """Say what is wrong with the pages, or where the site is."""
    print(done.stderr.rstrip() if done.returncode else f"{SITE / 'index.html'}", flush=True)
    return done.returncode


def follow() -> None:
    """Build again whenever a page changes."""
    seen = newest()
    while True:
        time.sleep(1)
        if (now := newest()) != seen:
            seen = now
            tell(build())


def serve(port: int) -> int:
    """Show the site on this machine, and on no other, until Ctrl-C."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(SITE))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        print(f"port {port}: {error}. Choose another: make site-serve SITE_PORT=8001")
        return 1
    tell(build())
    threading.Thread(target=follow, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}/ (end with Ctrl-C)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("build", "serve"), default="build")
    parser.add_argument("--port", type=int, default=8000, help="where to serve (default 8000)")
    chosen = parser.parse_args()
    return serve(chosen.port) if chosen.what == "serve" else tell(build())


if __name__ == "__main__":
    sys.exit(main())
