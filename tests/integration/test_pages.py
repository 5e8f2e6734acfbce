# SPDX-License-Identifier: Apache-2.0
"""What the pages say: each link leads somewhere."""

import os
import re
import unittest

from pages import ROOT, anchors, links, pages


class Links(unittest.TestCase):
    """Relative links and anchors; what lies elsewhere on the internet is not asked."""

    def test_each_link_leads_to_a_file_and_a_heading(self):
        known, dead = {}, []
        for page in pages():
            for number, target in links(page):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                found = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                if not os.path.exists(os.path.join(ROOT, found)):
                    dead.append(f"{page}:{number}: {target}: there is no {found}")
                elif anchor and found.endswith(".md"):
                    if anchor not in known.setdefault(found, anchors(found)):
                        dead.append(f"{page}:{number}: {target}: {found} has no heading #{anchor}")
        self.assertEqual(dead, [])

    def test_the_index_names_each_page(self):
        named = {os.path.normpath(os.path.join("docs", target.partition("#")[0])) for _, target in links("docs/README.md")}
        self.assertEqual([page for page in pages() if page.startswith("docs/") and page not in named],
                         ["docs/README.md"])


if __name__ == "__main__":
    unittest.main()
