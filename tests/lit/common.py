"""What both lit suites share: the environment that tests run in."""
import os
import shutil

PASSED_ON = ("HOME", "LOCKSTEP_CC", "LOCKSTEP_NVRTC", "LOCKSTEP_NVDISASM", "LOCKSTEP_HIPRTC", "LOCKSTEP_TEST_DEVICE",
             "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "TMPDIR")


def plain_compiler():
    """What LOCKSTEP_CC is in tests whose compiled code is no measure: bin/plain_cc before the compiler that others have."""
    found = [name for name in ("clang", "gcc", "cc") if shutil.which(name)]
    return f"plain_cc {os.environ.get('LOCKSTEP_CC') or (found or ['cc'])[0]}"


def simt_cache(build):
    """Where the emulated devices keep what they compiled, for tests that are several processes: SIMT_CACHE."""
    return os.path.join(build, "tests", "simt_cache")


def test_environment(build):
    """A private kernel cache, plain text, nothing of the user's own settings."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    tools = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    environment["PATH"] = os.pathsep.join((os.environ.get("PATH", "/usr/bin:/bin"), tools))
    environment["LOCKSTEP_CACHE_DIR"] = os.path.join(build, "tests", "cache")
    environment["NO_COLOR"] = "1"
    environment["LC_ALL"] = "C.UTF-8"
    return environment
