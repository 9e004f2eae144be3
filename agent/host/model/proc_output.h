#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "agent/host/streams/line_tail.h"
#include "agent/host/streams/log_file.h"
#include "agent/host/streams/stream_offsets.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"
#include "wire/logs_generated.h"

namespace meshbus::host {

/// Reading end of one output stream of a proc. Written by OutputReader.
struct OutputPipe {
  OutputPipe(wire::Stream which, LineTail::Limits limits) : stream(which), tail(limits) {}

  wire::Stream stream;
  UniqueFd fd;             ///< Empty: it is not there yet, or at its end.
  bool is_paused = false;  ///< It is not watched, because the owner is slow.
  LineTail tail;
  std::unique_ptr<LogFile> file;  ///< Null: the host keeps no files.
  StreamOffsets at;
  StreamOffsets before;  ///< Where this incarnation of the rank begins.
};

/// Both output streams of a proc. Written by OutputReader; SpoolSlots has the slot.
struct ProcOutput {
  /// An ended proc keeps so many bytes of each stream, when no reader follows it.
  static constexpr std::size_t kKeptAfterEnd = 16 * 1024;

  explicit ProcOutput(LineTail::Limits tail)
      : out(wire::Stream::out, tail), err(wire::Stream::err, tail) {}

  OutputPipe& pipe(wire::Stream stream) { return stream == wire::Stream::err ? err : out; }
  std::array<OutputPipe*, 2> pipes() { return {&out, &err}; }
  /// From now on each tail keeps at most so many bytes.
  void shrink(std::size_t bytes) {
    for (OutputPipe* pipe : pipes()) pipe->tail.shrink(bytes);
  }
  /// The streams of a rank that is restarted go on where those of `former` ended, and keep its last
  /// bytes for `meshbus logs`.
  void continue_from(ProcOutput& former) {
    continue_from(out, former.out);
    continue_from(err, former.err);
  }

  OutputPipe out;
  OutputPipe err;
  /// Where the spool keeps the output; 0: nowhere.
  std::uint32_t slot = 0;
  bool is_ended = false;

 private:
  static void continue_from(OutputPipe& to, OutputPipe& from) {
    to.before = {.read = from.at.read, .file = from.at.file};
    to.at = to.before;
    if (from.tail.end() == to.before.read) {
      to.tail.continue_from(std::move(from.tail));
    } else {
      to.tail.start_at(to.before.read);
    }
  }
};

/// Writing end of the stdin of a proc. Written by InputWriter.
struct InputPipe {
  enum class State { none, open, closed };  ///< none: stdin is not a pipe.

  State state = State::none;
  UniqueFd fd;  ///< Empty before the birth.
  std::string pending;
  bool is_end_after = false;
  /// Answers the WriteInput under way. Empty: there is none.
  std::function<void(Result<void>)> done;
};

}  // namespace meshbus::host
