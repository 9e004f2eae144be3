#pragma once

#include <string>
#include <string_view>

namespace meshbus::host {

/// What a program says of its failure in its error file, in one line of at most 300 characters:
/// "RuntimeError: boom (File "train.py", line 3, in step)". `file`: JSON as torch's @record writes
/// it, {"message": {"message": ..., "extraInfo": {"py_callstack": ...}}}, or plain text, of which
/// the first line counts. Control characters are escaped. Empty: it says nothing. Pure.
std::string error_note(std::string_view file);

}  // namespace meshbus::host
