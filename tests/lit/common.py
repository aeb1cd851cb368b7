"""What both lit suites share: the environment that tests run in."""
import os

PASSED_ON = ("HOME", "LOCKSTEP_CC", "LOCKSTEP_NVRTC", "LOCKSTEP_NVDISASM", "LOCKSTEP_HIPRTC", "LOCKSTEP_TEST_DEVICE",
             "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "TMPDIR")


def test_environment(build):
    """A private kernel cache, plain text, nothing of the user's own settings."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment["PATH"] = os.environ.get("PATH", "/usr/bin:/bin")
    environment["LOCKSTEP_CACHE_DIR"] = os.path.join(build, "tests", "cache")
    environment["NO_COLOR"] = "1"
    environment["LC_ALL"] = "C.UTF-8"
    return environment
