#include "cli/watch/logs_command.h"

#include <CLI/CLI.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/output_writer.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/terminal_text.h"
#include "cli/support/text_error.h"
#include "cli/watch/line_assembler.h"
#include "cli/watch/line_folder.h"
#include "common/base/quantity.h"
#include "common/base/taken_signals.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LogsArguments {
  HostChoice hosts;
  /// None: the only mesh that there is.
  MeshChoice meshes;
  RankSet ranks;
  /// None: as many as hosts keep in memory.
  std::optional<std::uint64_t> tail;
  bool follow = false;
  bool fold = false;
  bool out = false;
  bool err = false;
  bool raw = false;
};

/// With -f, a line waits so long for the same line of other ranks.
constexpr std::chrono::milliseconds kFoldWait{200};
/// What is left to print after a signal gets so long.
constexpr std::chrono::milliseconds kLastWords{200};

const char* stream_name(Stream stream) {
  return stream == Stream::err ? "stderr" : "stdout";
}

/// Shows pieces as they come. Its handlers run on the library's thread; the main thread looks after
/// signals and time.
class LogPrinter {
 public:
  LogPrinter(const LogsArguments& arguments, const std::vector<MeantRanks>& meant)
      : arguments_(arguments), writer_({}), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
    std::map<std::string, std::size_t> bases;
    for (const auto& one : meant) ++bases[base_of(one.mesh->name)];
    for (const auto& one : meant) {
      const auto base = base_of(one.mesh->name);
      add_source(*one.mesh, bases[base] > 1 ? one.mesh->name : base, meant.size() > 1);
    }
  }

  /// It is over when so many streams are.
  void expect(std::size_t streams) {
    const std::lock_guard lock(mutex_);
    expected_ = streams;
    if (streams == 0) how_ = Result<void>();
    if (streams == 0) wake();
  }
  /// Readable when all is over.
  int fd() const { return event_.get(); }

  /// `mesh`: its place among those that are meant.
  void on_piece(std::size_t mesh, const LogPiece& piece) {
    const std::lock_guard lock(mutex_);
    missed_ += piece.missed;
    if (arguments_.raw) {
      write(piece.stream, piece.bytes);
    } else {
      sources_[mesh]->lines.add(piece);
      if (arguments_.follow || text_[0].size() + text_[1].size() > kBatch) write_out();
    }
    if (writer_.error() != 0) wake();
  }
  void on_end(const Result<void>& how) {
    {
      const std::lock_guard lock(mutex_);
      if (!how) how_ = how;
      if (--expected_ > 0) return;
      if (!how_) how_ = how;
      flush();
    }
    wake();
  }
  /// Lets go of folded lines that have waited long enough; false: the printer is at work, try
  /// again.
  bool flush_old() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    for (const auto& source : sources_)
      source->folder.flush(std::chrono::steady_clock::now() - kFoldWait);
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
  /// The lines of one mesh.
  struct Source {
    const MeshReport& mesh;
    /// What stands before each rank's lines.
    std::vector<std::string> prefixes;
    /// What stands before the ranks of a folded line; with several meshes only.
    std::string label;
    LineFolder folder;
    LineAssembler lines;
  };

  void add_source(const MeshReport& mesh, const std::string& label, bool is_one_of_several) {
    const auto index = sources_.size();
    auto prefixes = arguments_.raw || arguments_.hosts.json
                        ? std::vector<std::string>()
                        : make_prefixes(label, mesh.region.extent());
    sources_.push_back(std::unique_ptr<Source>(new Source{
        mesh, std::move(prefixes), is_one_of_several ? label + " " : "",
        LineFolder([this, index](Stream stream, const RankSet& ranks, const std::string& text) {
          on_folded(*sources_[index], stream, ranks, text);
        }),
        LineAssembler(
            [this, index](ShownLine line) { on_line(*sources_[index], std::move(line)); })}));
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
  }
  void flush() {
    for (const auto& source : sources_) {
      source->lines.finish();
      source->folder.flush();
    }
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
  /// A terminal does what its bytes say, and other people's ranks wrote these.
  std::string safe(Stream stream, const std::string& line) const {
    return is_terminal_[stream == Stream::err ? 1 : 0] ? for_terminal(line) : line;
  }
  std::string prefix_of(const Source& source, const ShownLine& line) const {
    const bool is_coloured = has_colours_[line.stream == Stream::err ? 1 : 0];
    return in_colour(is_coloured ? colour_of_rank(line.rank) : Colour::none,
                     source.prefixes[line.rank]);
  }
  void on_line(Source& source, ShownLine line) {
    if (arguments_.fold) {
      source.folder.add(line.rank, line.stream, std::move(line.text),
                        std::chrono::steady_clock::now());
    } else if (arguments_.hosts.json) {
      Json json = {{"mesh", source.mesh.name},
                   {"rank", line.rank},
                   {"stream", stream_name(line.stream)},
                   {"offset", line.offset}};
      json["missed"] = line.missed;
      json["line"] = line.text;
      put(Stream::out, dump(json) + "\n");
    } else {
      put(line.stream, prefix_of(source, line) + safe(line.stream, line.text) + "\n");
    }
  }
  void on_folded(const Source& source, Stream stream, const RankSet& ranks,
                 const std::string& text) {
    if (arguments_.hosts.json) {
      const Json json = {{"mesh", source.mesh.name},
                         {"ranks", to_string(ranks)},
                         {"stream", stream_name(stream)},
                         {"line", text}};
      put(Stream::out, dump(json) + "\n");
    } else {
      put(stream, "[" + source.label + to_string(ranks) + "] " + safe(stream, text) + "\n");
    }
    if (text_[0].size() + text_[1].size() > kBatch) write_out();
  }

  const LogsArguments& arguments_;
  mutable std::mutex mutex_;
  OutputWriter writer_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::array<bool, 2> is_terminal_{::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1};
  std::array<bool, 2> has_colours_{has_colours(STDOUT_FILENO), has_colours(STDERR_FILENO)};
  std::string text_[2];  // to be written: stdout, stderr
  std::uint64_t missed_ = 0;
  std::optional<Result<void>> how_;
  std::size_t expected_ = 0;  // streams that go on
  UniqueFd event_;
};

/// Waits for the end, or for a signal: that one is returned.
std::optional<int> wait_end(LogPrinter& printer, TakenSignals& signals, bool folds) {
  for (;;) {
    pollfd fds[2] = {{signals.fd(), POLLIN, 0}, {printer.fd(), POLLIN, 0}};
    ::poll(fds, 2, folds ? static_cast<int>(kFoldWait.count()) / 2 : -1);
    if (const auto signal = signals.next()) return signal;
    if (fds[1].revents != 0) return std::nullopt;
    if (folds) printer.flush_old();
  }
}

/// What to ask a part of the hosts for.
struct LogOrder {
  const HostMesh* part;
  /// Its place among those that are meant.
  std::size_t mesh;
  LogOptions options;
};

/// Asks each part for the ranks that it has.
void add_log_orders(const ReachedHosts& hosts, std::size_t index, const MeshReport& mesh,
                    const LogOptions& options, std::vector<LogOrder>& orders) {
  if (hosts.parts.size() == 1 && !hosts.has_silent()) {
    orders.push_back({&hosts.parts.front(), index, options});
    return;
  }
  for (const auto& part : hosts.parts) {
    std::vector<std::uint64_t> ranks;
    for (const auto& rank : mesh.ranks) {
      const bool is_here =
          std::find(part.hosts().begin(), part.hosts().end(), rank.host) != part.hosts().end();
      if (is_here && is_meant(options.ranks, rank.rank)) ranks.push_back(rank.rank);
    }
    if (ranks.empty()) continue;
    orders.push_back({&part, index, options});
    orders.back().options.ranks = to_rank_set(ranks);
  }
}

int logs(const LogsArguments& arguments) {
  TakenSignals signals({SIGINT, SIGTERM, SIGHUP});
  ::signal(SIGPIPE, SIG_IGN);

  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  const auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = choose_meshes(hosts.listing, arguments.meshes, Among::all);
  if (meant.all.empty()) return meant.code;
  if (!meant.all.front().ranks.empty() && !arguments.ranks.empty()) {
    complain("logs: ranks are named twice: by --rank, and in '" + arguments.meshes.selector + "'");
    return kUsage;
  }

  LogPrinter printer(arguments, meant.all);
  LogOptions options;
  options.out = arguments.out || !arguments.err;
  options.err = arguments.err || !arguments.out;
  options.tail = arguments.tail.value_or(options.tail);
  options.follow = arguments.follow;
  std::vector<LogOrder> orders;
  for (std::size_t i = 0; i < meant.all.size(); ++i) {
    options.ranks = meant.all[i].ranks.empty() ? arguments.ranks : meant.all[i].ranks;
    add_log_orders(hosts, i, *meant.all[i].mesh, options, orders);
  }
  printer.expect(orders.size());
  std::vector<LogStream> streams;
  for (const auto& order : orders) {
    auto stream =
        order.part->logs(*meant.all[order.mesh].mesh, order.options,
                         {.on_piece = [&printer, mesh = order.mesh](
                                          const LogPiece& piece) { printer.on_piece(mesh, piece); },
                          .on_end = [&printer](const Result<void>& how) { printer.on_end(how); }});
    if (!stream) {
      complain(stream.error().detail());
      return kFailed;
    }
    streams.push_back(std::move(*stream));
  }
  if (const auto signal = wait_end(printer, signals, arguments.fold && arguments.follow)) {
    // A second signal does what it does to any program.
    signals.release();
    // What has come is shown, unless nobody reads it: then the library's thread waits in its write
    // and cannot be joined.
    const auto give_up = std::chrono::steady_clock::now() + kLastWords;
    while (!printer.flush_all() && std::chrono::steady_clock::now() < give_up)
      ::poll(nullptr, 0, 5);
    ::_exit(128 + *signal);
  }
  if (const int error = printer.error(); error != 0) {
    if (error != EPIPE)
      complain(std::string("the output cannot be written: ") + std::strerror(error));
    ::_exit(error == EPIPE ? kBrokenPipe : 1);
  }
  if (const auto missed = printer.missed(); missed > 0)
    complain(std::to_string(missed) +
             " bytes were missed: not kept any more, or written faster than they were read here");
  const auto how = printer.how();
  if (how && *how) return hosts.has_silent() ? kFailed : 0;
  complain(how->error().detail());
  return kFailed;
}

}  // namespace

void add_logs(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<LogsArguments>();
  auto& verb = commands.add(
      app, "logs",
      {.meaning = "Show what the ranks of a mesh wrote, also after they have ended",
       .examples = {"logs train", "logs train --rank 0-3 --stderr --tail 20",
                    "logs -f --fold train"},
       .details =
           "What a rank has written is shown by stream: its stdout, then its stderr. With -f lines "
           "come as they are written.\n\n"
           "Lines longer than 64 KiB are cut and marked [N bytes cut]. A slow reader slows no "
           "rank: what it missed is marked [N bytes missed]. On a terminal control characters are "
           "escaped. --raw shows exact bytes, without prefixes and marks.\n\n"
           "--fold shows a line that several ranks wrote once, as [0-5,7] text. The lines shown "
           "with a rank, read from top to bottom, are exactly the lines that this rank wrote to "
           "that "
           "stream, in order: lines are only brought together where that keeps the order of every "
           "rank. Of the lines that may come next, one that no other rank writes later goes first, "
           "else the oldest. With -f a line waits 200 ms for the same line of other ranks; without "
           "-f, until the end. At most 4 MiB wait.",
       .exit_codes = "0; 1 no such mesh or rank, or a host that does not answer; 130 Ctrl-C; 141 "
                     "nobody reads the output"},
      [arguments] { return logs(*arguments); });
  add_host_choice(verb, arguments->hosts);
  add_mesh_choice(verb, arguments->meshes,
                  "A mesh, with or without its uuid, or ranks of it: train[0-5,7]; 'train*': all "
                  "of that pattern; default: the only mesh that there is");
  verb.add_flag("-f,--follow", arguments->follow,
                "Go on with what they write from now on, until they have ended");
  add_text(
      verb, "--tail",
      [arguments = arguments.get()](const std::string& text) -> Result<void> {
        const auto lines = parse_whole(text);
        if (!lines && text != "all")
          return fail(ErrorCode::parse_error, "takes a number of lines or all, not '" + text + "'");
        arguments->tail = lines.value_or(UINT64_MAX);
        return {};
      },
      "Last lines of each stream; all = all that is kept, in files too; default 100", "N|all");
  add_ranks(verb, arguments->ranks);
  verb.add_flag("--stdout", arguments->out, "Only stdout");
  verb.add_flag("--stderr", arguments->err, "Only stderr");
  auto* fold = verb.add_flag("--fold", arguments->fold,
                             "Show a line that several ranks wrote once, with the ranks in front");
  verb.add_flag("--raw", arguments->raw, "Exact bytes")
      ->excludes(fold)
      ->excludes(verb.get_option("--json"));
}

}  // namespace meshbus::cli
