# SPDX-License-Identifier: Apache-2.0
"""A bare Debian 12 in a folder."""

import glob
import os
import re
import shutil
import subprocess

CERTIFICATES = "/usr/local/share/certificates-of-the-host.crt"


def sources():
    """This machine's sources of Debian itself: the address and the files that name it."""
    files = [path for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")] if os.path.exists(path)]
    texts = {path: open(path).read() for path in files}
    debian = {path: text for path, text in texts.items() if re.search(r"\bbookworm-security\b|\bbookworm main\b|Suites: bookworm", text)}
    address = next((found[1] for text in debian.values() if (found := re.search(r"^(?:URIs:|deb) +(\S+/debian)\b", text, re.MULTILINE))), None)
    return address or "http://deb.debian.org/debian", debian


def make(root, *packages):
    """Makes it, with these packages besides the smallest set. Requires: root, and debootstrap."""
    address, files = sources()
    besides = [f"--include={','.join(packages)}"] if packages else []
    subprocess.run(["debootstrap", "--variant=minbase", *besides, "bookworm", root, address], check=True, stdout=subprocess.DEVNULL)
    for path, text in files.items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "w") as file:
            file.write(text)
    if any(path.endswith(".sources") for path in files) and "/etc/apt/sources.list" not in files:
        os.remove(root + "/etc/apt/sources.list")  # debootstrap's own would name the same twice
    shutil.copy("/etc/resolv.conf", root + "/etc/resolv.conf")
    shutil.copy("/etc/hosts", root + "/etc/hosts")
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root + CERTIFICATES)
