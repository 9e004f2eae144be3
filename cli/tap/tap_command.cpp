#include "cli/tap/tap_command.h"

#include <CLI/CLI.hpp>

#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>

#include <zmq.hpp>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/text_error.h"
#include "cli/tap/tap_file.h"
#include "cli/tap/tap_printer.h"
#include "cli/tap/tap_replay.h"
#include "common/base/quantity.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "common/loop/zmq_watch.h"
#include "common/wire/frame.h"
#include "common/wire/tap_filter.h"

namespace meshbus::cli {
namespace {

namespace fs = std::filesystem;

/// A broker with a tap says something at once, and then once a second.
constexpr std::chrono::seconds kFirstWord{5};
constexpr std::chrono::seconds kSilence{5};
/// What waits here when the output is slow: 64 MiB, more with large bodies. What is above is
/// missed, and told.
constexpr int kMostUnread = 1024;
constexpr std::int64_t kPartLimitOfTap = 8 * 1024 * 1024;

/// The tap's socket beside that of the broker, checked to be there and ours.
Result<std::string> socket_beside(const HostAddr& host) {
  const fs::path path(host.path());
  if (host.transport() != Transport::unix_socket || host.is_any() || host.path().starts_with('@'))
    return fail(ErrorCode::configuration_error,
                "a tap needs the unix socket of a host on this machine, not " + host.to_string());
  const std::string socket =
      path.filename() == "tap" ? path.string() : (path.parent_path() / "tap").string();
  struct stat status{};
  if (::lstat(socket.c_str(), &status) != 0)
    return fail(ErrorCode::not_exist, "no tap at " + socket + ": " + std::strerror(errno) +
                                          "; the host has ended, or its broker runs without --tap");
  if (!S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid())
    return fail(ErrorCode::unauthorised,
                socket + " is no socket of yours; a host is tapped by the user it runs as");
  return socket;
}

/// The messages of one tap, as they come.
class Subscriber {
 public:
  Subscriber(zmq::context_t& context, const std::string& path, const std::string& topic)
      : socket_(context, zmq::socket_type::sub) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvhwm, kMostUnread);
    socket_.set(zmq::sockopt::maxmsgsize, kPartLimitOfTap);
    socket_.connect("ipc://" + path);
    socket_.set(zmq::sockopt::subscribe, topic);
  }
  zmq::socket_t& socket() { return socket_; }
  /// The next batch, if one has come. Errors: malformed_message.
  Result<std::optional<TapBatch>> next() {
    zmq::message_t topic, body;
    if (!socket_.recv(topic, zmq::recv_flags::dontwait)) return std::nullopt;
    // The last part, however many there are.
    for (bool more = topic.more(); more && socket_.recv(body, zmq::recv_flags::dontwait);)
      more = body.more();
    auto batch = TapBatch::decode(bytes_of(body.data(), body.size()));
    if (!batch) return fail(batch.error());
    return std::optional(std::move(*batch));
  }

 private:
  zmq::socket_t socket_;
};

/// The tap of the host of that address: a unix socket says where, for other
/// addresses the hosts of this user here are asked for theirs.
Result<std::string> find_socket(const std::string& word) {
  if (word.empty()) {
    const auto hosts = local_hosts();
    if (hosts.size() == 1) return socket_beside(hosts.front().socket);
    std::string list;
    for (const auto& host : hosts) list += "\n  " + host.socket.to_string();
    return fail(ErrorCode::configuration_error,
                hosts.empty()
                    ? "no host of yours runs on this machine"
                    : "several hosts of yours run on this machine; choose one with --host:" + list);
  }
  const auto address = HostAddr::parse(word);
  if (!address) return fail(address.error().within("--host " + word));
  if (address->transport() == Transport::unix_socket) return socket_beside(*address);
  for (const auto& host : local_hosts()) {
    const auto socket = socket_beside(host.socket);
    if (!socket) continue;
    zmq::context_t context{1};
    // An empty filter that takes nothing: only the first word is of interest.
    Subscriber subscriber(context, *socket, tap_topic(0, "size<0"));
    zmq::pollitem_t item{subscriber.socket().handle(), 0, ZMQ_POLLIN, 0};
    if (zmq::poll(&item, 1, std::chrono::seconds(1)) <= 0) continue;
    const auto batch = subscriber.next();
    if (batch && *batch && (**batch)->host()->string_view() == address->to_string()) return *socket;
  }
  return fail(ErrorCode::not_exist, "no host of yours on this machine is known as " +
                                        address->to_string() + "; a tap works where its host runs");
}

/// Where copies go: to the screen, or into a file.
class Sink {
 public:
  Sink(const TapArguments& arguments, std::optional<TapFileWriter> file)
      : count_(arguments.count), file_(std::move(file)), printer_(arguments.json) {
    if (!file_) out_ = printer_.header();
  }
  /// False when it was the last one: enough, or it cannot be written.
  bool take(const TapBatch& batch) {
    names_.learn(batch);
    const std::uint64_t missed = counter_.missed_before(batch);
    if (file_) {
      if (const auto written = file_->append(batch); !written) {
        error_ = written.error();
        return false;
      }
      taken_ = counter_.seen();
      return !count_ || taken_ < *count_;
    }
    if (counter_.is_interrupted()) out_ += printer_.interrupted_line();
    if (missed > 0) out_ += printer_.missed_line(missed);
    for (const TapMessage& message : batch.messages()) {
      if (!is_wanted(message)) continue;
      out_ += printer_.line(message, names_, batch->host()->string_view());
      if (count_ && ++taken_ >= *count_) {
        write_out();
        return false;
      }
    }
    return write_out();
  }
  /// Looks at each message once more: those of a file were chosen by another filter.
  void filter_by(const TapFilter& filter) { filter_ = &filter; }
  /// 0; 1 when something could not be written; 141 when nobody reads it.
  int code() const { return is_pipe_broken_ ? kBrokenPipe : error_ ? 1 : 0; }
  const std::optional<Error>& error() const { return error_; }
  const TapCount& counter() const { return counter_; }
  std::uint64_t shown() const { return file_ || !count_ ? counter_.seen() : taken_; }
  bool write_out() {
    std::string_view left = out_;
    while (!left.empty()) {
      const auto n = ::write(STDOUT_FILENO, left.data(), left.size());
      if (n >= 0) {
        left.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno != EINTR) {
        is_pipe_broken_ = errno == EPIPE;
        error_ = Error(ErrorCode::io_error,
                       std::string("the output cannot be written: ") + std::strerror(errno));
        return false;
      }
    }
    out_.clear();
    return true;
  }

 private:
  bool is_wanted(const TapMessage& message) const {
    return filter_ == nullptr || filter_->matches(message.envelope, [this](std::uint64_t key) {
      return names_.find(key);
    });
  }

  std::optional<std::uint64_t> count_;
  std::optional<TapFileWriter> file_;
  TapPrinter printer_;
  TapNames names_;
  TapCount counter_;
  const TapFilter* filter_ = nullptr;
  std::uint64_t taken_ = 0;
  std::string out_;
  std::optional<Error> error_;
  bool is_pipe_broken_ = false;
};

/// Copies from a broker until a signal ends it.
class LiveTap {
 public:
  LiveTap(const TapArguments& arguments, std::string path, Sink sink)
      : path_(std::move(path)),
        sink_(std::move(sink)),
        subscriber_(context_, path_, tap_topic(arguments.bodies, arguments.filter)) {}
  ~LiveTap() { reactor_.forget_socket(subscriber_.socket().handle()); }
  LiveTap(const LiveTap&) = delete;
  LiveTap& operator=(const LiveTap&) = delete;

  int run(int signals) {
    reactor_.watch(signals, EPOLLIN, [this, signals](std::uint32_t) {
      signalfd_siginfo info{};
      if (::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
        end(128 + static_cast<int>(info.ssi_signo));
    });
    watch_zmq(reactor_, subscriber_.socket().handle(), [this] { return on_readable(); });
    look_later(kFirstWord);
    if (sink_.write_out()) reactor_.run();
    reactor_.forget(signals);
    const TapCount& counter = sink_.counter();
    if (sink_.error() && sink_.code() == 1) complain(sink_.error()->detail());
    if (is_tapping_)
      std::cerr << "meshbus: " << sink_.shown() << " messages, " << counter.missed() << " missed"
                << (counter.missed() > 0 ? ": they came faster than they were taken here" : "")
                << "\n";
    return sink_.code() != 0 ? sink_.code() : code_;
  }

 private:
  void end(int code) {
    code_ = code;
    reactor_.stop();
  }
  bool on_readable() {
    constexpr int most_at_once = 64;
    for (int i = 0; i < most_at_once; ++i) {
      const auto batch = subscriber_.next();
      if (!batch) {
        complain(batch.error().detail());
        end(1);
        return false;
      }
      if (!*batch) return false;
      heard_ = reactor_.now();
      if (const auto* refusal = (**batch)->refusal(); refusal != nullptr) {
        complain("the broker refuses: " + refusal->str());
        end(1);
        return false;
      }
      if (!is_tapping_)
        std::cerr << "meshbus: tapping " << (**batch)->host()->string_view() << std::endl;
      is_tapping_ = true;
      is_silent_ = false;
      if (!sink_.take(**batch)) {
        end(0);
        return false;
      }
    }
    return true;
  }
  void look_later(Reactor::Duration delay) {
    reactor_.after(delay, [this] { look(); });
  }
  void look() {
    if (!is_tapping_) {
      complain("nobody answers at " + path_ + ": its broker has ended, or is stopped");
      end(1);
      return;
    }
    if (reactor_.now() - heard_ >= kSilence && !is_silent_) {
      is_silent_ = true;
      struct stat status{};
      if (::lstat(path_.c_str(), &status) != 0) {
        complain("the host has ended");
        end(0);
        return;
      }
      complain("nothing heard from the broker for 5 s; waiting for it");
    }
    look_later(std::chrono::seconds(1));
  }

  std::string path_;
  Sink sink_;
  Reactor reactor_;
  zmq::context_t context_{1};
  Subscriber subscriber_;
  Reactor::Time heard_{};
  bool is_tapping_ = false;
  bool is_silent_ = false;
  int code_ = 0;
};

int live(const TapArguments& arguments, int signals) {
  auto path = find_socket(arguments.host);
  if (!path) {
    complain(path.error().detail());
    return path.error().code() == ErrorCode::parse_error ? kUsage : 1;
  }
  std::optional<TapFileWriter> file;
  if (!arguments.write.empty()) {
    auto opened = TapFileWriter::open(arguments.write);
    if (!opened) {
      complain(opened.error().detail());
      return 1;
    }
    if (opened->cut() > 0)
      complain(arguments.write + " ended within a record: its last " +
               std::to_string(opened->cut()) + " bytes are cut off");
    file.emplace(std::move(*opened));
  }
  return LiveTap(arguments, std::move(*path), Sink(arguments, std::move(file))).run(signals);
}

int read_file(const TapArguments& arguments, const TapFilter& filter) {
  auto file = TapFileReader::open(arguments.read);
  if (!file) {
    complain(file.error().detail());
    return 1;
  }
  Sink sink(arguments, std::nullopt);
  sink.filter_by(filter);
  for (;;) {
    const auto batch = file->next();
    if (!batch) {
      sink.write_out();
      complain(batch.error().detail());
      return 1;
    }
    if (!*batch) break;
    if (!sink.take(**batch)) break;
  }
  sink.write_out();
  if (sink.code() == 1) complain(sink.error()->detail());
  if (file->torn() > 0)
    complain(arguments.read + " ends within a record: its last " + std::to_string(file->torn()) +
             " bytes are left out");
  return sink.code();
}

int tap(const TapArguments& arguments) {
  const auto filter = TapFilter::parse(arguments.filter);
  if (!filter) {
    complain("--filter: " + filter.error().detail());
    std::cerr << pointed_at(arguments.filter, filter.error());
    return kUsage;
  }
  if (!arguments.replay.empty()) return replay_tap(arguments, *filter);
  ::signal(SIGPIPE, SIG_IGN);
  if (!arguments.read.empty()) return read_file(arguments, *filter);
  // Before any thread exists: threads made later never see these.
  sigset_t taken;
  sigemptyset(&taken);
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&taken, one);
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  const UniqueFd signals(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) throw std::system_error(errno, std::generic_category(), "signalfd");
  return live(arguments, signals.get());
}

}  // namespace

void add_tap(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<TapArguments>();
  auto& verb = commands.add(
      app, "tap",
      {.meaning = "Show the messages that a host's broker passes on; record them, send them again",
       .examples = {"tap --filter 'kind=call|reply size>=64KiB'",
                    "tap --bodies all --write calls.tap", "tap --read calls.tap"},
       .details =
           "A filter is terms with spaces between them, all of which must hold:\n"
           "  from= to= proc=                 a proc by name (train_3-13Se1Maqzryj, train_*),\n"
           "                                  HOST,NAME, key 0x..., or broker\n"
           "  from.host= to.host= host=       a host by address, or by key\n"
           "  kind=                           control message call reply error\n"
           "  lane=                           control data\n"
           "  port= size=                     numbers, also with < <= > >=: size>=64KiB\n"
           "With several values A|B any of them; != for none of them. Names with * are those of "
           "procs at the tapped host.\n\n"
           "A tap shows what peers and links send to procs and other hosts, and what the broker "
           "itself tells procs. A tap never holds the broker up: a slow one misses messages, and "
           "is "
           "told how many. Needs the unix socket of a host of yours on this machine.\n\n"
           "--replay sends messages and calls with their bodies (record with --bodies all) to the "
           "procs of the same names and ports at the host given by --into, as this launcher; it "
           "says "
           "how many were sent, came back, and were skipped, and why. Control messages and answers "
           "are never sent again.",
       .exit_codes = "0; 1 no such host or file; 130 Ctrl-C; 141 nobody reads the output; 143 "
                     "SIGTERM"},
      [arguments] { return tap(*arguments); });
  auto* host = verb.add_option("--host", arguments->host,
                               "The host to tap; default: the only one of yours on this machine")
                   ->type_name("ADDRESS");
  auto* json = verb.add_flag("--json", arguments->json, "Print JSON lines");
  verb.add_option("--filter", arguments->filter, "Which messages; see below")
      ->type_name("EXPRESSION");
  auto* bodies =
      verb.add_option_function<std::string>(
              "--bodies",
              [arguments = arguments.get()](const std::string& text) {
                const auto bytes =
                    text == "all" ? Result<std::uint64_t>(kBodyLimit) : parse_bytes(text);
                if (!bytes)
                  throw CLI::ValidationError("--bodies", bytes.error().detail() + ", or all");
                arguments->bodies =
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(*bytes, kBodyLimit));
              },
              "How much of each body to copy: 64, 4KiB, all; default: nothing")
          ->type_name("BYTES|all");
  auto* count =
      verb.add_option("--count", arguments->count,
                      "End after so many messages; with --write, after the batch that has them")
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62U))
          ->type_name("N");
  auto* write =
      verb.add_option("--write", arguments->write, "Append to this file instead of printing")
          ->type_name("FILE")
          ->excludes(json);
  auto* read =
      verb.add_option("--read", arguments->read, "Print what is in a file that --write wrote")
          ->type_name("FILE");
  auto* replay = verb.add_option("--replay", arguments->replay, "Send what is in such a file again")
                     ->type_name("FILE");
  auto* into =
      verb.add_option("--into", arguments->into, "Where to send it: a host, or a broker alone")
          ->type_name("ADDRESS")
          ->needs(replay);
  replay->needs(into);
  for (auto* option : {host, bodies, write}) {
    read->excludes(option);
    replay->excludes(option);
  }
  replay->excludes(read)->excludes(count);
  verb.add_option_function<std::string>(
          "--speed",
          [arguments = arguments.get()](const std::string& text) {
            char* end = nullptr;
            arguments->speed = text == "max" ? 0 : std::strtod(text.c_str(), &end);
            if (text != "max" && (end == nullptr || *end != '\0' ||
                                  !(arguments->speed >= 0.001 && arguments->speed <= 1e6)))
              throw CLI::ValidationError(
                  "--speed",
                  "takes how many times as fast, 0.001 to 1000000, or max, not '" + text + "'");
          },
          "How fast: 1 as it was (default), 10 ten times as fast, max without waiting")
      ->type_name("X|max")
      ->needs(replay);
}

}  // namespace meshbus::cli
