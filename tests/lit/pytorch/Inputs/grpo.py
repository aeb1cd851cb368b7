"""examples/pytorch/grpo.py: rollouts and training have the same log-probabilities, to the bit."""

import os
import sys
import tempfile
import unittest

ROOT, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path[:0] = [os.path.join(ROOT, "runtime", "python"), os.path.join(ROOT, "examples", "pytorch")]
import torch  # noqa: E402
import grpo  # noqa: E402


def bits(x):
    return x.view(torch.int32).tolist()


class Grpo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def setUp(self):
        self.training = grpo.Training(self.folder.name, BUILD)

    def learnt(self, question, token, written):
        zero = torch.zeros(len(question))
        with torch.no_grad():
            return self.training.learn(question, token, written, zero, *self.training.weights)[:2]

    def test_learning(self):
        """A hundred steps: no bit differs between rollouts and training, and the reward rises."""
        seen = [self.training.step() for _ in range(100)]
        rewards, divergences, others = zip(*seen)
        self.assertEqual(set(divergences), {0.0})
        self.assertEqual(set(others), {0})
        self.assertLess(sum(rewards[:10]) / 10, 0.25)  # an eighth is what chance gives
        self.assertGreater(sum(rewards[-10:]) / 10, 0.5)

    def test_batches(self):
        """1, 7 and 64 answers of 256 are the same answers with the same log-probabilities."""
        for _ in range(5):
            self.training.step()
        question = self.training.question.roll(3)
        token, written = self.training.rollouts(question, self.training.weights, 5)
        self.assertGreater(len(token.unique()), 4)
        for rows in (1, 7, 64):
            few, few_written = self.training.rollouts(question[:rows], self.training.weights, 5)
            self.assertTrue(torch.equal(few, token[:rows]))
            self.assertEqual(bits(few_written), bits(written[:rows]))
            log_prob, kl = self.learnt(question[:rows], few, few_written)
            self.assertEqual(bits(log_prob), bits(written[:rows]))
            self.assertEqual(kl.item(), 0.0)

    def test_other_weights(self):
        """What rollouts of weights that have moved since are apart by is seen."""
        question, weights = self.training.question, self.training.weights
        token, written = self.training.rollouts(question, weights, 0)
        self.training.step()
        log_prob, kl = self.learnt(question, token, written)
        self.assertNotEqual(bits(log_prob), bits(written))
        self.assertGreater(kl.item(), 0.0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
