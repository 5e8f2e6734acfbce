# SPDX-License-Identifier: Apache-2.0
"""What cluster_campaign.py must find is found: commits of a former owner, and answers that a promotion has lost."""

import argparse
import unittest

import cluster_troubles
import test_cluster
from cluster_audit import Entry, faults_of
from cluster_stage import Stage
from postgres_pair import Pair

OPTIONS = argparse.Namespace(lease=3.0, queued=100, stop_max=8.0, log=None)


def setUpModule():
    test_cluster.skip_without_postgres()


class Audit(unittest.TestCase):
    WHOLE = [Entry(1, 7, "a"), Entry(1, 8, "a"), Entry(2, 0, "b"), Entry(2, 1, "b"), Entry(2, 1, ""), Entry(3, 0, "a")]

    def test_what_follows_one_another_is_right(self):
        self.assertEqual(faults_of(self.WHOLE), [])

    def test_each_wrong_order_is_found(self):
        for entries in ([Entry(1, 1, "a"), Entry(1, 3, "a")],   # one is missing
                        [Entry(1, 1, "a"), Entry(1, 1, "a")],   # one was made twice
                        [Entry(2, 0, "b"), Entry(1, 9, "a")],   # of a former owner
                        [Entry(1, 1, "a"), Entry(1, 2, "b")],   # by another one than the owner
                        [Entry(1, 1, ""), Entry(1, 2, "a")],    # after it was given back
                        [Entry(1, 1, "a"), Entry(3, 0, "b")],   # an epoch is missing
                        [Entry(1, 1, "a"), Entry(2, 1, "b")]):  # the first commit of an epoch is missing
            with self.subTest(entries=entries):
                self.assertEqual(len(faults_of(entries)), 1)


class StageCase(unittest.TestCase):
    def setUp(self):
        self.pair = Pair()
        self.addCleanup(self.pair.close)
        self.stage = Stage(self.pair, 1, 1, OPTIONS)
        self.addCleanup(self.stage.close)
        self.stage.begin()


class FormerPrimary(StageCase):
    """One that hung, and takes connections beside the standby that was promoted: nobody goes by what it says."""

    def goes_on(self, besides):
        cluster_troubles.stop_primary(self.stage, besides)
        self.stage.end_round()
        self.stage.finish()
        self.assertEqual(self.stage.book.faults, [])

    def test_the_owner_does_not_go_back_to_it(self):
        self.goes_on("cut")

    def test_a_candidate_takes_the_store_from_the_one_that_was_promoted(self):
        self.goes_on("kill")

    def test_a_candidate_tells_the_two_by_the_promotion_where_nothing_was_committed_since(self):
        self.goes_on("kill before")


class Planted(StageCase):
    def test_a_commit_of_a_former_owner_is_found_in_the_database(self):
        owner = self.stage.owner
        self.pair.primary.psql('UPDATE "act 1".owner SET epoch = epoch + 1, ticket = 0, instance = \'b\'')
        self.stage.ends(owner, 75)
        self.assertEqual(self.stage.audit.faults(), [])

        self.pair.primary.psql('UPDATE "act 1".owner SET epoch = 1, ticket = 1000000, instance = \'a\'')

        self.assertEqual(self.stage.audit.faults(), ["(1, 1000000, 'a') was committed after (2, 0, 'b')"])

    def test_answers_are_missed_that_a_standby_had_not_got_when_it_was_promoted(self):
        stage, pair, former = self.stage, self.pair, self.pair.primary
        former.set("synchronous_standby_names", None)  # commits wait for nobody
        pair.standby.stop()
        stage.room.keep_alive(2.0)
        former.crash()
        pair.standby.go_on()
        owner = stage.owner
        cluster_troubles.promote(stage)
        stage.ends(owner, 74)
        self.assertEqual(stage.book.faults, [])

        stage.answered_by_another()
        stage.start(owner)
        stage.gather()
        stage.finish()

        self.assertGreater(stage.book.counts["lost"], 10)


if __name__ == "__main__":
    unittest.main()
