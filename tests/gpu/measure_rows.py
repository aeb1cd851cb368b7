"""Part 2: maps, rows and sums, beside whoever can be imported."""
import sys

import measure
import summary

sys.path.insert(0, measure.BENCH)
from cases import gpu_row_cases


def names(options):
    return [case.name for case in gpu_row_cases(10 if options.tiny else 0)]


def run(part, options, wanted):
    part.results["measured"] = [name for name in names(options) if wanted(name)]
    measure.run(part, options, part.results["measured"])


TABLES = (lambda results: measure.tables(results, results.get("measured", [])),
          lambda results: summary.plain_rows(results))
