#include "client/cli/run_job.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>

#include "client/cli/input_pump.h"
#include "client/cli/job_signals.h"
#include "client/cli/output_writer.h"
#include "client/cli/run_report.h"
#include "common/quantity.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kTimeout = 124;
constexpr int kBrokenPipe = 128 + SIGPIPE;
/// What a stop may take beyond its grace before SIGKILL is ordered, and what that may take before we give up and say so.
constexpr milliseconds kStopSlack{5000};

void say(const std::string& text) {
  const std::string line = "meshbus: " + text + "\n";
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

/// "train" of "/opt/bin/train.sh"; what cannot stand in a name becomes '_'.
std::string name_of(const RunArguments& arguments) {
  if (!arguments.name.empty()) return arguments.name;
  std::string name = arguments.command.front();
  name = name.substr(name.find_last_of('/') + 1).substr(0, 40);
  if (const auto dot = name.find('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, "_");
  return Name::is_reserved(name) ? "_" + name : name;
}

/// What the handlers tell the main thread.
class News {
 public:
  News() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const noexcept { return fd_.get(); }
  void failed(const RankReport& rank) {
    tell([&] {
      if (!failure_) failure_ = rank;
    });
  }
  void ended() {
    tell([&] { ended_ = true; });
  }
  void nobody_reads() {
    tell([&] { nobody_reads_ = true; });
  }
  void wake() {
    tell([] {});
  }
  void clear() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(fd_.get(), &count, sizeof count);
  }
  std::optional<RankReport> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool is_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  bool is_unread() const {
    const std::lock_guard lock(mutex_);
    return nobody_reads_;
  }

 private:
  template <typename Change>
  void tell(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(fd_.get(), &one, sizeof one);
  }
  UniqueFd fd_;
  mutable std::mutex mutex_;
  std::optional<RankReport> failure_;
  bool ended_ = false;
  bool nobody_reads_ = false;
};

/// One run, from the start of its hosts to their end. Decides on the main thread; the library's threads only bring news.
class Job {
 public:
  explicit Job(const RunArguments& arguments) : arguments_(arguments) {}
  int run();

 private:
  Result<void> start();
  Result<ProcSpec> make_spec(const Context& context) const;
  Result<std::vector<std::uint64_t>> input_ranks(std::uint64_t size) const;
  void loop();
  void on_signal(int signal);
  void on_news();
  void on_time();
  void begin_stop(int code, const std::string& reason, bool at_once);
  int finish();

  const RunArguments& arguments_;
  JobSignals signals_;
  News news_;
  std::future<Result<void>> starting_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<HostMesh> hosts_;
  std::unique_ptr<OutputWriter> writer_;
  std::mutex writer_ready_;
  std::unique_ptr<ProcMesh> mesh_;
  std::unique_ptr<InputPump> pump_;
  milliseconds grace_{10'000};
  bool is_up_ = false;
  bool is_over_ = false;
  /// Set by the first reason to stop that is not a rank's own failure.
  std::optional<int> code_;
  enum class Stop { none, gracefully, at_once } stop_ = Stop::none;
  std::optional<Clock::time_point> timeout_at_;
  std::optional<Clock::time_point> escalate_at_;
};

Result<std::vector<std::uint64_t>> Job::input_ranks(std::uint64_t size) const {
  std::vector<std::uint64_t> ranks;
  if (arguments_.input == "none") return ranks;
  if (arguments_.input == "all") {
    for (std::uint64_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  }
  ranks.push_back(std::stoull(arguments_.input));
  if (ranks.front() >= size && size > 0)
    return fail(ErrorCode::configuration_error, "--stdin " + arguments_.input + ": there are only ranks 0.." + std::to_string(size - 1));
  return ranks;
}

Result<ProcSpec> Job::make_spec(const Context& context) const {
  ProcSpec spec;
  spec.kind = arguments_.mesh ? ProcKind::mesh : ProcKind::plain;
  spec.command = arguments_.command;
  spec.environment = arguments_.environment;
  spec.output = OutputMode::stream;
  spec.wait_ready = false;
  spec.grace = arguments_.grace;
  if (!arguments_.grace) {
    if (auto grace = context.setting("terminate.grace")) {
      if (auto duration = parse_duration(*grace)) spec.grace = *duration;
    }
  }
  return spec;
}

Result<void> Job::start() {
  ContextOptions options;
  for (const auto& setting : arguments_.settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos) return fail(ErrorCode::configuration_error, "--set takes KEY=VALUE, not '" + setting + "'");
    options.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  auto context = Context::create(std::move(options));
  if (!context) return fail(context.error());
  context_ = std::make_unique<Context>(std::move(*context));
  for (const auto& warning : context_->warnings()) say(warning);

  Result<HostMesh> hosts = fail(ErrorCode::internal, "no host");
  if (arguments_.addresses.empty()) {
    HostOptions host_options;
    host_options.containment = arguments_.containment;
    host_options.end_on_broker_loss = true;
    auto extent = Extent::make({{"host", arguments_.hosts}});
    if (!extent) return fail(extent.error());
    hosts = HostMesh::process(*context_, *extent, std::move(host_options));
  } else {
    std::vector<HostAddr> addresses;
    for (const auto& text : arguments_.addresses) {
      auto address = HostAddr::parse(text);
      if (!address) return fail(address.error().within("--hosts " + text));
      addresses.push_back(std::move(*address));
    }
    hosts = HostMesh::attach(*context_, "hosts", std::move(addresses));
  }
  if (!hosts) return fail(hosts.error());
  hosts_ = std::make_unique<HostMesh>(std::move(*hosts));

  const std::uint64_t on_hosts = hosts_->hosts().size();
  const std::uint64_t size = arguments_.total ? *arguments_.total : on_hosts * (arguments_.per_host ? arguments_.per_host->num_ranks() : 1);
  auto spec = make_spec(*context_);
  if (!spec) return fail(spec.error());
  grace_ = spec->grace.value_or(grace_);
  auto readers = input_ranks(size);
  if (!readers) return fail(readers.error());
  spec->input_ranks = to_rank_set(*readers);

  Handlers handlers;
  handlers.on_failure = [this](const RankReport& rank) { news_.failed(rank); };
  handlers.on_end = [this](const MeshOutcome&) { news_.ended(); };
  handlers.on_output = [this](std::uint64_t rank, Stream stream, std::string_view bytes) {
    const std::lock_guard lock(writer_ready_);
    if (!writer_->write(rank, stream, bytes)) news_.nobody_reads();
  };
  const std::string name = name_of(arguments_);
  // Output may come before spawn() has returned and the prefixes are known: it waits here.
  const std::lock_guard lock(writer_ready_);
  auto mesh = arguments_.per_host ? hosts_->spawn(name, *arguments_.per_host, std::move(*spec), std::move(handlers))
                                  : hosts_->spawn_n(name, size, std::move(*spec), std::move(handlers));
  if (!mesh) {
    writer_ = std::make_unique<OutputWriter>(std::vector<std::string>());
    return fail(mesh.error());
  }
  mesh_ = std::make_unique<ProcMesh>(std::move(*mesh));
  writer_ = std::make_unique<OutputWriter>(arguments_.no_prefix ? std::vector<std::string>() : make_prefixes(name, mesh_->ref()));
  if (!readers->empty()) pump_ = std::make_unique<InputPump>(*mesh_, *readers);
  return {};
}

int Job::run() {
  // Hosts may take a while to start; signals must work meanwhile.
  starting_ = std::async(std::launch::async, [this] {
    auto started = start();
    news_.wake();
    return started;
  });
  loop();
  return finish();
}

void Job::loop() {
  while (!is_over_) {
    int wait = -1;
    for (const auto& when : {timeout_at_, escalate_at_}) {
      if (!when) continue;
      const auto left =
          static_cast<int>(std::clamp<std::int64_t>(std::chrono::ceil<milliseconds>(*when - Clock::now()).count(), 0, 3'600'000));
      wait = wait < 0 ? left : std::min(wait, left);
    }
    pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {news_.fd(), POLLIN, 0}};
    ::poll(fds, 2, wait);
    if (fds[0].revents != 0) {
      while (const auto signal = signals_.next()) on_signal(*signal);
    }
    if (fds[1].revents != 0) {
      news_.clear();
      on_news();
    }
    on_time();
  }
}

void Job::on_signal(int signal) {
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
    const int code = signal == SIGINT ? 130 : 143;
    const std::string name = signal == SIGINT ? "Ctrl-C" : signal == SIGTERM ? "SIGTERM" : "hang-up";
    if (!is_up_) {
      // No mesh to stop yet. The hosts hold a lifeline of this process: they end with it.
      say(name + " while starting; nothing was run");
      ::_exit(code);
    }
    begin_stop(code, name, /*at_once=*/stop_ != Stop::none);
    return;
  }
  if (!is_up_) return;
  const int forwarded = signal == SIGTSTP ? SIGSTOP : signal;
  if (auto sent = mesh_->signal({}, forwarded, std::chrono::seconds(2)); !sent && sent.error().code() != ErrorCode::not_exist)
    say("cannot forward " + signal_name(signal) + ": " + sent.error().to_string());
  if (signal == SIGTSTP) JobSignals::stop_self();
}

void Job::on_news() {
  if (!is_up_) {
    if (!starting_.valid() || starting_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    if (auto started = starting_.get(); !started) {
      say(started.error().to_string());
      code_ = started.error().code() == ErrorCode::configuration_error || started.error().code() == ErrorCode::parse_error ? kUsage
                                                                                                                           : kOwnFailure;
      is_over_ = true;
      return;
    }
    is_up_ = true;
    // The time of the ranks: how long hosts may take to start has its own limit.
    if (arguments_.timeout) timeout_at_ = Clock::now() + *arguments_.timeout;
  }
  if (const auto failure = news_.failure(); failure && !arguments_.keep_going && stop_ == Stop::none) {
    // The code is that of the failure itself: see finish().
    stop_ = Stop::gracefully;
    escalate_at_ = Clock::now() + grace_ + kStopSlack;
    mesh_->request_stop(
        {.reason = "rank " + std::to_string(failure->rank) + " failed: " + failure->words(), .grace = grace_, .deadline = {}, .ranks = {}});
  }
  if (news_.is_unread() && !code_) begin_stop(kBrokenPipe, "nobody reads the output", /*at_once=*/false);
  if (news_.is_ended()) is_over_ = true;
}

void Job::on_time() {
  const auto now = Clock::now();
  if (timeout_at_ && now >= *timeout_at_) {
    timeout_at_.reset();
    begin_stop(kTimeout, "the --timeout of " + std::to_string(arguments_.timeout->count()) + " ms is over", /*at_once=*/false);
  }
  if (escalate_at_ && now >= *escalate_at_) {
    if (stop_ == Stop::gracefully) {
      begin_stop(code_.value_or(kOwnFailure), "the grace is over", /*at_once=*/true);
    } else {
      say("ranks are still there after SIGKILL was ordered; giving up on them");
      code_ = kOwnFailure;
      is_over_ = true;
    }
  }
}

void Job::begin_stop(int code, const std::string& reason, bool at_once) {
  // The first reason to stop decides the exit code, a rank's own failure included.
  if (!code_ && stop_ == Stop::none) {
    code_ = code;
    say(reason + ": stopping the mesh");
  }
  if (stop_ == Stop::at_once) return;
  stop_ = at_once ? Stop::at_once : Stop::gracefully;
  escalate_at_ = Clock::now() + (at_once ? milliseconds(0) : grace_) + kStopSlack;
  mesh_->request_stop({.reason = reason, .grace = at_once ? milliseconds(0) : grace_, .deadline = {}, .ranks = {}});
}

int Job::finish() {
  if (!is_up_) return code_.value_or(kOwnFailure);
  const MeshOutcome outcome = mesh_->known();
  int exit_code = code_.value_or(outcome.exit_code());
  if (outcome.first_failure) {
    const auto words = last_words(outcome);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, words.data(), words.size());
  }
  if (!outcome.is_ended()) {
    std::vector<std::uint64_t> left;
    for (const auto& rank : outcome.ranks) {
      if (!rank.is_terminal()) left.push_back(rank.rank);
    }
    say("not ended, or nobody can say: ranks " + to_string(to_rank_set(left)));
  }
  if (!arguments_.json.empty()) {
    const auto report = json_report(mesh_->ref(), outcome, exit_code);
    if (arguments_.json == "-") {
      std::cout << report << std::flush;
    } else if (std::ofstream file(arguments_.json); !(file << report << std::flush)) {
      say("cannot write the report to " + arguments_.json + ": " + std::strerror(errno));
      if (exit_code == 0) exit_code = kOwnFailure;
    }
  }
  // A rank that is stuck keeps its input pump waiting: end without joining it, the hosts see our lifeline end.
  if (!outcome.is_ended()) ::_exit(exit_code);
  pump_.reset();
  mesh_.reset();
  if (arguments_.addresses.empty()) {
    if (auto down = hosts_->shutdown(std::chrono::seconds(10), milliseconds(0), "the run is over"); !down) {
      say("the hosts of this run did not end in order: " + down.error().to_string());
      if (exit_code == 0) exit_code = kOwnFailure;
    }
  }
  return exit_code;
}

}  // namespace

int run_job(const RunArguments& arguments) {
  return Job(arguments).run();
}

}  // namespace meshbus::cli
