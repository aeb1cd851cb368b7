"""suite.py: the tests of a build, one at a time in this process: lit's own machinery, with a mutant
in the environment and a time limit."""

import glob
import os
import resource
import sys
import time

GIB = 1 << 30


def find_lit():
    found = sorted(glob.glob("/usr/lib/llvm-*/build/utils/lit"))
    if not found:
        sys.exit("mutants.py: lit not found: apt-get install llvm-14-tools")
    return found[0]


class Outcome:
    """What came of a test: passed, failed, late or skipped, and after how long."""

    def __init__(self, code, seconds, output):
        self.code, self.seconds, self.output = code, seconds, output

    def kills(self):
        return self.code in ("failed", "late")


class Suite:
    def __init__(self, folders):
        sys.path.insert(0, find_lit())
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path.insert(0, os.path.join(os.path.dirname(here), "lit"))
        import lit.discovery
        import lit.LitConfig
        import lit.worker

        self.lit = lit
        self.config = lit.LitConfig.LitConfig(
            "mutants", [], True, False, False, [], False, False, False, {}
        )
        found = lit.discovery.find_tests_for_inputs(self.config, folders, False)
        self.tests = {test.getFullName(): test for test in found}
        limit_process()

    def move(self, folder):
        """Gives the texts' outputs and temporary files another folder, so that two processes can
        run one test at once."""
        os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)
        for test in self.tests.values():
            suite = test.suite
            if suite.exec_root != suite.source_root and not hasattr(suite, "moved"):
                suite.exec_root = os.path.join(folder, suite.name)
                suite.moved = True
            test.config.environment["TMPDIR"] = os.path.join(folder, "tmp")

    def run(self, name, limit, **variables):
        """`variables`: MUTANT, MUTANTS_REACHED."""
        import formats  # whose time limit lit knows nothing of

        test = self.tests[name]
        for variable in ("MUTANT", "MUTANTS_REACHED"):
            test.config.environment.pop(variable, None)
        test.config.environment.update({k: str(value) for k, value in variables.items()})
        formats.TIME_LIMIT = limit
        begin = time.monotonic()
        result = self.lit.worker._adapt_result(test.config.test_format.execute(test, self.config))
        seconds = time.monotonic() - begin
        named = {"PASS": "passed", "XFAIL": "passed", "FLAKYPASS": "passed", "TIMEOUT": "late"}
        named.update({"UNSUPPORTED": "skipped", "SKIPPED": "skipped", "EXCLUDED": "skipped"})
        return Outcome(named.get(result.code.name, "failed"), seconds, result.output or "")


def limit_process():
    """A mutant may ask for all memory there is, or write for ever. Address space has no limit, as
    sanitizers reserve most of it."""
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 32 * GIB)):
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, hard))
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # the first to go where there is no memory left
