# The test programs: every executable under build/tests/<folder>/ is a test, it passes when it exits 0;
# a program that knows --list is as many tests as it lists.
import os
import sys

source = os.path.join(config.lockstep_source, "tests", "lit")
sys.path.insert(0, source)
from common import plain_compiler, simt_cache, test_environment
from formats import Programs

tests = os.path.join(config.lockstep_build, "tests")
config.name = "programs"
config.test_source_root = os.path.join(tests, "executables")
config.test_exec_root = config.test_source_root
config.environment.clear()
config.environment.update(test_environment(config.lockstep_build))
config.test_format = Programs(
    root=tests,
    source=config.lockstep_source,
    folders=["ahead", "api", "interp", "rtc", "numerics", "files", "driver", "monitor", "fuzz", "simt", "soak"],
    # `exec` holds the compiled code; ranks load the same texts; one goes over 2^31 elements
    environments={"api": {"LOCKSTEP_CC": plain_compiler(), "SIMT_CACHE": simt_cache(config.lockstep_build)},
                  "api/huge_test": {}},
    helpers=["ir_tool", "library", "sources"],
    listed={os.path.join(tests, "exec", "exec_runner"): ["--suite"], os.path.join(tests, "simt", "simt_exec"): ["--suite"]},
)
