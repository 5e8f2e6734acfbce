# SPDX-License-Identifier: Apache-2.0
"""Prints the software bill of materials of Debian packages, as SPDX 2.3 in JSON: what they need to run, and what they were built
with, as this machine's dpkg knows it. sbom.py VERSION PACKAGE.deb... -- BUILD_PACKAGE...

What runs is followed to its end: what a package depends on, and what that depends on. Of what builds only the packages that were
asked for are told; libraries of headers or archives alone, such as Abseil, become a part of the programs. Time: SOURCE_DATE_EPOCH."""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

FIELDS = ("Package", "Version", "Architecture", "Depends", "Pre-Depends", "Maintainer", "Homepage", "Provides", "Source")


def installed():
    """What dpkg knows of each package that is installed, by its name, and by each name that it provides."""
    form = "\\t".join(f"${{{field}}}" for field in ("db:Status-Status", *FIELDS)) + "\\n"
    text = subprocess.run(["dpkg-query", "--show", "--showformat", form], check=True, text=True, stdout=subprocess.PIPE).stdout
    rows = [row.split("\t") for row in text.splitlines()]
    known = {row[1]: dict(zip(FIELDS, row[1:])) for row in sorted(rows) if row[0] == "installed"}
    for about in list(known.values()):
        for name in needed(about["Provides"]):
            known.setdefault(name[0], about)
    return known


def needed(text):
    """The names in a field of dependencies: for each the alternatives, without versions and architectures."""
    return [[re.match(r"[^\s:(]+", one.strip())[0] for one in part.split("|")] for part in text.split(",") if part.strip()]


def direct(about, known):
    """What a package depends on: of alternatives the one that is installed here."""
    for alternatives in needed(about.get("Pre-Depends", "")) + needed(about.get("Depends", "")):
        yield next((known[name]["Package"] for name in alternatives if name in known), alternatives[0])


def closure(names, known):
    """These packages and all that they depend on."""
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += direct(known.get(name, {}), known)
    return found


def identifier(name):
    """SPDX's: letters, digits, dots and dashes."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", name.replace("+", "plus"))


def purl(about):
    quoted = about["Version"].replace("+", "%2B").replace(":", "%3A")
    return f"pkg:deb/debian/{about['Package'].replace('+', '%2B')}@{quoted}?arch={about['Architecture']}&distro=debian-12"


def of_debian(name, known):
    """A package of Debian's. What its copyright file says is not for a program to sum up."""
    about = known.get(name)
    row = {"SPDXID": identifier(name), "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}
    if about is None:  # it is asked for, and nothing here needs it
        return row
    row |= {"versionInfo": about["Version"], "supplier": "Organization: Debian",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl(about)}]}
    if about["Homepage"]:
        row["homepage"] = about["Homepage"]
    if about["Source"]:
        row["sourceInfo"] = f"source package {about['Source']}"
    return row


def of_ours(path):
    """A package that was built here: its description, and what it depends on."""
    text = subprocess.run(["dpkg-deb", "--field", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    about = dict(re.findall(r"^([\w-]+): (.*)$", text, re.MULTILINE))
    row = {"SPDXID": identifier(about["Package"]), "name": about["Package"], "versionInfo": about["Version"],
           "packageFileName": path.name, "supplier": "Organization: " + re.sub(r"<(.*)>", r"(\1)", about["Maintainer"]), "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "2026 The authors of LaneMQ",
           "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}],
           "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                             "referenceLocator": purl(about).replace("deb/debian/", "deb/lanemq/")}]}
    return about, row


def document(version, packages, build):
    known = installed()
    ours = [of_ours(path) for path in sorted(packages)]
    names = {about["Package"] for about, _ in ours}
    known = {name: about for name, about in known.items() if name not in names}
    runs = closure({name for about, _ in ours for name in direct(about, known)}, known) - names
    made_with = {known[name]["Package"] if name in known else name for name in build}
    rows = [row for _, row in ours] + [of_debian(name, known) for name in sorted(runs | made_with)]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", row["SPDXID"]) for _, row in ours]
    relations += [(row["SPDXID"], "DEPENDS_ON", identifier(name)) for about, row in ours for name in sorted(set(direct(about, known)))]
    relations += [(identifier(name), "DEPENDS_ON", identifier(other))
                  for name in sorted(runs) for other in sorted(set(direct(known.get(name, {}), known)))]
    relations += [(identifier(name), "BUILD_DEPENDENCY_OF", row["SPDXID"]) for name in sorted(made_with) for _, row in ours]
    made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    text = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"lanemq-{version}",
            "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: LaneMQ scripts/lib/sbom.py"]},
            "packages": rows,
            "relationships": [{"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to} for of, kind, to in relations]}
    # A name of its own for each content.
    digest = hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()
    return text | {"documentNamespace": f"https://lanemq.org/spdx/lanemq-{version}-{digest[:32]}"}


if __name__ == "__main__":
    if len(sys.argv) < 4 or "--" not in sys.argv:
        sys.exit(__doc__)
    behind = sys.argv.index("--")
    print(json.dumps(document(sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:behind]], sys.argv[behind + 1:]), indent=1))
