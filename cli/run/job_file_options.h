#pragma once

#include "cli/run/job_file.h"
#include "cli/run/run_job.h"
#include "cli/support/cli11_types.h"

namespace meshbus::cli {

/// Makes what a job file says the arguments of a run. `verb`: `meshbus run` with what the command
/// line says; that wins over the file, and its settings over those of the same key. Errors:
/// parse_error with the place in the file: a key that is no flag, a value that its flag does not
/// take, a flag of `verb` that is for one program.
Result<void> apply_job_file(const JobFile& file, const CLI::App& verb, RunArguments& run);

}  // namespace meshbus::cli
