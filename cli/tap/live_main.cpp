// meshbus-tap SOCKET TOPIC [--json] [--count N] [--write FILE]: shows what a broker copies to its
// tap. `meshbus tap` becomes this program.
#include <sys/epoll.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <zmq.hpp>

#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "cli/tap/tap_sink.h"
#include "common/base/quantity.h"
#include "common/base/taken_signals.h"
#include "common/loop/reactor.h"
#include "common/loop/zmq_watch.h"

namespace {

using namespace meshbus;
using namespace meshbus::cli;

/// A broker with a tap says something at once, and then once a second.
constexpr std::chrono::seconds kFirstWord{5};
constexpr std::chrono::seconds kSilence{5};
/// What waits here when the output is slow: 64 MiB, more with large bodies. What is above is
/// missed, and told.
constexpr int kMostUnread = 1024;
constexpr std::int64_t kPartLimitOfTap = 8 * 1024 * 1024;

struct Arguments {
  std::string path;
  std::string topic;
  std::string write;
  TapSink::Options sink;
};

/// False: they are not those of `meshbus tap`.
bool parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 3) return false;
  arguments.path = argv[1];
  arguments.topic = argv[2];
  for (int at = 3; at < argc; ++at) {
    const std::string_view name = argv[at];
    if (name == "--json") {
      arguments.sink.json = true;
      continue;
    }
    if (at + 1 == argc) return false;
    const std::string value = argv[++at];
    if (name == "--count") {
      arguments.sink.count = parse_whole<std::uint64_t>(value);
      if (!arguments.sink.count) return false;
    } else if (name == "--write") {
      arguments.write = value;
    } else {
      return false;
    }
  }
  return true;
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

/// Copies from a broker until a signal ends it.
class LiveTap {
 public:
  explicit LiveTap(Arguments arguments)
      : path_(std::move(arguments.path)),
        sink_(std::move(arguments.sink)),
        subscriber_(context_, path_, arguments.topic) {}
  ~LiveTap() { reactor_.forget_socket(subscriber_.socket().handle()); }
  LiveTap(const LiveTap&) = delete;
  LiveTap& operator=(const LiveTap&) = delete;

  int run(TakenSignals& signals) {
    reactor_.watch(signals.fd(), EPOLLIN, [this, &signals](std::uint32_t) {
      if (const auto signal = signals.next()) end(128 + *signal);
    });
    watch_zmq(reactor_, subscriber_.socket().handle(), [this] { return on_readable(); });
    look_later(kFirstWord);
    if (sink_.write_out()) reactor_.run();
    reactor_.forget(signals.fd());
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
  TapSink sink_;
  Reactor reactor_;
  zmq::context_t context_{1};
  Subscriber subscriber_;
  Reactor::Time heard_{};
  bool is_tapping_ = false;
  bool is_silent_ = false;
  int code_ = 0;
};

int run(Arguments arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  TakenSignals signals({SIGINT, SIGTERM, SIGHUP});
  if (!arguments.write.empty()) {
    auto opened = TapFileWriter::open(arguments.write);
    if (!opened) {
      complain(opened.error().detail());
      return 1;
    }
    if (opened->cut() > 0)
      complain(arguments.write + " ended within a record: its last " +
               std::to_string(opened->cut()) + " bytes are cut off");
    arguments.sink.file.emplace(std::move(*opened));
  }
  return LiveTap(std::move(arguments)).run(signals);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr, "meshbus-tap is started by meshbus: use `meshbus tap`\n");
    return kUsage;
  }
  try {
    return run(std::move(arguments));
  } catch (const std::exception& error) {
    complain(error.what());
    return 1;
  }
}
