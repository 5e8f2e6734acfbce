#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/agents takes from the guide is there, and its judgement of an agent. The agents themselves are not run."""

import json
import pathlib
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/lib"))
import agents  # noqa: E402

READ = {".toml": tomllib.loads, ".json": json.loads}


class Guide(unittest.TestCase):
    def test_it_leads_each_agent_to_the_gateway_with_its_key(self):
        for agent in agents.AGENTS.values():
            exported, files = agents.said_by_the_guide(agent.chapter)
            said = "\n".join([*exported.values(), *files.values()])
            self.assertIn(agents.GATEWAY, said, agent.chapter)
            self.assertIn("LANEMQ_KEY", said, agent.chapter)

    def test_its_files_can_be_read(self):
        paths = []
        for agent in agents.AGENTS.values():
            for path, text in agents.said_by_the_guide(agent.chapter)[1].items():
                READ[pathlib.Path(path).suffix](text)
                paths.append(path)
        self.assertEqual(paths, [".codex/config.toml", ".config/opencode/opencode.json", ".pi/agent/models.json",
                                 ".pi/agent/settings.json"])


class Prompt(unittest.TestCase):
    def test_it_names_the_tool_and_the_file(self):
        self.assertEqual(agents.AGENTS["pi"].prompt("/desk/a"), 'upstream: call write {"path": "/desk/a", "content": "plum"}\n')


class Judgement(unittest.TestCase):
    def judge(self, ended="", written=agents.WORD, statuses=(200, 200), lane=agents.LANE):
        return agents.judge("write", ended, written, [{"path": "/v1/messages?beta=true", "status": status, "lane": lane}
                                                      for status in statuses])

    def test_a_task_is_done_where_the_tool_ran_and_its_result_was_sent(self):
        self.assertEqual(self.judge(), ("done: 2 requests to /v1/messages, lane high, write called and run", True))

    def test_each_way_to_fail_is_told(self):
        for given, told in (({"ended": "exit code 1"}, "exit code 1"), ({"written": None}, "write did not run"),
                            ({"written": "pear"}, "write did not run"), ({"lane": "low"}, "lane low instead of high"),
                            ({"statuses": (200, 429)}, "answered with /v1/messages?beta=true 429"),
                            ({"statuses": (200,)}, "no result of the tool was sent"), ({"statuses": ()}, "lane none instead of high")):
            outcome, done = self.judge(**given)
            self.assertFalse(done, given)
            self.assertTrue(outcome.startswith("failed: "), outcome)
            self.assertIn(told, outcome)


if __name__ == "__main__":
    unittest.main()
