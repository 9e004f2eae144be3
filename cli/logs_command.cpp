#include "cli/logs_command.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/choose_mesh.h"
#include "cli/hosts_command.h"
#include "cli/line_assembler.h"
#include "cli/line_folder.h"
#include "cli/output_writer.h"
#include "cli/rank_json.h"
#include "cli/text_error.h"
#include "common/base/did_you_mean.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// With -f, a line waits so long for the same line of other ranks.
constexpr std::chrono::milliseconds kFoldWait{200};
/// What is left to print after a signal gets so long.
constexpr std::chrono::milliseconds kLastWords{200};

const char* stream_name(Stream stream) {
  return stream == Stream::err ? "stderr" : "stdout";
}

/// Shows pieces as they come. Its handlers run on the library's thread; the main thread looks after signals and time.
class LogPrinter {
 public:
  LogPrinter(const LogsArguments& arguments, const MeshReport& mesh)
      : arguments_(arguments),
        mesh_(mesh),
        writer_({}),
        folder_([this](Stream stream, const RankSet& ranks, const std::string& text) { on_folded(stream, ranks, text); }),
        lines_([this](ShownLine line) { on_line(std::move(line)); }),
        event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
    if (!arguments.raw && !arguments.hosts.json) prefixes_ = make_prefixes(base_of(mesh.name), mesh.region.extent());
  }

  /// Readable when all is over.
  int fd() const { return event_.get(); }

  void on_piece(const LogPiece& piece) {
    const std::lock_guard lock(mutex_);
    missed_ += piece.missed;
    if (arguments_.raw) {
      write(piece.stream, piece.bytes);
    } else {
      lines_.add(piece);
      if (arguments_.follow || text_[0].size() + text_[1].size() > kBatch) write_out();
    }
    if (writer_.error() != 0) wake();
  }
  void on_end(const Result<void>& how) {
    {
      const std::lock_guard lock(mutex_);
      how_ = how;
      flush();
    }
    wake();
  }
  /// Lets go of folded lines that have waited long enough; false: the printer is at work, try again.
  bool flush_old() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    folder_.flush(std::chrono::steady_clock::now() - kFoldWait);
    write_out();
    return true;
  }
  /// The same for all that is begun.
  bool flush_all() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) flush();
    return lock.owns_lock();
  }
  std::optional<Result<void>> how() const {
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
  static constexpr std::size_t kBatch = 64 * 1024;

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
  }
  void flush() {
    lines_.finish();
    folder_.flush();
    write_out();
  }
  void write(Stream stream, std::string_view bytes) { writer_.write(0, stream, bytes); }
  void write_out() {
    for (const Stream stream : {Stream::out, Stream::err}) {
      auto& text = text_[stream == Stream::err ? 1 : 0];
      if (!text.empty()) write(stream, text);
      text.clear();
    }
    if (writer_.error() != 0) wake();
  }
  /// What goes to stderr follows what went to stdout before, and the other way round.
  void put(Stream stream, std::string_view text) {
    if (!text_[stream == Stream::err ? 0 : 1].empty()) write_out();
    text_[stream == Stream::err ? 1 : 0] += text;
  }
  void on_line(ShownLine line) {
    if (arguments_.fold) {
      folder_.add(line.rank, line.stream, std::move(line.text), std::chrono::steady_clock::now());
    } else if (arguments_.hosts.json) {
      Json json = {{"mesh", mesh_.name}, {"rank", line.rank}, {"stream", stream_name(line.stream)}, {"offset", line.offset}};
      json["missed"] = line.missed;
      json["line"] = line.text;
      put(Stream::out, dump(json) + "\n");
    } else {
      put(line.stream, prefixes_[line.rank] + line.text + "\n");
    }
  }
  void on_folded(Stream stream, const RankSet& ranks, const std::string& text) {
    if (arguments_.hosts.json) {
      const Json json = {{"mesh", mesh_.name}, {"ranks", to_string(ranks)}, {"stream", stream_name(stream)}, {"line", text}};
      put(Stream::out, dump(json) + "\n");
    } else {
      put(stream, "[" + to_string(ranks) + "] " + text + "\n");
    }
    if (text_[0].size() + text_[1].size() > kBatch) write_out();
  }

  const LogsArguments& arguments_;
  const MeshReport& mesh_;
  std::vector<std::string> prefixes_;
  mutable std::mutex mutex_;
  OutputWriter writer_;
  LineFolder folder_;
  LineAssembler lines_;
  std::string text_[2];  // to be written: stdout, stderr
  std::uint64_t missed_ = 0;
  std::optional<Result<void>> how_;
  UniqueFd event_;
};

/// Waits for the end, or for a signal: that one is returned.
std::optional<int> wait_end(LogPrinter& printer, int signals, bool folds) {
  for (;;) {
    pollfd fds[2] = {{signals, POLLIN, 0}, {printer.fd(), POLLIN, 0}};
    ::poll(fds, 2, folds ? static_cast<int>(kFoldWait.count()) / 2 : -1);
    signalfd_siginfo info{};
    if (fds[0].revents != 0 && ::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      return static_cast<int>(info.ssi_signo);
    if (fds[1].revents != 0) return std::nullopt;
    if (folds) printer.flush_old();
  }
}

}  // namespace

int logs_command(const LogsArguments& arguments) {
  // Before any thread exists: threads made later never see these.
  sigset_t taken;
  sigemptyset(&taken);
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&taken, one);
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  const UniqueFd signals(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) throw std::system_error(errno, std::generic_category(), "signalfd");

  auto attached = attach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  const auto& hosts = std::get<AttachedHosts>(attached).hosts;
  auto listing = hosts.meshes(arguments.hosts.timeout);
  if (!listing) {
    complain(listing.error().to_string());
    return 1;
  }
  for (const auto& host : listing->unreachable) complain("host " + host.host.to_string() + " does not answer: " + host.problem);
  const MeshReport* const mesh = choose_mesh(*listing, arguments.mesh);
  if (mesh == nullptr) return 1;

  LogPrinter printer(arguments, *mesh);
  LogOptions options;
  options.ranks = arguments.ranks;
  options.out = arguments.out || !arguments.err;
  options.err = arguments.err || !arguments.out;
  options.tail = arguments.tail.value_or(options.tail);
  options.follow = arguments.follow;
  auto stream = hosts.logs(*mesh, options,
                           {.on_piece = [&printer](const LogPiece& piece) { printer.on_piece(piece); },
                            .on_end = [&printer](const Result<void>& how) { printer.on_end(how); }});
  if (!stream) {
    complain(stream.error().detail());
    return 1;
  }
  if (const auto signal = wait_end(printer, signals.get(), arguments.fold && arguments.follow)) {
    // A second signal does what it does to any program.
    ::sigprocmask(SIG_UNBLOCK, &taken, nullptr);
    // What has come is shown, unless nobody reads it: then the library's thread waits in its write and cannot be joined.
    const auto give_up = std::chrono::steady_clock::now() + kLastWords;
    while (!printer.flush_all() && std::chrono::steady_clock::now() < give_up) ::poll(nullptr, 0, 5);
    ::_exit(128 + *signal);
  }
  if (const int error = printer.error(); error != 0) {
    if (error != EPIPE) complain(std::string("the output cannot be written: ") + std::strerror(error));
    ::_exit(error == EPIPE ? kBrokenPipe : 1);
  }
  if (const auto missed = printer.missed(); missed > 0)
    complain(std::to_string(missed) + " bytes were missed: not kept any more, or written faster than they were read here");
  const auto how = printer.how();
  if (how && *how) return listing->unreachable.empty() ? 0 : 1;
  complain(how->error().detail());
  return 1;
}

}  // namespace meshbus::cli
