#include "agent/stacks/frame_splice.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace meshbus::stacks {
namespace {

/// What starts programs and threads, in glibc and musl.
constexpr auto kStarters = std::to_array<std::string_view>(
    {"_start", "__libc_start_main", "__libc_start_call_main", "__libc_start_main_impl", "clone",
     "clone3", "__clone", "__clone3", "start_thread", "_start_c"});

bool is_starter(const wire::StackFrameT& frame) {
  const std::string_view name = frame.function;
  // "__libc_start_main@@GLIBC_2.34"
  return std::find(kStarters.begin(), kStarters.end(), name.substr(0, name.find('@'))) !=
         kStarters.end();
}

bool is_evaluation(const wire::StackFrameT& frame) {
  return frame.function.starts_with("_PyEval_EvalFrameDefault");
}

}  // namespace

std::vector<wire::StackFrameT> splice(std::vector<NamedFrame> native,
                                      std::vector<NamedPythonFrame> python) {
  // The C library's own frames at the outer end have no symbols where it is stripped.
  auto end = native.size();
  while (end > 1) {
    const auto& frame = native[end - 1].frame;
    const bool is_nameless_libc =
        frame.function.empty() && (frame.file == "libc.so.6" || frame.file == "libpthread.so.0");
    if (!is_starter(frame) && !is_nameless_libc) break;
    --end;
  }
  native.resize(end);

  std::vector<wire::StackFrameT> frames;
  auto next = python.begin();
  for (auto& [frame, is_interpreter] : native) {
    if (is_evaluation(frame) && next != python.end()) {
      bool is_last = false;
      while (next != python.end() && !is_last) {
        is_last = next->is_last_of_call;
        frames.push_back(std::move(next->frame));
        ++next;
      }
    } else if (!is_interpreter || python.empty()) {
      frames.push_back(std::move(frame));
    }
  }
  for (; next != python.end(); ++next) frames.push_back(std::move(next->frame));
  return frames;
}

}  // namespace meshbus::stacks
