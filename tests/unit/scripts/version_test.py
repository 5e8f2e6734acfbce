#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rule of docs/reference/versions.md: what scripts/version says of a tree, by its VERSION and by what git knows of it; and
what a release says it consists of."""

import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EPOCH = 1732788900  # 2024-11-28T10:15:00Z
TIME, DIGITS = "20241128T101500", "20241128101500"


def run(*command, cwd, **environment):
    """What it prints. It sees neither this machine's git settings nor a zone of its own choice."""
    surrounding = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "TZ": "Asia/Kolkata", **environment}
    return subprocess.run(command, cwd=cwd, env=surrounding, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


class Tree:
    """A tree with VERSION and scripts/version, and git where it has a commit."""

    def __init__(self, folder, number):
        self.folder = pathlib.Path(folder)
        (self.folder / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/version", self.folder / "scripts/version")
        shutil.copy(ROOT / ".gitattributes", self.folder / ".gitattributes")
        self.write(number)

    def write(self, number):
        (self.folder / "VERSION").write_text(number + "\n")

    def git(self, *words, at=EPOCH):
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", "T"), ("EMAIL", "t@t"), ("DATE", f"{at} +0900"))}
        return run("git", *words, cwd=self.folder, **who)

    def commit(self, at=EPOCH, **files):
        """A commit of all, with other texts in these files; tells its short hash."""
        if not (self.folder / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main")
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=c", at=at)
        return self.git("rev-parse", "HEAD")[:12]

    def says(self, *words, **environment):
        return run("scripts/version", *words, cwd=self.folder, **environment)

    def says_all(self):
        return self.says(), self.says("npm"), self.says("python")


class VersionTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def tree(self, number, name="tree"):
        return Tree(f"{self.folder}/{name}", number)

    def cloned(self, tree, *words):
        """A clone; over file://, since a path's would not be shallow."""
        tree.git("clone", "--quiet", *words, f"file://{tree.folder}", f"{self.folder}/clone")
        clone = object.__new__(Tree)
        clone.folder = pathlib.Path(f"{self.folder}/clone")
        return clone

    def archived(self, tree, name="archive"):
        """What git's archive of HEAD has."""
        os.mkdir(f"{self.folder}/{name}")
        tree.git("archive", "--output", f"{self.folder}/{name}.tar", "HEAD")
        run("tar", "-xf", f"../{name}.tar", cwd=f"{self.folder}/{name}")
        archive = object.__new__(Tree)
        archive.folder = pathlib.Path(f"{self.folder}/{name}")
        return archive

    def test_a_commit_before_a_release_has_its_time_in_utc_and_its_hash(self):
        tree = self.tree("0.3.0-dev")
        commit = tree.commit()

        self.assertEqual(tree.says_all(), (f"0.3.0~git{TIME}.{commit}", f"0.3.0-dev.{DIGITS}", f"0.3.0.dev{DIGITS}"))
        self.assertEqual(tree.says("epoch"), str(EPOCH))

    def test_a_shallow_clone_says_the_same(self):
        tree = self.tree("0.3.0-dev")
        tree.commit(at=EPOCH - 60)
        tree.commit(other="text")

        shallow = self.cloned(tree, "--depth=1")

        self.assertEqual(shallow.git("rev-list", "--count", "HEAD"), "1")
        self.assertEqual(shallow.says_all(), tree.says_all())

    def test_a_later_commit_is_a_later_version_and_the_release_the_last(self):
        tree = self.tree("0.2.0")
        tree.commit(at=EPOCH - 3600)
        said = [tree.says_all()]
        tree.write("0.3.0-dev")
        for at in (EPOCH - 60, EPOCH, EPOCH + 1, EPOCH + 24 * 3600):
            tree.commit(at=at)
            said.append(tree.says_all())
        tree.write("0.3.0")
        tree.commit(at=EPOCH + 48 * 3600)
        said.append(tree.says_all())

        for (deb, npm, python), (later_deb, later_npm, later_python) in zip(said, said[1:]):
            # dpkg itself; the others by the rules of SemVer and PEP 440, with numbers as numbers.
            run("dpkg", "--compare-versions", f"{deb}-1", "lt", f"{later_deb}-1", cwd=self.folder)
            self.assertLess(self.key(npm), self.key(later_npm))
            self.assertLess(self.key(python), self.key(later_python))

    def key(self, version):
        numbers, before = re.fullmatch(r"(\d+\.\d+\.\d+)(?:(?:-dev\.|\.dev)(\d+))?", version).groups()
        return [int(number) for number in numbers.split(".")], int(before) if before else float("inf")

    def test_the_numbers_of_npm_are_exact_there(self):
        self.assertLess(int(datetime.datetime(9999, 12, 31, 23, 59, 59).strftime("%Y%m%d%H%M%S")), 2**53)

    def test_the_tagged_commit_is_the_release(self):
        tree = self.tree("0.2.0")
        tree.commit()
        tree.git("tag", "--annotate", "v0.2.0", "--message=r")

        self.assertEqual(tree.says_all(), ("0.2.0", "0.2.0", "0.2.0"))

    def test_a_clone_without_tags_knows_the_release_by_the_commit_that_wrote_its_number(self):
        tree = self.tree("0.2.0-dev")
        tree.commit(at=EPOCH - 60)
        tree.write("0.2.0")
        tree.commit()

        for clone in (["--no-tags"], ["--no-tags", "--depth=1"]):
            with self.subTest(clone):
                self.assertEqual(self.cloned(tree, *clone).says_all(), ("0.2.0", "0.2.0", "0.2.0"))
                shutil.rmtree(f"{self.folder}/clone")

    def test_what_comes_behind_a_release_is_no_release(self):
        tree = self.tree("0.2.9")
        tree.commit(at=EPOCH - 60)
        commit = tree.commit(other="text")
        behind = (f"0.2.9+git{TIME}.{commit}", f"0.2.10-dev.{DIGITS}", f"0.2.9.post{DIGITS}")

        self.assertEqual(tree.says_all(), behind)
        tree.git("tag", "v0.2.9", "HEAD~1")
        self.assertEqual(tree.says_all(), behind)
        run("dpkg", "--compare-versions", "0.2.9-1", "lt", f"{behind[0]}-1", cwd=self.folder)
        run("dpkg", "--compare-versions", f"{behind[0]}-1", "lt", "0.3.0~git20241128T101501.0-1", cwd=self.folder)

    def test_a_tag_elsewhere_takes_the_number_from_the_commit_that_wrote_it(self):
        tree = self.tree("0.2.0")
        tree.commit(at=EPOCH - 60)
        tree.git("tag", "v0.2.0")
        tree.write("0.3.0-dev")
        tree.commit(at=EPOCH - 30)
        tree.write("0.2.0")
        commit = tree.commit()

        self.assertEqual(tree.says(), f"0.2.0+git{TIME}.{commit}")

    def test_a_changed_tree_says_so(self):
        tree = self.tree("0.2.0")
        tree.commit(known="text")
        self.assertEqual(tree.says(), "0.2.0")
        (tree.folder / "unknown").write_text("of no commit, as a build is")
        self.assertEqual(tree.says(), "0.2.0")

        (tree.folder / "known").write_text("other text")

        commit = tree.git("rev-parse", "HEAD")[:12]
        self.assertEqual(tree.says(), f"0.2.0+git{TIME}.{commit}.changed")
        tree.write("0.3.0-dev")
        self.assertEqual(tree.says(), f"0.3.0~git{TIME}.{commit}.changed")

    def test_a_tree_without_git_has_the_number_alone(self):
        release, before = self.tree("0.2.0", "release"), self.tree("0.3.0-dev", "before")

        self.assertEqual(release.says_all(), ("0.2.0", "0.2.0", "0.2.0"))
        self.assertEqual(before.says_all(), ("0.3.0~dev", "0.3.0-dev.0", "0.3.0.dev0"))

    def test_a_tree_inside_of_another_repository_is_not_of_its_commits(self):
        outer = self.tree("9.9.9", "outer")
        outer.commit()
        inner = Tree(outer.folder / "inner", "0.3.0-dev")
        outer.git("tag", "v0.3.0")

        self.assertEqual(inner.says(), "0.3.0~dev")

    def test_an_archive_of_git_knows_its_commit(self):
        tree = self.tree("0.3.0-dev")
        tree.commit()

        archive = self.archived(tree)

        self.assertEqual(archive.says_all(), tree.says_all())
        self.assertEqual(archive.says("epoch"), str(EPOCH))

    def test_an_archive_of_a_release_is_the_release_also_in_the_repository_of_others(self):
        tree = self.tree("0.2.0")
        tree.commit()
        archive = self.archived(tree)
        self.assertEqual(archive.says_all(), ("0.2.0", "0.2.0", "0.2.0"))

        archive.commit(at=EPOCH + 60)
        archive.commit(at=EPOCH + 120, patch="of theirs")

        self.assertEqual(archive.says(), "0.2.0")
        self.assertEqual(archive.says("epoch"), str(EPOCH))

    def test_a_container_is_told(self):
        tree = self.tree("0.3.0-dev")

        self.assertEqual(tree.says(LANEMQ_VERSION="0.3.0~git20261128T101500.abc"), "0.3.0~git20261128T101500.abc")
        for bad in ('0"; x', "0.3 0", "v0.3.0"):
            with self.assertRaises(subprocess.CalledProcessError):
                run("sh", "-c", "scripts/version 2>/dev/null", cwd=tree.folder, LANEMQ_VERSION=bad)

    def test_a_number_that_is_none_is_refused(self):
        for number in ("0.3", "0.3.0-rc1", "01.3.0", "0.3.0.1", "", "0.3.0-dev-dev", "0.3.0\n0.4.0"):
            with self.subTest(number):
                tree = self.tree(number, f"tree{abs(hash(number))}")
                with self.assertRaises(subprocess.CalledProcessError):
                    run("sh", "-c", "scripts/version 2>/dev/null", cwd=tree.folder)

    def test_the_source_is_written_only_where_it_changes(self):
        tree = self.tree("0.3.0-dev")
        commit = tree.commit()
        tree.says("source", "../version.cpp")
        path = pathlib.Path(self.folder, "version.cpp")
        self.assertIn(f'"0.3.0~git{TIME}.{commit}"', path.read_text())
        os.utime(path, (1, 1))

        tree.says("source", "../version.cpp")
        self.assertEqual(path.stat().st_mtime, 1)

        commit = tree.commit(at=EPOCH + 1)
        tree.says("source", "../version.cpp")
        self.assertIn(commit, path.read_text())

    def test_a_new_number_is_written_into_all_sources(self):
        tree = self.tree("0.2.0")
        for name in ("client/python/lanemq/__init__.py", "client/node/package.json", "client/node/package-lock.json"):
            (tree.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree.folder / name)

        for number, python, npm in (("7.8.9-dev", "7.8.9.dev0", "7.8.9-dev.0"), ("7.8.9", "7.8.9", "7.8.9")):
            tree.says("set", number)
            self.assertEqual((tree.folder / "VERSION").read_text(), number + "\n")
            self.assertEqual(stated(tree.folder), [python, npm, npm, npm])
            self.assertEqual(self.other_lines(tree, "client/node/package-lock.json"), 2)
            self.assertEqual(self.other_lines(tree, "client/node/package.json"), 1)
            self.assertEqual(self.other_lines(tree, "client/python/lanemq/__init__.py"), 1)

    def other_lines(self, tree, name):
        pairs = zip((ROOT / name).read_text().splitlines(), (tree.folder / name).read_text().splitlines(), strict=True)
        return sum(ours != theirs for ours, theirs in pairs)


def stated(root):
    """The versions in the sources of the packages for Python and Node."""
    python = re.search(r'^__version__ = "(.+)"$', (root / "client/python/lanemq/__init__.py").read_text(), re.MULTILINE)[1]
    package = json.loads((root / "client/node/package.json").read_text())
    lock = json.loads((root / "client/node/package-lock.json").read_text())
    return [python, package["version"], lock["version"], lock["packages"][""]["version"]]


class SbomTest(unittest.TestCase):
    """What scripts/lib/sbom.py says of a package."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name, depends in (("one", "libc6 (>= 2.1), nobody-has-this | bash, two (= 0.3.0-1)"), ("two", "nobody-has-this")):
            control = pathlib.Path(self.folder, name, "DEBIAN/control")
            control.parent.mkdir(parents=True)
            control.write_text(f"Package: {name}\nVersion: 0.3.0~git1-1\nArchitecture: all\nMaintainer: M <m@m>\nDepends: {depends}\n"
                               "Description: a\n Depends: not on this\n")
            run("dpkg-deb", "--root-owner-group", "--build", name, f"{name}.deb", cwd=self.folder)

    def made(self):
        return run("python3", ROOT / "scripts/lib/sbom.py", "0.3.0", "two.deb", "one.deb", "--", "dash", "never-heard", cwd=self.folder,
                   SOURCE_DATE_EPOCH=str(EPOCH))

    def test_it_names_what_runs_to_its_end_and_what_builds(self):
        sbom = json.loads(self.made())
        packages = {package["name"]: package for package in sbom["packages"]}
        relations = {(row["spdxElementId"], row["relationshipType"], row["relatedSpdxElement"]) for row in sbom["relationships"]}

        # libgcc-s1 is what libc6 needs.
        for name in ("libc6", "bash", "libgcc-s1", "dash"):
            self.assertEqual(packages[name]["versionInfo"], run("dpkg-query", "-W", "-f", "${Version}", name, cwd=self.folder))
        self.assertEqual(packages["one"]["versionInfo"], "0.3.0~git1-1")
        for name in ("nobody-has-this", "never-heard"):
            self.assertNotIn("versionInfo", packages[name])
        self.assertLessEqual({("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-one"), ("SPDXRef-one", "DEPENDS_ON", "SPDXRef-libc6"),
                              ("SPDXRef-one", "DEPENDS_ON", "SPDXRef-bash"), ("SPDXRef-one", "DEPENDS_ON", "SPDXRef-two"),
                              ("SPDXRef-two", "DEPENDS_ON", "SPDXRef-nobody-has-this"), ("SPDXRef-libc6", "DEPENDS_ON", "SPDXRef-libgcc-s1"),
                              ("SPDXRef-dash", "BUILD_DEPENDENCY_OF", "SPDXRef-one")}, relations)
        self.assertFalse(any("not" == to.removeprefix("SPDXRef-") for _, _, to in relations))
        self.assertEqual(sbom["creationInfo"]["created"], "2024-11-28T10:15:00Z")

    def test_each_thing_has_a_name_of_its_own_and_each_relation_its_ends(self):
        sbom = json.loads(self.made())
        names = [package["SPDXID"] for package in sbom["packages"]]

        self.assertEqual(len(names), len(set(names)))
        ends = {row[end] for row in sbom["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
        self.assertLessEqual(ends, {*names, "SPDXRef-DOCUMENT"})
        self.assertTrue(all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in names), names)

    def test_it_is_the_same_each_time(self):
        self.assertEqual(self.made(), self.made())


class ThisTreeTest(unittest.TestCase):
    def setUp(self):
        self.number = (ROOT / "VERSION").read_text().strip()

    def test_the_packages_sources_have_the_number_of_version(self):
        base, dev = self.number.removesuffix("-dev"), self.number.endswith("-dev")
        npm = base + "-dev.0" * dev

        self.assertEqual(stated(ROOT), [base + ".dev0" * dev, npm, npm, npm])

    def test_a_release_has_one_commit(self):
        said = run(ROOT / "scripts/version", cwd=ROOT)

        self.assertFalse("+git" in said and not said.endswith(".changed"),
                         f"{said}: the commit behind a release is `scripts/version set` with the next number and -dev")


if __name__ == "__main__":
    unittest.main()
