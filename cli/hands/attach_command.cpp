#include "cli/hands/attach_command.h"

#include <CLI/CLI.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>

#include "cli/hands/hand_options.h"
#include "cli/hands/hand_signals.h"
#include "cli/hands/rank_input.h"
#include "cli/hands/rank_text.h"
#include "cli/hands/shown_stream.h"
#include "cli/support/choose_mesh.h"
#include "cli/support/exit_codes.h"
#include "cli/support/output_writer.h"
#include "cli/support/text_error.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

struct AttachArguments {
  HostChoice hosts;
  std::string rank;
  std::uint64_t tail = 0;
  bool wants_no_input = false;
  bool closes_input = false;
  bool is_raw = false;
};

/// From the end of what a rank writes to its exit report.
constexpr std::chrono::seconds kReportWait{5};
constexpr int kReportStepMs = 100;

/// Shows what the rank writes. Its handlers run on the library's thread, run() on the main one.
class AttachedOutput {
 public:
  explicit AttachedOutput(bool is_raw) : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
      is_escaped_[fd == STDERR_FILENO ? 1 : 0] = !is_raw && ::isatty(fd) != 0;
  }

  LogHandlers handlers() {
    return {.on_piece = [this](const LogPiece& piece) { on_piece(piece); },
            .on_end = [this](const Result<void>& how) { on_end(how); }};
  }
  /// Until the rank has ended: nothing; or a signal, or EPIPE and the like.
  std::optional<int> wait_end(HandSignals& signals) const {
    while (true) {
      std::array<pollfd, 2> fds{{{signals.fd(), POLLIN, 0}, {event_.get(), POLLIN, 0}}};
      ::poll(fds.data(), fds.size(), -1);
      while (const auto signal = signals.next()) {
        if (*signal != SIGWINCH) return signal;
      }
      if (fds[1].revents != 0) return std::nullopt;
    }
  }
  /// Valid when wait_end() has returned nothing.
  Result<void> how() const {
    const std::lock_guard lock(mutex_);
    return how_;
  }
  int error() const {
    const std::lock_guard lock(mutex_);
    return writer_.error();
  }
  std::uint64_t missed() const {
    const std::lock_guard lock(mutex_);
    return missed_;
  }

 private:
  void on_piece(const LogPiece& piece) {
    const std::lock_guard lock(mutex_);
    missed_ += piece.missed;
    const std::size_t index = piece.stream == Stream::err ? 1 : 0;
    if (!is_escaped_[index]) {
      writer_.write(0, piece.stream, piece.bytes);
    } else {
      auto text = shown_[index].add(piece.bytes);
      if (piece.is_last) text += shown_[index].rest();
      writer_.write(0, piece.stream, text);
    }
    if (writer_.error() != 0) wake();
  }
  void on_end(const Result<void>& how) {
    const std::lock_guard lock(mutex_);
    how_ = how;
    wake();
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
  }

  mutable std::mutex mutex_;
  OutputWriter writer_{{}};
  std::array<ShownStream, 2> shown_;  ///< stdout, stderr
  std::array<bool, 2> is_escaped_{};
  std::uint64_t missed_ = 0;
  Result<void> how_;
  UniqueFd event_;
};

/// The exit code of the rank, which has written all that it will.
int code_of(const AttachArguments& arguments, const std::string& rank_name) {
  const auto give_up = std::chrono::steady_clock::now() + kReportWait;
  do {
    auto reached = reach_hosts(arguments.hosts);
    if (const int* code = std::get_if<int>(&reached)) return *code;
    const auto meant = choose_ranks(std::get<ReachedHosts>(reached).listing, rank_name, Among::all);
    if (meant.mesh == nullptr) return kFailed;
    for (const auto& rank : meant.mesh->ranks) {
      if (is_meant(meant.ranks, rank.rank) && rank.is_terminal()) return rank.shell_code();
    }
    ::poll(nullptr, 0, kReportStepMs);
  } while (std::chrono::steady_clock::now() < give_up);
  complain(rank_name + ": it writes nothing more, and has not ended");
  return kFailed;
}

int follow(const AttachArguments& arguments, HandRanks& ranks, HandSignals& signals) {
  const RankReport& rank = ranks.ranks.front();
  const auto name = ranks.name_of(rank);
  const auto part =
      std::find_if(ranks.hosts.parts.begin(), ranks.hosts.parts.end(), [&](const HostMesh& hosts) {
        return std::find(hosts.hosts().begin(), hosts.hosts().end(), rank.host) !=
               hosts.hosts().end();
      });
  if (part == ranks.hosts.parts.end()) {
    complain(name + ": its host " + rank.host.to_string() + " does not answer");
    return kHostLost;
  }
  AttachedOutput output(arguments.is_raw);
  const auto stream = part->logs(
      ranks.mesh, {.ranks = to_rank_set({rank.rank}), .tail = arguments.tail, .follow = true},
      output.handlers());
  if (!stream) {
    complain(name + ": " + stream.error().to_string());
    return kOwnFailure;
  }
  std::unique_ptr<RankInput> input;
  if (!arguments.wants_no_input) {
    auto started = RankInput::start(
        ranks.hosts.context.core(), ranks.mesh.name, rank,
        {.closes = arguments.closes_input,
         .on_stopped = [name](const std::string& why) { complain(name + ": " + why); }});
    if (!started) {
      complain(name + ": " + started.error().to_string());
      return kOwnFailure;
    }
    input = std::move(*started);
  }
  int code = 0;
  if (const auto signal = output.wait_end(signals)) {
    code = by_signal(*signal);
  } else if (output.error() != 0) {
    code = output.error() == EPIPE ? kBrokenPipe : kFailed;
    if (code == kFailed)
      complain(std::string("the output cannot be written: ") + std::strerror(output.error()));
  } else if (const auto how = output.how(); !how) {
    complain(name + ": " + how.error().detail());
    code = how.error().code() == ErrorCode::host_unreachable ? kHostLost : kOwnFailure;
  } else {
    code = code_of(arguments, ranks.mesh.name + "[" + std::to_string(rank.rank) + "]");
  }
  if (const auto missed = output.missed(); missed > 0)
    complain(std::to_string(missed) +
             " bytes were missed: written faster than they were read here");
  // The thread that reads our stdin cannot be joined.
  ::_exit(code);
}

int run(const AttachArguments& arguments) {
  HandSignals signals;
  auto chosen = choose_hand_ranks(arguments.hosts, arguments.rank);
  if (const int* code = std::get_if<int>(&chosen)) return *code;
  auto& ranks = std::get<HandRanks>(chosen);
  if (ranks.ranks.size() != 1) {
    complain("attach is to one rank; " + arguments.rank + " are " +
             std::to_string(ranks.ranks.size()) + ", see meshbus logs -f");
    return kUsage;
  }
  return follow(arguments, ranks, signals);
}

}  // namespace

void add_attach(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<AttachArguments>();
  auto& verb = commands.add(
      app, "attach",
      {.meaning = "Follow what one rank writes, and give it our stdin",
       .examples = {"attach train:0", "attach --tail 20 --no-stdin train:3"},
       .details =
           "Ctrl-C leaves the rank as it is; `meshbus signal INT` is for the rank. It takes input "
           "if its stdin is open: `meshbus run --stdin all`, or its number, with the stdin of run "
           "still open. The end of our stdin leaves the rank's open, unless --close. What it wrote "
           "before is not shown without --tail. On a terminal control "
           "characters are escaped. `meshbus exec` gives a terminal; this does not.",
       .exit_codes = "that of the rank when it has ended, 128 + its signal; 123 its host was lost; "
                     "125 it cannot be followed; 130 Ctrl-C; 141 nobody reads the output"},
      [arguments] { return run(*arguments); });
  verb.add_option("RANKS", arguments->rank, "One rank: train:3, 'train[host=1,gpu=0]'")->required();
  add_text(
      verb, "--tail",
      [arguments = arguments.get()](const std::string& text) -> Result<void> {
        const auto lines = parse_whole(text);
        if (!lines)
          return fail(ErrorCode::parse_error, "takes a number of lines, not '" + text + "'");
        arguments->tail = *lines;
        return {};
      },
      "Begin with the last lines of each stream; default 0", "N");
  auto* no_input =
      verb.add_flag("-n,--no-stdin", arguments->wants_no_input, "Leave our stdin alone");
  verb.add_flag("--close", arguments->closes_input,
                "Close the rank's stdin at the end of ours (Ctrl-D); otherwise it stays open")
      ->excludes(no_input);
  verb.add_flag("--raw", arguments->is_raw, "Exact bytes, on a terminal too");
  add_hand_hosts(verb, arguments->hosts);
}

}  // namespace meshbus::cli
