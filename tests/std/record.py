"""Records the expected results of check.py: `python record.py [FAMILY...]`, with PyTorch installed.

reference/*.py compute every case in f64: with PyTorch's own optimizer, function or autograd where it
has one, with the package of its authors (schedulefree, torchao, bitsandbytes: those in f32), else with
the published formula, written out there and nowhere else. A family whose package is not installed is
left as it is. Neither the build nor the tests need this program.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "reference"))

import codecs_cases  # noqa: E402
import decisions  # noqa: E402
import language  # noqa: E402
import layers  # noqa: E402
import narrow  # noqa: E402
import optim  # noqa: E402
import training  # noqa: E402

MODULES = [optim, narrow, codecs_cases, training, layers, decisions, language]


def main():
    for module in MODULES:
        for make in module.FAMILIES:
            try:
                family = make()
            except ModuleNotFoundError as missing:
                print(f"{make.__name__} is left as it is: {missing}")
                continue
            if not sys.argv[1:] or family.name in sys.argv[1:]:
                family.write(os.path.join(HERE, "expected"))
                print(f"{family.name}: {len(family.cases)} cases")


if __name__ == "__main__":
    main()
