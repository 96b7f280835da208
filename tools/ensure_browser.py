"""Make sure that a Chromium is there for the browser tests: find one, else install Debian's.

Only a package manager that may be used without asking is used. Where none is, a message says what
to install; the browser tests then say loudly that they were not run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

VARIABLE = "LACE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
ADVICE = (
    "No Chromium was found. Install it (Debian and Ubuntu: apt-get install chromium), or set "
    f"{VARIABLE} to the path of a Chromium or Chrome."
)

FIREFOX_ADVICE = (
    "No Firefox was found: what runs in it too is not tested there. Install it (Debian: apt-get "
    "install firefox-esr), or set LACE_FIREFOX to its path."
)


def find_firefox() -> str | None:
    """Return the path of a Firefox, or None; none is installed, for one browser is enough."""
    named = os.environ.get("LACE_FIREFOX")
    names = (named,) if named else ("firefox-esr", "firefox")
    return next((path for name in names if (path := shutil.which(name))), None)


def find_browser() -> str | None:
    """Return the path of a Chromium, or None."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> bool:
    """Install Debian's package where that is allowed; say whether it worked."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    print("Chromium: none found; installing Debian's package, about 110 MB", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = [apt, "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        subprocess.run(
            [apt, "update", "--quiet"], env=environment, check=False, capture_output=True
        )
        done = subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
    return done.returncode == 0


def main() -> int:
    browser = find_browser()
    if browser is None:
        install()
        browser = find_browser()
    print(f"Chromium: {browser}" if browser else ADVICE)
    firefox = find_firefox()
    print(f"Firefox: {firefox}" if firefox else FIREFOX_ADVICE)
    if shutil.which("npm") is None:
        print("npm is not here: the browser bundle, which is made with it, is not tested.")
    return 0  # everything but the browser tests works without


if __name__ == "__main__":
    sys.exit(main())
